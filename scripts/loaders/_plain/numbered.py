"""Numbered files of one shape: each item's data is read straight into its row of the batch."""

from scripts.loaders._plain.data_loader import Batches, empty_batch


class Files(Batches):
    """Numbered files in whole batches, each beyond a header that is of one length in all of them."""

    def __init__(self, data, key, shape, dtype, ending, header_bytes):
        super().__init__(data, key)
        self.shape, self.dtype, self.ending, self.header_bytes = shape, dtype, ending, header_bytes

    def batch(self, positions):
        batch = empty_batch(len(positions), self.shape, self.dtype)
        for position, row in zip(positions, batch.numpy(), strict=True):
            with open(self.data / f"{position:06d}.{self.ending}", "rb", buffering=0) as file:
                file.seek(self.header_bytes)
                if file.readinto(row) != row.nbytes:
                    raise EOFError(f"{file.name} ends within the {row.nbytes} bytes of its item")
        return batch
