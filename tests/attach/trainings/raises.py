"""Fails after some batches."""

import torch
from torch.utils.data import DataLoader
from work import Items, model, train_step

if __name__ == "__main__":
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for number, batch in enumerate(DataLoader(Items(), batch_size=8)):
        train_step(network, optimizer, batch)
        if number == 30:
            raise ValueError("planted")
