"""One Zarr array a split (format 3, in a local folder): a chunk for each clip, not compressed, each chunk a file.

A split's folder holds `clips.zarr`, float32 (n, 1, samples), whose row i is the i-th clip of the split and lies in the
file `c/i/0/0`; and the three label arrays of `common/labels.py`. `read` gives the target first and the other classes
in ascending order.

Shards, many chunks in one file, are what Zarr's guide proposes where files are too many. A clip of a shard costs its
reader two reads, of the shard's index and of the clip, each time anew; so there are none here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from scripts.common.corpus import Corpus

REQUIRES = ("numpy", "zarr")
BYTES_PER_CLIP = lambda samples: samples * 4  # noqa: E731
READERS = False


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Callable[[int], None]) -> None:  # noqa: ARG001
    """Write clips.zarr and the label arrays of one split into the empty folder `out`, a clip at a time."""
    import zarr

    from scripts.common.arrays import float_clips
    from scripts.common.labels import write_labels

    array = zarr.create_array(
        out / "clips.zarr",
        shape=(corpus.counts[split], 1, corpus.samples),
        chunks=(1, 1, corpus.samples),
        dtype="float32",
        compressors=None,
        config={"write_empty_chunks": True},  # a silent clip is a clip: without its file nothing would be read
    )
    for position, row in enumerate(float_clips(corpus, split)):
        array[position] = row
        progress(1)
    write_labels(corpus, split, out)


def read(out: Path, corpus: Corpus) -> Iterator[tuple[int, np.ndarray, list[int]]]:  # noqa: ARG001
    """Yield (clip index, float32 (1, samples), classes) in manifest order, by indexing the array."""
    import zarr

    from scripts.common.labels import class_lists, read_labels

    if not any(out.iterdir()):
        return
    clips, target, labels = read_labels(out)
    array = zarr.open_array(out / "clips.zarr", mode="r")
    for position, classes in enumerate(class_lists(target, labels)):
        yield int(clips[position]), array[position], classes
