"""LitData's StreamingDataset, without the chunks of former epochs."""

from litdata import StreamingDataset
from litdata.streaming.item_loader import BaseItemLoader
from litdata.streaming.shuffle import FullShuffle, NoShuffle, WindowShuffle
from litdata.utilities.env import _DistributedEnv


class Split(StreamingDataset):
    """Lets go of the chunks of an epoch when the next one begins: functions of the library keep those of ten mapped."""

    def __iter__(self):
        self.forget_chunks()
        return super().__iter__()

    def forget_chunks(self):
        self.cache = self.shuffler = None
        for shuffle in (FullShuffle, NoShuffle, WindowShuffle):
            shuffle.get_chunks_and_intervals_per_workers.cache_clear()
        BaseItemLoader._data_format_to_key.cache_clear()


def of_rank(dataset, rank, world):
    """Have a data set deliver the items of one rank: the library would read it from torch.distributed."""
    dataset.distributed_env = _DistributedEnv(world, rank, num_nodes=1)


def close(loader):
    """Let go of the chunks that a loader has mapped in this process."""
    loader.dataset.forget_chunks()
