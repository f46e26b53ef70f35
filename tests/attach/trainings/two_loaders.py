"""Two loaders in turn, one batch of each for a step."""

import torch
from torch.utils.data import DataLoader
from work import Items, model, train_step


class Others(Items):
    """The second loader's."""


if __name__ == "__main__":
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    loaders = DataLoader(Items(), batch_size=8), DataLoader(Others(), batch_size=8)
    for _ in range(5):
        for (sound, label), (other, _) in zip(*loaders, strict=True):
            train_step(network, optimizer, (sound + other, label))
