"""Workers that are not forked: spawn or forkserver."""

import sys

import feedrate_attach
import torch
from torch.utils.data import DataLoader
from work import Items, model, train_step


class Own(Items):
    """A dataset of this script, which its workers import."""


if __name__ == "__main__":
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    loader = DataLoader(Own(), batch_size=8, num_workers=1, multiprocessing_context=sys.argv[1])
    for batch in feedrate_attach.watch(loader):
        train_step(network, optimizer, batch)
