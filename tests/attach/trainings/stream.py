"""An IterableDataset, which nobody knows the end of."""

import torch
from torch.utils.data import DataLoader
from work import Stream, model, train_step

if __name__ == "__main__":
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    while True:
        for batch in DataLoader(Stream(), batch_size=8):
            train_step(network, optimizer, batch)
