"""Items of stored values, {key: values (n,), "position": in the split}, made into batches; labels are beside them."""

import numpy as np
import torch

from scripts.loaders._plain.data_loader import empty_batch
from scripts.loaders._plain.labels import read_labels, rows_of


def decode(values, scale, row):
    """Write stored values into a row of the batch: padded with zeros or cut, and multiplied where there is a scale."""
    values, row = np.asarray(values)[: row.size], row.reshape(-1)
    if scale is None:
        row[: len(values)] = values
    else:
        np.multiply(values, np.float32(scale), out=row[: len(values)])
    row[len(values) :] = 0


class Stored:
    """Collates items of stored values: a batch in one pass, in a worker straight into shared memory."""

    def __init__(self, data, key, shape, dtype, scale):
        self.key, self.shape, self.dtype, self.scale, self.labels = key, shape, dtype, scale, read_labels(data)

    def __call__(self, items):
        batch = empty_batch(len(items), self.shape, self.dtype)
        for item, row in zip(items, batch.numpy(), strict=True):
            decode(item[self.key], self.scale, row)
        positions = torch.tensor([int(item["position"]) for item in items])
        return {self.key: batch, **rows_of(self.labels, positions)}
