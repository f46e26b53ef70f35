"""An image loop as torchvision's references have it: two workers, a transform in the dataset, a progress bar."""

import time

import torch
from torch.utils.data import DataLoader
from torchvision.transforms import v2
from tqdm import tqdm
from work import STEP, Items


class Images(Items):
    """Images that are cropped at random."""

    def __init__(self):
        super().__init__(seconds=2 * 0.004)
        self.transform = v2.Compose([v2.RandomResizedCrop(32), v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32)])

    def __getitem__(self, number):
        super().__getitem__(number)
        return self.transform(torch.zeros(3, 48, 48, dtype=torch.uint8)), number % 4


if __name__ == "__main__":
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 4))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    loader = DataLoader(Images(), batch_size=8, shuffle=True, num_workers=2)
    for _ in range(5):
        for image, label in tqdm(loader):
            image, label = image.contiguous(), label.contiguous()
            image.div_(255)  # in place
            time.sleep(STEP)
            torch.nn.functional.cross_entropy(network(image), label).backward()
            optimizer.step()
