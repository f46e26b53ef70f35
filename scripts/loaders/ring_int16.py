"""Our own ring over int16: half the bytes are read, kept in memory and sent; float32 is made where the batch is used.

As `ring`, over an array of int16. On a CPU the threads convert while they copy: choose it where the storage or the
memory is what is short. On a GPU the batch is sent as int16 and converted there: choose it where the bus is.
"""

from scripts.loaders._ring.epochs import OPTIONS, SETTINGS, STAGES, lifetime, open_ring, simplify, unsuited  # noqa: F401

FORMAT = "int16"
REQUIRES = ("torch", "numpy")
LIFETIME = lifetime
SNIPPET = """
from ring_reader import RingReader

$head
$labels
direct = $direct  # reads past the page cache: for a set larger than memory
random = np.random.default_rng($seed)
reader = RingReader(  # ring_reader.py is one file that stands alone: copy it from feedrate's scripts
    data / "audio.npy",
    batch_size,
    threads=$workers,
    ahead=$prefetch,
    device=device,
    pin=$pin_memory,
    scale=1 / 32768,  # int16 becomes float32 where it is used
    source="direct" if direct else "auto",
    copies=$copies,  # False: on a CPU a batch is valid until the next one is taken
)


class Loader:
    following = random.permutation(len(reader))

    def __iter__(self):
        order, self.following = self.following, random.permutation(len(reader))
        for audio, targets, hot in reader.batches(order, target, labels, then=self.following):
            yield {"audio": audio, "target": targets, "labels": hot}


$own_loader
"""


def open_epochs(request):
    """Return what opens the epoch function over the array of int16."""
    return open_ring(request, scale=1 / 32768)
