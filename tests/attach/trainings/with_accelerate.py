"""A loop with accelerate."""

import time

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from work import STEP, Items, model

if __name__ == "__main__":
    accelerator = Accelerator(cpu=True)
    network = model()
    network, optimizer, loader = accelerator.prepare(
        network, torch.optim.SGD(network.parameters(), lr=0.1), DataLoader(Items(), batch_size=8, shuffle=True)
    )
    for _ in range(5):
        for sound, label in loader:
            time.sleep(STEP)
            optimizer.zero_grad()
            accelerator.backward(torch.nn.functional.cross_entropy(network(sound), label))
            optimizer.step()
