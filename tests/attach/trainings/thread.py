"""A thread takes the batches ahead of the loop, through a queue."""

import queue
import threading

import torch
from torch.utils.data import DataLoader
from work import Items, model, train_step


def ahead(loader, batches):
    """Put a loader's batches into a queue."""
    while True:
        for batch in loader:
            batches.put(batch)


if __name__ == "__main__":
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    batches = queue.Queue(20)
    threading.Thread(target=ahead, args=(DataLoader(Items(), batch_size=8), batches), daemon=True).start()
    while True:
        train_step(network, optimizer, batches.get())
