"""What loaders share whose items are {KEY: stored values (n,), "position": int}: whole batches, and parts left out.

The items come out of a library's shards; the labels are beside these (`common/labels.py`), by position in the split.
"""

from collections.abc import Iterator
from typing import Any

from scripts.common import plugins
from scripts.common.request import LoaderRequest
from scripts.loaders._torch import Batch, empty_batch, labels_of, rows_of

STAGES = ("read", "transfer", "decode")


class StoredBatches:
    """A collate function: a list of items becomes a batch of the loader contract, of audio float32 padded in one pass.

    In a worker process the data is written into shared memory at once, as torch's own collating does it.
    """

    def __init__(self, request: LoaderRequest) -> None:
        self.request, self.labels = request, labels_of(request)
        self.delivered = plugins.load("kinds", request.sample.kind).delivered

    def __call__(self, items: list[dict[str, Any]]) -> Batch:
        import torch

        key = self.request.sample.key
        positions = torch.tensor([int(item["position"]) for item in items])
        return {key: self._data([item[key] for item in items]), **rows_of(self.labels, positions)}

    def _data(self, stored: list[Any]) -> Any:
        """Return (batch, ...), of audio padded or cut; zeros where decoding is left out."""
        import numpy as np

        batch = empty_batch(len(stored), self.request.sample)
        for values, row in zip(stored, batch.numpy(), strict=True):
            if "decode" in self.request.without:
                row[...] = 0
            else:
                self.delivered(np.asarray(values), self.request.sample, row)
        return batch


def first_again(items: Iterator[Any], request: LoaderRequest) -> Iterator[Any]:
    """Yield this process's first item as often as its share has items: reading is left out."""
    share = -(-request.items // (request.world * max(1, request.workers)))
    for item in items:
        yield from (item for _ in range(share))
        return
