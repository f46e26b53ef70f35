"""MosaicML's MDS shards of 16-bit PCM in natural length: files of 64 MB with an index, for any clip at random.

A split's folder holds `shard.00000.mds`, `shard.00001.mds`, ... and `index.json`, as the library's MDSWriter makes
them, and the three label arrays of `common/labels.py`. A sample is {"audio": int16 (frames,), "position": the clip's
position in the split}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from scripts.common.corpus import Corpus

ENV = "mosaic"
REQUIRES = ("streaming", "numpy")
BYTES_PER_CLIP = lambda samples: samples * 2  # noqa: E731
READERS = False
BLOCK_BYTES = 1 << 26  # of a shard, which is held in memory until it is full; the library's own default
COLUMNS = {"audio": "ndarray:int16", "position": "int"}


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Callable[[int], None]) -> None:  # noqa: ARG001
    """Write the shards, the index and the label arrays of one split into the empty folder `out`."""
    from streaming import MDSWriter

    from scripts.common.labels import write_labels

    with MDSWriter(columns=COLUMNS, out=str(out), size_limit=BLOCK_BYTES) as writer:  # it wants the folder empty
        write_labels(corpus, split, out)
        for position, clip in enumerate(corpus.clips(split)):
            writer.write({"audio": corpus.pcm(clip)[: corpus.samples], "position": position})
            progress(1)


def read(out: Path, corpus: Corpus) -> Iterator[tuple[int, np.ndarray, list[int]]]:
    """Yield (clip index, float32 (1, samples), classes) in manifest order, through the library's reader of shards.

    Not through its LocalDataset, which leaves it to the garbage collector to close the index.
    """
    if not any(out.iterdir()):
        return
    from streaming.base.format import reader_from_json

    from scripts.common.corpus import pad_or_cut, to_float
    from scripts.common.files import read_json
    from scripts.common.labels import class_lists, read_labels

    clips, target, labels = read_labels(out)
    classes = class_lists(target, labels)
    for about in read_json(out / "index.json")["shards"]:
        shard = reader_from_json(str(out), None, about)
        for number in range(len(shard)):
            item = shard[number]
            audio = to_float(pad_or_cut(item["audio"], corpus.samples))[None]
            yield int(clips[item["position"]]), audio, next(classes)
