"""Lhotse's DynamicBucketingSampler: batches by seconds of audio, of lengths that differ."""

import time

import torch
from lhotse import CutSet, MonoCut, Recording
from lhotse.dataset import DynamicBucketingSampler
from torch.utils.data import DataLoader, Dataset
from work import ITEM, STEP


class Cuts(Dataset):
    """Batches of cuts, made up and padded."""

    def __getitem__(self, cuts):
        time.sleep(ITEM * len(cuts))
        longest = max(round(100 * cut.duration) for cut in cuts)
        return torch.zeros(len(cuts), longest)


def cut(number):
    """Return a cut of 1 to 5 seconds."""
    seconds = 1.0 + number % 5
    recording = Recording(f"r{number}", [], 16000, round(16000 * seconds), seconds)
    return MonoCut(f"c{number}", 0.0, seconds, 0, recording=recording)


if __name__ == "__main__":
    sampler = DynamicBucketingSampler(
        CutSet.from_cuts(cut(number) for number in range(3000)), max_duration=24.0, num_buckets=3, shuffle=True
    )
    loader = DataLoader(Cuts(), sampler=sampler, batch_size=None)
    scale = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([scale], lr=0.1)
    for _ in range(5):
        for sound in loader:
            time.sleep(STEP)
            (scale * sound).mean().backward()
            optimizer.step()
