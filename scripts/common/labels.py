"""Labels beside the data of a split, for formats whose files hold data alone: three plain .npy arrays.

`item.npy` int64 (n,), `target.npy` int64 (n,), `labels.npy` float32 (n, classes): position i of each belongs to the
i-th item of the split in manifest order, which is also the number in a numbered file's name. A split without items
has no arrays: its folder is empty, since an array without elements cannot be mapped.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from scripts.common.arrays import npy_header
from scripts.common.corpus import Corpus
from scripts.common.vocabulary import CROPS


class LabelRow(NamedTuple):
    """What a loader delivers beside the data of one item."""

    item: np.ndarray  # int64 (), index in the manifest
    target: np.ndarray  # int64 (), first class
    labels: np.ndarray  # float32 (classes,), multi-hot


def label_rows(corpus: Corpus, split: str) -> Iterator[LabelRow]:
    """Yield the labels of one split's items in manifest order; streams, keeps nothing."""
    for item in corpus.items(split):
        hot = np.zeros(corpus.classes, dtype=np.float32)
        hot[list(item.classes)] = 1.0
        yield LabelRow(np.int64(item.index), np.int64(item.classes[0]), hot)


def write_labels(corpus: Corpus, split: str, out: Path) -> None:
    """Write item.npy, target.npy and labels.npy of one split into `out`, or nothing for a split without items.

    Of recordings frames.npy too, int64 (n,): the length of each in samples. Memory does not grow with the corpus.
    """
    count = corpus.counts[split]
    if not count:
        return
    if corpus.sample.kind == CROPS:
        frames = np.fromiter((item.frames for item in corpus.items(split)), np.int64, count)
        np.save(out / "frames.npy", frames, allow_pickle=False)
    with (
        open(out / "item.npy", "wb") as items,
        open(out / "target.npy", "wb") as targets,
        open(out / "labels.npy", "wb") as labels,
    ):
        items.write(npy_header(np.int64, (count,)))
        targets.write(npy_header(np.int64, (count,)))
        labels.write(npy_header(np.float32, (count, corpus.classes)))
        for row in label_rows(corpus, split):
            items.write(row.item.tobytes())
            targets.write(row.target.tobytes())
            labels.write(row.labels.tobytes())


def read_labels(split_dir: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (item int64 (n,), target int64 (n,), labels float32 (n, classes)), read into memory.

    Raises FileNotFoundError for a folder without label arrays, which a split without items has.
    """
    return tuple(np.load(split_dir / f"{name}.npy", allow_pickle=False) for name in ("item", "target", "labels"))


def class_lists(target: Iterable[int], labels: Iterable[np.ndarray]) -> Iterator[list[int]]:
    """Yield each item's class numbers: the target first, then the others in ascending order.

    A multi-hot row does not know the manifest's order of the classes after the first.
    """
    for first, row in zip(target, labels, strict=True):
        others = (int(number) for number in np.flatnonzero(row))
        yield [int(first), *(number for number in others if number != int(first))]


def with_labels(out: Path, items: Iterable[np.ndarray]) -> Iterator[tuple[int, np.ndarray, list[int]]]:
    """Yield (item index, delivered item, classes) of items in manifest order, from the label arrays in `out`.

    An item may be an array that is filled or mapped again for the next: each is copied. The classes are the target
    first, then the others in ascending order.
    """
    numbers, target, labels = read_labels(out)
    for number, item, classes in zip(numbers.tolist(), items, class_lists(target, labels), strict=True):
        yield number, np.array(item), classes


def numbered(out: Path, suffix: str) -> list[Path]:
    """Return the files of a folder that are named by a position, such as 000007.wav, in the order of the positions."""
    return sorted(out.glob(f"[0-9]*{suffix}"), key=lambda path: int(path.stem))
