"""All recordings one after another in a mapped array of 16-bit samples, and where each begins.

The folder holds `audio.npy`, int16 (samples of all, channels), and `offsets.npy`, int64 (items + 1,): recording i is
`audio[offsets[i] : offsets[i + 1]]`. Open it with `numpy.load(path, mmap_mode="r")`.
"""

from scripts.formats._contract import Corpus, Path, Progress, Rows

VERSION = 1
REQUIRES = ("numpy",)
BYTES_PER_ITEM = lambda sample: sample.stored_bytes  # noqa: E731
READERS = False
KINDS = ("crops",)


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
    """Write the array, the offsets and the label arrays of one split into the empty folder `out`, front to back."""
    import numpy as np

    from scripts.common.arrays import npy_header
    from scripts.common.labels import write_labels

    offsets = np.cumsum([0, *(item.frames for item in corpus.items(split))], dtype=np.int64)
    with open(out / "audio.npy", "wb") as file:
        file.write(npy_header(np.dtype("<i2"), (int(offsets[-1]), corpus.sample.shape[0])))
        for item in corpus.items(split):
            file.write(np.ascontiguousarray(corpus.stored(item).T).tobytes())
            progress(1)
    np.save(out / "offsets.npy", offsets, allow_pickle=False)
    write_labels(corpus, split, out)


def read(out: Path, corpus: Corpus) -> Rows:
    """Yield (item index, recording, classes) in manifest order, copied out of the mapped array."""
    from itertools import pairwise

    import numpy as np

    from scripts.common.labels import with_labels

    audio = np.load(out / "audio.npy", mmap_mode="r", allow_pickle=False)
    bounds = pairwise(np.load(out / "offsets.npy", allow_pickle=False).tolist())
    return with_labels(out, (corpus.kind.delivered(audio[a:b].T, corpus.sample) for a, b in bounds))
