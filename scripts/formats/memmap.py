"""One float32 array a split, mapped into memory: a single file, nothing left to decode.

A split's folder holds `audio.npy`, float32 (n, 1, samples), whose row i is the i-th clip of the split, and the three
label arrays of `common/labels.py`. A loader opens it with `numpy.load(folder / "audio.npy", mmap_mode="r")`. `read`
gives the target first and the other classes in ascending order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from scripts.common.corpus import Corpus

REQUIRES = ("numpy",)
BYTES_PER_CLIP = lambda samples: samples * 4  # noqa: E731
READERS = False
ONE_ARRAY = "audio.npy"  # all clips, float32 (n, 1, samples): what moving clips is measured with


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Callable[[int], None]) -> None:  # noqa: ARG001
    """Write audio.npy and the label arrays of one split into the empty folder `out`, front to back."""
    import numpy as np

    from scripts.common.arrays import WHOLE_PAGE, float_clips, npy_header
    from scripts.common.labels import write_labels

    count = corpus.counts[split]
    if not count:
        return
    with open(out / "audio.npy", "wb") as file:
        file.write(npy_header(np.float32, (count, 1, corpus.samples), WHOLE_PAGE))
        for row in float_clips(corpus, split):
            file.write(row)
            progress(1)
    write_labels(corpus, split, out)


def read(out: Path, corpus: Corpus) -> Iterator[tuple[int, np.ndarray, list[int]]]:  # noqa: ARG001
    """Yield (clip index, float32 (1, samples), classes) in manifest order, copied out of the mapped array."""
    import numpy as np

    from scripts.common.labels import class_lists, read_labels

    if not any(out.iterdir()):
        return
    clips, target, labels = read_labels(out)
    audio = np.load(out / "audio.npy", mmap_mode="r", allow_pickle=False)
    for position, classes in enumerate(class_lists(target, labels)):
        yield int(clips[position]), np.array(audio[position]), classes
