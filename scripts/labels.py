"""Labels beside the audio of a split, for formats whose files hold audio alone: three plain .npy arrays.

`clip.npy` int64 (n,), `target.npy` int64 (n,), `labels.npy` float32 (n, classes): position i of each belongs to the
i-th clip of the split in manifest order, which is also the number in a numbered file's name.
"""

from pathlib import Path

import numpy as np

from corpus import Corpus


def write_labels(corpus: Corpus, split: str, out: Path) -> None:
    """Write clip.npy, target.npy and labels.npy of one split into `out`; memory does not grow with the corpus."""
    count = corpus.counts[split]
    new = np.lib.format.open_memmap
    clip = new(out / "clip.npy", mode="w+", dtype=np.int64, shape=(count,))
    target = new(out / "target.npy", mode="w+", dtype=np.int64, shape=(count,))
    labels = new(out / "labels.npy", mode="w+", dtype=np.float32, shape=(count, corpus.classes))
    for position, row in enumerate(corpus.clips(split)):
        clip[position] = row.index
        target[position] = row.classes[0]
        labels[position, list(row.classes)] = 1.0
    for array in (clip, target, labels):
        array.flush()


def read_labels(split_dir: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (clip int64 (n,), target int64 (n,), labels float32 (n, classes)), read into memory."""
    return tuple(np.load(split_dir / f"{name}.npy", allow_pickle=False) for name in ("clip", "target", "labels"))
