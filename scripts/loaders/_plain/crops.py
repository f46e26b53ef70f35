"""A DataLoader over pieces of recordings: each epoch delivers another piece of each, whose place comes with its index.

The sampler draws the places, so that they are those of an epoch whatever the number of workers. Drawn in a Dataset,
they would be those of a worker's own generator.
"""

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from scripts.loaders._plain.data_loader import as_is, empty_batch
from scripts.loaders._plain.labels import read_labels, rows_of


class Crops(Dataset):
    """Pieces of recordings, of one length. A subclass has `read(position, start, row)`, which fills a row with one."""

    def __init__(self, data, shape):
        self.data, self.shape, self.labels = data, shape, read_labels(data)

    def __len__(self):
        return len(self.labels["target"])

    def __getitems__(self, places):
        batch = empty_batch(len(places), self.shape, "float32")
        for (position, start), row in zip(places, batch.numpy(), strict=True):
            self.read(position, start, row)
        positions, starts = torch.tensor(places).unbind(1)
        return {"audio": batch, "start": starts, **rows_of(self.labels, positions)}


class Files(Crops):
    """Pieces of numbered files, by a function of `_plain/pieces.py`."""

    def __init__(self, data, shape, ending, read_piece):
        super().__init__(data, shape)
        self.ending, self.read_piece, self.frames = ending, read_piece, np.load(data / "frames.npy")

    def read(self, position, start, row):
        self.read_piece(f"{self.data}/{position:06d}.{self.ending}", start, row)
        row[:, max(0, self.frames[position] - start) :] = 0  # a codec may add what was never recorded


class Places(Sampler):
    """Gives (position, start) of a piece of each recording, in a new order and at new places in each epoch."""

    pieces = True

    def __init__(self, frames, samples, seed):
        self.frames, self.places_of, self.epoch = frames, places_of(frames, samples, seed), 0

    def __len__(self):
        return len(self.frames)

    def __iter__(self):
        self.epoch += 1
        yield from self.places_of(self.epoch - 1).tolist()


def places_of(frames, samples, seed):
    """Return a function from the number of an epoch to its pieces, int64 (items, 2): position and first sample."""
    room = np.maximum(frames - samples, 0)

    def places(epoch):
        order = np.random.default_rng([seed, epoch]).permutation(len(room))
        starts = np.random.default_rng([seed, epoch, 1]).integers(0, room + 1)
        return np.stack([order, starts[order]], axis=1)

    return places


def crop_loader(dataset, seed, **arguments):
    """Return a DataLoader that gives a piece of every recording once an epoch."""
    places = Places(np.load(dataset.data / "frames.npy"), dataset.shape[-1], seed)
    return DataLoader(dataset, sampler=places, collate_fn=as_is, **arguments)
