"""The items that the tensor micro-benchmarks move: in RAM, in a mapped file, on the GPU; and what each of them is.

What is right is computed again for each check, or read from the corpus, and never gathered.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch

from scripts.common.corpus import Corpus
from scripts.common.sample import Sample
from scripts.common.vocabulary import SPLIT
from scripts.machine import gpu
from scripts.measure.tensors.worker_pool import WorkerPool

RESIDENT_BYTES = 2**30  # far more than any cache holds; more would only take time to fill
MEMORY_SHARE = 0.25  # of what is available, in RAM and on the GPU
RESERVE_BATCHES = 24  # that all methods together hold at most beside the resident items
GPU_BATCHES = 8  # the same on the GPU
PINNED_BATCHES = 4
TURNS = 64  # batches of random positions, used in turn


class Lacking(Exception):
    """Something is not there, or there is too little of it; the text is the reason why methods cannot run."""


class Bench:
    """What all methods share: items in RAM, random positions among them, and a buffer for one batch.

    Item i is one noise times its own factor, so that what is right needs no gather: (i + 1) / n, and of whole numbers,
    which wrap, the odd 2 i + 1.
    """

    def __init__(self, items: int, sample: Sample, batch_size: int, seed: Sequence[int]) -> None:
        random = np.random.default_rng(seed)
        self.dtype = getattr(torch, sample.dtype)
        noise = random.uniform(-1, 1, (1, *sample.shape)) if self.real else random.integers(0, 128, (1, *sample.shape))
        self.noise, places = torch.from_numpy(noise).to(self.dtype), torch.arange(items)
        factors = (places + 1) / items if self.real else 2 * places + 1
        self.factors = factors.to(self.dtype).view(-1, *(1 for _ in sample.shape))
        self.data, self.count = self.noise * self.factors, items
        self.shape = (batch_size, *sample.shape)
        self.positions = [random.permutation(items)[:batch_size] for _ in range(TURNS)]
        self.indices = [torch.from_numpy(positions) for positions in self.positions]
        self.singles = np.concatenate(self.positions)
        self.buffer = self.empty()
        self.pool: WorkerPool | None = None
        self.file: MappedFile | None = None
        self.gpu: OnGpu | None = None
        self.reasons: dict[str, str] = {}  # why there is no pool, file or gpu

    @property
    def real(self) -> bool:
        """Whether values are no whole numbers."""
        return self.dtype.is_floating_point

    def empty(self, device: str = "cpu") -> torch.Tensor:
        """Return a batch that nothing has been written to."""
        return torch.empty(self.shape, dtype=self.dtype, device=device)

    def batch(self, turn: int) -> np.ndarray:
        """Return int64 (batch,): the positions of a turn."""
        return self.positions[turn % TURNS]

    def index(self, turn: int) -> torch.Tensor:
        """Return the positions of a turn as a tensor."""
        return self.indices[turn % TURNS]

    def single(self, turn: int) -> np.ndarray:
        """Return int64 (1,): the position of a turn that takes one item."""
        return self.singles[turn % len(self.singles)][None]

    def side_by_side(self, turn: int) -> np.ndarray:
        """Return int64 (batch,): successive positions, other ones in each turn."""
        size = self.shape[0]
        start = turn * size % (self.count - size + 1)
        return np.arange(start, start + size)

    def rows(self, turn: int) -> torch.Tensor:
        """Return a batch: the items `side_by_side`, a view."""
        start = turn * self.shape[0] % (self.count - self.shape[0] + 1)
        return self.data[start : start + self.shape[0]]

    def truth(self, positions: np.ndarray) -> torch.Tensor:
        """Return what the items at these positions are, (n, ...)."""
        return self.noise * self.factors[torch.from_numpy(positions)]


class MappedFile:
    """The file of all items of a corpus's split, mapped and read once. Raises Lacking where there is none that fits."""

    def __init__(self, data: Path | None, corpus: Corpus) -> None:
        if data is None:
            raise Lacking("no file to map: --data was not given")
        file, sample = file_of(data, corpus.sample), corpus.sample
        array = np.load(file, mmap_mode="r", allow_pickle=False)
        expected = (corpus.counts[SPLIT], *sample.shape)
        if array.shape != expected or array.dtype != np.dtype(sample.dtype):
            raise Lacking(f"{file.name} holds {array.dtype} {array.shape}, the corpus has {sample.dtype} {expected}")
        self.corpus, self.items = corpus, list(corpus.items(SPLIT))
        self.array = array.view(np.ndarray)
        self.count = max(1, min(len(array), RESIDENT_BYTES // array[0].nbytes))
        for item in self.array[: self.count]:
            item.max()

    def truth(self, positions: Iterable[int]) -> torch.Tensor:
        """Return what the items at these positions are, (n, ...), read from the corpus."""
        return torch.from_numpy(np.stack([self.corpus.delivered(self.items[position]) for position in positions]))


class OnGpu:
    """What is on the GPU, and in pinned RAM for it. Raises Lacking where its memory does not suffice."""

    def __init__(self, bench: Bench) -> None:
        free = gpu.free_bytes()
        size = bench.shape[0]
        self.count = min(bench.count, int(free * MEMORY_SHARE) // bench.data[0].nbytes - GPU_BATCHES * size)
        if self.count < size:
            raise Lacking(f"a quarter of the GPU's free {free / 1e6:,.0f} MB does not hold {GPU_BATCHES + 1} batches")
        self.data, self.truth = bench.data[: self.count].to("cuda"), bench.truth
        self.buffer = bench.empty("cuda")
        self.indices = [torch.from_numpy(where % self.count).to("cuda") for where in bench.positions]
        self.pinned = [gpu.pinned(bench.truth(bench.batch(turn))) for turn in range(PINNED_BATCHES)]


def file_of(data: Path, sample: Sample) -> Path:
    """Return the file of all items in a folder of the format memmap."""
    return data / SPLIT / f"{sample.key}.npy"


def wrong_form(got: torch.Tensor, expected: torch.Tensor) -> str | None:
    """Return how the type or shape of a batch differs from what is expected, or None."""
    if got.shape == expected.shape and got.dtype == expected.dtype:
        return None
    found, right = (f"{tensor.dtype} {tuple(tensor.shape)}" for tensor in (got, expected))
    return f"delivers {found}, expected is {right}"


def difference(got: torch.Tensor, expected: torch.Tensor) -> str | None:
    """Return how a batch (n, ...) differs from what is expected, bit by bit, or None."""
    if wrong := wrong_form(got, expected):
        return wrong
    found, right = (tensor.cpu().reshape(len(tensor), -1).view(torch.uint8) for tensor in (got, expected))
    wrong = (found != right).any(dim=1).nonzero().flatten()
    if len(wrong):
        return f"delivers other values: {len(wrong)} of {len(got)} items, the first is number {int(wrong[0])}"
    return None
