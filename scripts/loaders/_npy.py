"""What the loaders of numbered NumPy files share: a batch read at a time, each item straight into its row."""

from pathlib import Path
from typing import Any

from scripts.common.request import LoaderRequest
from scripts.loaders._torch import Batches, empty_batch

# Of the programs with `gather`: the data set, up to what it does item by item.
BATCH_SNIPPET = """
$items_class

    $when gather=batch
    def __getitems__(self, positions):  # a batch at a time
        $item = empty_batch(len(positions))
        for position, row in zip(positions, $item.numpy(), strict=True):
            with open(data / f"{position:06d}.npy", "rb", buffering=0) as file:
                file.seek(header_bytes)
                if file.readinto(row) != row.nbytes:
                    raise EOFError(f"{file.name} ends within the item")
        return {"$item": $item, "target": target[positions], "labels": labels[positions]}
"""


def path_of(data: Path, position: int) -> Path:
    """Return the file of the item at `position` of a split."""
    return data / f"{position:06d}.npy"


class Files(Batches):
    """The numbered files, in whole batches, beyond a header that is of one length in all of them."""

    ENDING = "npy"

    def __init__(self, request: LoaderRequest) -> None:
        super().__init__(request)
        self.header_bytes = self.header_of(self.data / f"{0:06d}.{self.ENDING}")

    def header_of(self, path: Path) -> int:
        """Return the bytes before a file's data."""
        import numpy as np

        return np.load(path, mmap_mode="r", allow_pickle=False).offset

    def gathered(self, positions: list[int]) -> Any:
        """Return (n, ...). Raises EOFError for a file that is too short."""
        batch = empty_batch(len(positions), self.sample)
        for position, row in zip(positions, batch.numpy(), strict=True):
            self._read_into(row, self.data / f"{position:06d}.{self.ENDING}")
        return batch

    def _read_into(self, row: Any, path: Path) -> None:
        with open(path, "rb", buffering=0) as file:
            file.seek(self.header_bytes)
            if file.readinto(row) != row.nbytes:
                raise EOFError(
                    f"{path} is shorter than its header of {self.header_bytes} and an item of {row.nbytes} bytes"
                )
