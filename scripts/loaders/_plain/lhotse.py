"""Lhotse's cuts of whole recordings: each is decoded into its row of the batch."""

from torch.utils.data import DataLoader, Dataset

from scripts.loaders._plain.data_loader import empty_batch
from scripts.loaders._plain.labels import labelled


def decode(cut, row):
    """Decode the recording of a cut into a row of the batch, (1, samples): padded with zeros or cut."""
    found = cut.load_audio()[:, : row.shape[1]]
    row[:, : found.shape[1]] = found
    row[:, found.shape[1] :] = 0


class Cuts(Dataset):
    """Batches of cuts: a sampler chooses them, and gives them as a CutSet."""

    def __init__(self, key, shape, dtype, classes):
        self.key, self.shape, self.dtype, self.labels_of = key, shape, dtype, labelled(classes)

    def __getitem__(self, cuts):
        batch = empty_batch(len(cuts), self.shape, self.dtype)
        for cut, row in zip(cuts, batch.numpy(), strict=True):
            decode(cut, row)
        return {self.key: batch, **self.labels_of([cut.custom for cut in cuts])}


class Loader(DataLoader):
    """Tells the sampler the number of each epoch, which then has an order of its own."""

    epoch = 0

    def __iter__(self):
        self.sampler.set_epoch(self.epoch)
        self.epoch += 1
        return super().__iter__()
