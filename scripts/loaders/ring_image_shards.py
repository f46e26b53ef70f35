"""Our own ring of reused buffers over tar shards of images, as WebDataset's: read by position, decoded in threads.

The shards' headers are read once, when the loader opens: from then on a member is one read at its place in its shard,
in any order, without a file to open. Every epoch is one random permutation, with no shuffle buffer, and ranks and
threads need no shard of their own. Each of `workers` threads decodes an image at a time straight into its row of a
batch, without Python's lock; set them to the number of cores. `decoder` is the library, as of `image_files`. On a CPU a
batch is valid until the next one is taken; `copies: true` gives each memory of its own.
"""

import json
import os
import tarfile
from contextlib import ExitStack, contextmanager

from scripts.loaders._image import DECODE_SNIPPET, DECODER, decode_of, never  # noqa: F401
from scripts.loaders._ring.epochs import SETTINGS, lifetime  # noqa: F401
from scripts.loaders._ring.fetching import AT_ONCE, COPIES, open_fetching, program
from scripts.loaders._torch import simplify_threads as simplify  # noqa: F401
from scripts.loaders._webdataset import labels_in, shards_of

FORMAT = "webdataset"
KINDS = ("image",)
REQUIRES = ("torch", "numpy", "opencv-python-headless")
LIFETIME = lifetime
STAGES = ("read", "decode")
OPTIONS = {**DECODER, **COPIES}
SNIPPET = (
    """
import json
import os
import tarfile
import numpy as np
import torch
from ring_reader import FetchingRing

$head


places, classes = [], []  # of each image: (shard, first byte, bytes); its classes
for path in sorted(data.glob("*.tar")):
    file = os.open(path, os.O_RDONLY)
    with tarfile.open(path, "r:") as tar:
        for member in tar:
            place = file, member.offset_data, member.size
            if member.name.endswith(".$ending"):
                places.append(place)
            elif member.name.endswith(".json"):
                classes.append(json.loads(os.pread(file, member.size, member.offset_data))["classes"])
places = np.array(places)
target = torch.tensor([first for first, *_ in classes])  # int64 (images,), the first class of an image
labels = torch.zeros(len(classes), 1 + max(map(max, classes)))  # as many as are in this split
for row, numbers in zip(labels, classes, strict=True):
    row[numbers] = 1


"""
    + DECODE_SNIPPET
    + """

class Members:  # of each thread
    def __init__(self):
        self.content = memoryview(bytearray(places[:, 2].max()))

    def read_into(self, position, row):
        file, first, size = places[position].tolist()
        os.preadv(file, [self.content[:size]], first)
        decode(self.content[:size], row)

    def close(self):
        pass
"""
    + program("Members", "$workers", AT_ONCE)
)


class Shards:
    """Where each image of a split is, in open files, and what is said of it beside it.

    `places` int64 (images, 3): file descriptor, first byte, bytes; `paths`: the shard of a descriptor. Raises
    ValueError, which names the shard, where one is cut short or an image has no JSON beside it.
    """

    def __init__(self, request, stack):
        import numpy as np

        self.paths, places, about = {}, [], []
        for path in shards_of(request):
            file = os.open(path, os.O_RDONLY)
            stack.callback(os.close, file)
            self.paths[file] = path
            images, notes = _members(path, file, request.sample.ending)
            places += images
            about += notes
        if len(places) != request.items:
            raise ValueError(
                f"{request.data}: found {len(places)} images in {len(self.paths)} tar shards, the split has "
                f"{request.items}: a shard is not there or was cut short"
            )
        self.places = np.array(places, np.int64)
        self.labels = labels_in(about, request)


def _members(path, file, ending):
    """Return (places of the images of a shard, what its JSON members say), in the order of the shard."""
    places, about = {}, {}  # by the members' name
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                name, _, kind = member.name.rpartition(".")
                if kind == ending:
                    places[name] = file, member.offset_data, member.size
                elif kind == "json":
                    about[name] = json.loads(os.pread(file, member.size, member.offset_data))
    except (tarfile.TarError, ValueError) as error:
        raise ValueError(f"{path}: it cannot be read as a tar shard: {error}") from error
    if alone := sorted(places.keys() ^ about.keys()):
        raise ValueError(f"{path}: {alone[0]}: found one of .{ending} and .json; an image needs both")
    return places.values(), map(about.get, places)


class Members:
    """Reads and decodes images, by their position, for the ring: each thread has a place of its own for a file."""

    def __init__(self, shards, decode):
        self.shards, self.decode, self.places = shards, decode, shards.places
        self.content = memoryview(bytearray(int(self.places[:, 2].max())))

    def read_into(self, position, row):
        """Fill a row with an image. Raises EOFError where the shard has been cut short since it was opened."""
        file, first, size = self.places[position].tolist()
        content = self.content[:size]
        found = os.preadv(file, [content], first)
        if found != size:
            path = self.shards.paths[file]
            raise EOFError(f"{path}: found {found} of {size} bytes from {first}: it was cut short while it was open")
        self.decode(content, row)

    def close(self):
        """Do nothing: the shards stay open until the loader is closed."""


@contextmanager
def open_epochs(request):
    """Yield the epoch function over the members of the shards."""
    with ExitStack() as stack:
        shards, decode = Shards(request, stack), decode_of(request)
        workers = max(1, request.workers)
        ring = open_fetching(request, lambda: Members(shards, decode), workers, AT_ONCE, shards.labels)
        yield stack.enter_context(ring)
