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


def labels_in(about, classes):
    """Return the labels of a batch from what is said of each item: {"classes": their numbers, the first one first}."""
    labels = torch.zeros(len(about), classes)
    for row, one in zip(labels.numpy(), about, strict=True):
        row[one["classes"]] = 1
    found = {"target": torch.tensor([one["classes"][0] for one in about]), "labels": labels}
    return {name: found[name] if name in found else torch.tensor([one[name] for one in about]) for name in COLUMNS}
