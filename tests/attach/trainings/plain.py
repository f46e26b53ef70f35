"""A plain loop: trains for the epochs that it is told, and prints each loss."""

import sys

import torch
from torch.utils.data import DataLoader
from work import Items, model, train_step

if __name__ == "__main__":
    epochs, count, workers = (int(one) for one in (sys.argv[1:] + ["50", "4000", "0"][len(sys.argv) - 1 :]))
    torch.manual_seed(1)
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    loader = DataLoader(Items(count), batch_size=8, shuffle=True, num_workers=workers)
    for _ in range(epochs):
        for batch in loader:
            print("loss", train_step(network, optimizer, batch).hex())
    print("trained to the end")
