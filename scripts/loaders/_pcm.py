"""What loaders share whose items are {"audio": int16 (frames,), "position": int}: whole batches, and parts left out.

The items come out of a library's shards; the labels are beside these (`common/labels.py`), by position in the split.
"""

from collections.abc import Iterator
from typing import Any

from scripts.common.request import LoaderRequest
from scripts.loaders._torch import Batch, count_alone, empty_batch

STAGES = ("read", "transfer", "decode")


class PcmBatches:
    """A collate function: a list of items becomes a batch of the loader contract, float32 and padded in one pass.

    In a worker process the audio is written into shared memory at once, as torch's own collating does it. `counted`:
    whether only the number of clips is returned, which is sent when the transfer is left out.
    """

    def __init__(self, request: LoaderRequest, counted: bool = False) -> None:
        import torch

        from scripts.common.labels import read_labels

        self.request, self.counted = request, counted
        self.clip, self.target, self.labels = map(torch.from_numpy, read_labels(request.label_folder))

    def __call__(self, items: list[dict[str, Any]]) -> Batch:
        import torch

        positions = torch.tensor([int(item["position"]) for item in items])
        batch = {
            "audio": self._audio([item["audio"] for item in items]),
            "target": self.target[positions],
            "labels": self.labels[positions],
            "clip": self.clip[positions],
        }
        return count_alone(batch) if self.counted else batch

    def _audio(self, clips: list[Any]) -> Any:
        """Return float32 (batch, 1, samples): each clip padded or cut; silence where decoding is left out."""
        import numpy as np

        audio = empty_batch(len(clips), self.request.sample)
        for pcm, row in zip(clips, audio.numpy()[:, 0], strict=True):
            frames = 0 if "decode" in self.request.without else min(len(pcm), len(row))
            np.multiply(pcm[:frames], np.float32(1 / 32768), out=row[:frames])
            row[frames:] = 0
        return audio


def first_again(items: Iterator[Any], request: LoaderRequest) -> Iterator[Any]:
    """Yield this process's first item as often as its share has clips: reading is left out."""
    share = -(-request.clips // (request.world * max(1, request.workers)))
    for item in items:
        yield from (item for _ in range(share))
        return
