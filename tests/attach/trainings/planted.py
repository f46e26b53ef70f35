"""A training whose parts take known times: `python planted.py '{"item": 4, "step": 8}'`, in ms.

With "truth": N it prints, after N batches of whole epochs, what a batch takes, and what it takes from a list.
"""

import json
import os
import sys
import threading
import time
from queue import Queue

import torch
from torch.utils.data import DataLoader, Dataset

GIVEN = {
    "items": 100_000, "batch": 8, "workers": 0, "persistent": False, "epochs": 10_000,
    "item": 0.0, "collate": 0.0, "step": 10.0, "worker_start": 0.0, "pin": 0.0, "build": 0.0,
    "slow_every": 0, "slow": 0.0, "rank_1_item": 0.0, "copies": 0, "step_copies": 0, "thread": 0, "truth": 0,
}  # fmt: skip
GIVEN |= json.loads(sys.argv[1])
MEMORY = torch.zeros(2, 2**20)  # 4 MiB each, for copies


def wait(ms):
    """Wait for some ms, or not at all."""
    if ms:
        time.sleep(ms / 1000)


def copy(times):
    """Copy 4 MiB, so many times."""
    for _ in range(times):
        MEMORY[0].copy_(MEMORY[1])  # fault: copies


class Built(torch.nn.Module):
    """A transform that takes long to build."""

    def __init__(self):
        super().__init__()
        time.sleep(GIVEN["build"] / 1000)  # fault: build

    def forward(self, sound):
        """Return the sound."""
        return sound


class Planted(Dataset):
    """Items of 64 numbers."""

    def __len__(self):
        return GIVEN["items"]

    def __getitem__(self, number):
        sound = torch.zeros(64)
        if GIVEN["item"]:
            time.sleep(GIVEN["item"] / 1000)  # fault: item
        if GIVEN["rank_1_item"] and os.environ.get("RANK") == "1":
            time.sleep(GIVEN["rank_1_item"] / 1000)  # fault: rank_1_item
        if GIVEN["slow_every"] and number % GIVEN["slow_every"] == 0:
            time.sleep(GIVEN["slow"] / 1000)  # fault: slow
        copy(GIVEN["copies"])
        if GIVEN["build"]:
            sound = Built()(sound)
        return sound


class Pinned:
    """A batch that takes long to pin."""

    def __init__(self, sound):
        self.sound = sound

    def pin_memory(self):
        """Return this batch, later."""
        wait(GIVEN["pin"])
        return self


def collate(items):
    """Return a batch."""
    if GIVEN["collate"]:
        time.sleep(GIVEN["collate"] / 1000)  # fault: collate
    batch = torch.stack(items)
    return Pinned(batch) if GIVEN["pin"] else batch


def start(_worker):
    """Begin a worker."""
    wait(GIVEN["worker_start"])


def ahead(loader, depth):
    """Yield a loader's batches, which a thread takes ahead."""
    batches = Queue(depth)

    def take():
        while True:
            for batch in loader:
                batches.put(batch)

    threading.Thread(target=take, daemon=True).start()
    while True:
        yield batches.get()


def main():
    """Train."""
    if GIVEN["pin"]:  # pinning in the main process, without a GPU
        torch.accelerator.is_available = lambda: True
        torch.accelerator.current_accelerator = lambda *_: torch.device("cpu")
    parameter = torch.nn.Parameter(torch.ones(1))
    optimizer, network = torch.optim.SGD([parameter], lr=0.1), None
    if "RANK" in os.environ:
        torch.distributed.init_process_group("gloo")
        network = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 1))
    workers = GIVEN["workers"]
    loader = DataLoader(
        Planted(), GIVEN["batch"], num_workers=workers, collate_fn=collate, pin_memory=bool(GIVEN["pin"]),
        worker_init_fn=start, persistent_workers=GIVEN["persistent"] and workers > 0,
    )  # fmt: skip

    def step(batch):
        sound = batch.sound if GIVEN["pin"] else batch
        wait(GIVEN["step"])
        copy(GIVEN["step_copies"])
        (network(sound) if network else parameter * sound).mean().backward()
        optimizer.step()

    if GIVEN["truth"]:
        found = truth(loader, step)
        if os.environ.get("RANK", "0") == "0":
            print(json.dumps(found))
        return
    for _ in range(GIVEN["epochs"]):
        for batch in ahead(loader, GIVEN["thread"]) if GIVEN["thread"] else loader:
            step(batch)


def truth(loader, step):
    """Return ms a batch of whole epochs, or of many batches of a long one, and ms a batch from a list; in turns."""
    whole = not GIVEN["thread"] and len(loader) <= GIVEN["truth"]
    if GIVEN["thread"]:
        loader = ahead(loader, GIVEN["thread"])
    took, steps, batch = [0.0, 0], [0.0, 0], None
    for _ in range(3):
        if whole:
            began, number = time.perf_counter(), 0
            while number < GIVEN["truth"] / 3:
                for batch in loader:
                    step(batch)
                    number += 1
        else:
            for number, batch in enumerate(loader, -20):
                if number == 0:
                    began = time.perf_counter()
                step(batch)
                if number + 1 >= GIVEN["truth"] / 3:
                    break
            number += 1
        took = [took[0] + time.perf_counter() - began, took[1] + number]
        for number in range(-5, 40):
            began = time.perf_counter() if number == 0 else began
            step(batch)
        steps = [steps[0] + time.perf_counter() - began, steps[1] + 40]
    return {"period_ms": 1000 * took[0] / took[1], "step_ms": 1000 * steps[0] / steps[1]}


if __name__ == "__main__":
    main()
