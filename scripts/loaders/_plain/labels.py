"""The labels of a split: arrays beside its data, `target.npy` and `labels.npy`, read once and taken by position."""

from functools import partial

import numpy as np
import torch

COLUMNS = ("target", "labels")  # int64 (items,), the first class of an item; float32 (items, classes)


def read_labels(folder):
    """Return the labels of all items, by name."""
    return {name: torch.from_numpy(np.load(folder / f"{name}.npy")) for name in COLUMNS}


def rows_of(labels, where):
    """Return the labels of one item or of several, by position."""
    return {name: rows[where] for name, rows in labels.items()}


def labels_in(about, classes=None, columns=None):
    """Return the labels of items by what is known of each: `labels` where it is known how many classes there are."""
    columns = columns or COLUMNS
    found = {"target": torch.tensor([one["classes"][0] for one in about])}
    if classes:
        found["labels"] = torch.zeros(len(about), classes)
        for row, one in zip(found["labels"].numpy(), about, strict=True):
            row[one["classes"]] = 1.0
    return found | {name: torch.tensor([one[name] for one in about]) for name in columns if name in about[0]}


def labelled(classes):
    """Return `labels_in` for so many classes, which a worker can be sent that is no fork."""
    return partial(labels_in, classes=classes, columns=COLUMNS)


def columns_of(found, key):
    """Return the data, `key`, and the labels of what holds both, an item or all of them."""
    return {name: found.get(name) for name in (key, *COLUMNS)}
