"""What the trainings share: a dataset that waits for each item, and a step that waits."""

import time

import torch
from torch.utils.data import Dataset, IterableDataset

ITEM, STEP = 0.004, 0.008  # seconds: eight items are waited for four times as long as a step


class Items(Dataset):
    """Items of 64 numbers and a class; each takes `seconds`."""

    def __init__(self, count=4000, seconds=ITEM):
        self.count, self.seconds = count, seconds

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        time.sleep(self.seconds)  # fault
        return torch.full((64,), number / self.count), number % 4


class Stream(IterableDataset):
    """The same items as a stream."""

    def __iter__(self):
        items = Items()
        for number in range(len(items)):
            yield items[number]


def model():
    """Return a model of 64 numbers and four classes."""
    torch.manual_seed(0)
    return torch.nn.Linear(64, 4)


def train_step(network, optimizer, batch, seconds=STEP):
    """Train on a batch, in `seconds`."""
    sound, label = batch
    loss = torch.nn.functional.cross_entropy(network(sound), label)
    optimizer.zero_grad()
    loss.backward()
    time.sleep(seconds)
    optimizer.step()
    return loss.item()
