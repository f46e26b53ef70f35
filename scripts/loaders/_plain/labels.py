"""The labels of a split: arrays beside its data, `target.npy` and `labels.npy`, read once and taken by position."""

import numpy as np
import torch

COLUMNS = ("target", "labels")  # int64 (items,), the first class of an item; float32 (items, classes)


def read_labels(folder):
    """Return the labels of all items, by name."""
    return {name: torch.from_numpy(np.load(folder / f"{name}.npy")) for name in COLUMNS}


def rows_of(labels, where):
    """Return the labels of one item or of several, by position."""
    return {name: rows[where] for name, rows in labels.items()}
