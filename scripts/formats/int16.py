"""One int16 array a split, mapped into memory: half the bytes of float32, and one multiplication left to decode.

A split's folder holds `audio.npy`, int16 (n, 1, samples), whose row i is the i-th clip of the split, padded or cut, and
the three label arrays of `common/labels.py`. A loader opens it with `numpy.load(folder / "audio.npy", mmap_mode="r")`
and divides by 32768, which is exact. `read` gives the target first and the other classes in ascending order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from scripts.common.corpus import Corpus

REQUIRES = ("numpy",)
BYTES_PER_CLIP = lambda samples: samples * 2  # noqa: E731
READERS = False


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Callable[[int], None]) -> None:  # noqa: ARG001
    """Write audio.npy and the label arrays of one split into the empty folder `out`, front to back."""
    import numpy as np

    from scripts.common.arrays import WHOLE_PAGE, npy_header
    from scripts.common.labels import write_labels

    count = corpus.counts[split]
    if not count:
        return
    with open(out / "audio.npy", "wb") as file:
        file.write(npy_header("<i2", (count, 1, corpus.samples), WHOLE_PAGE))
        for clip in corpus.clips(split):
            file.write(np.ascontiguousarray(corpus.padded(clip), dtype="<i2"))
            progress(1)
    write_labels(corpus, split, out)


def read(out: Path, corpus: Corpus) -> Iterator[tuple[int, np.ndarray, list[int]]]:  # noqa: ARG001
    """Yield (clip index, float32 (1, samples), classes) in manifest order, converted out of the mapped array."""
    import numpy as np

    from scripts.common.corpus import to_float
    from scripts.common.labels import class_lists, read_labels

    if not any(out.iterdir()):
        return
    clips, target, labels = read_labels(out)
    audio = np.load(out / "audio.npy", mmap_mode="r", allow_pickle=False)
    for position, classes in enumerate(class_lists(target, labels)):
        yield int(clips[position]), np.array(to_float(audio[position])), classes
