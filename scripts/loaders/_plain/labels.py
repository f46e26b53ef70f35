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


def labels_in(about, classes=None):
    """Return the labels of items, by name, of what is said of each: `classes`, its own, the first one its target.

    `classes` is how many there are in all; None: as many as these items have.
    """
    numbers = [one["classes"] for one in about]
    labels = torch.zeros(len(about), classes or 1 + max(map(max, numbers)))
    for row, own in zip(labels.numpy(), numbers, strict=True):
        row[own] = 1
    known = {"target": torch.tensor([first for first, *_ in numbers]), "labels": labels}
    return {name: known[name] if name in known else torch.tensor([one[name] for one in about]) for name in COLUMNS}
