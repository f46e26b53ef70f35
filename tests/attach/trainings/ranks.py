"""Two ranks under torchrun; the dataset of rank 1 is slow."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from work import ITEM, Items, model, train_step

if __name__ == "__main__":
    dist.init_process_group("gloo")
    data = Items(seconds=ITEM if dist.get_rank() else 0.0)
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
    network = DistributedDataParallel(model())
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(5):
        for batch in loader:
            train_step(network, optimizer, batch)
    dist.destroy_process_group()
