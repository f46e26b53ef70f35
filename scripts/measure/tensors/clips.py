"""The clips that the tensor micro-benchmarks operation: in RAM, in a mapped file, on the GPU; and what each of them is.

What is right is computed again for each check, or read from the corpus, and never gathered.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch

from scripts.common.corpus import Corpus, to_float
from scripts.common.vocabulary import SPLIT
from scripts.machine import gpu
from scripts.measure.tensors.worker_pool import WorkerPool

RESIDENT_BYTES = 2**30  # far more than any cache holds; more would only take time to fill
MEMORY_SHARE = 0.25  # of what is available, in RAM and on the GPU
RESERVE_BATCHES = 24  # that all methods together hold at most beside the resident clips
GPU_BATCHES = 8  # the same on the GPU
PINNED_BATCHES = 4
TURNS = 64  # batches of random positions, used in turn


class Lacking(Exception):
    """Something is not there, or there is too little of it; the text is the reason why methods cannot run."""


class Bench:
    """What all methods share: clips in RAM, random positions among them, and a buffer for one batch.

    Clip i is one noise times its own loudness (i + 1) / n, so that what is right needs no gather.
    """

    def __init__(self, clips: int, samples: int, batch_size: int, seed: Sequence[int]) -> None:
        random = np.random.default_rng(seed)
        self.noise = torch.from_numpy(random.uniform(-1, 1, (1, 1, samples)).astype(np.float32))
        self.loudness = (torch.arange(1, clips + 1) / clips).view(-1, 1, 1)
        self.data, self.count = self.noise * self.loudness, clips
        self.shape = (batch_size, 1, samples)
        self.positions = [random.permutation(clips)[:batch_size] for _ in range(TURNS)]
        self.indices = [torch.from_numpy(positions) for positions in self.positions]
        self.singles = np.concatenate(self.positions)
        self.buffer = torch.empty(self.shape)
        self.pool: WorkerPool | None = None
        self.file: MappedFile | None = None
        self.gpu: OnGpu | None = None
        self.reasons: dict[str, str] = {}  # why there is no pool, file or gpu

    def batch(self, turn: int) -> np.ndarray:
        """Return int64 (batch,): the positions of a turn."""
        return self.positions[turn % TURNS]

    def index(self, turn: int) -> torch.Tensor:
        """Return the positions of a turn as a tensor."""
        return self.indices[turn % TURNS]

    def single(self, turn: int) -> np.ndarray:
        """Return int64 (1,): the position of a turn that operations one clip."""
        return self.singles[turn % len(self.singles)][None]

    def side_by_side(self, turn: int) -> np.ndarray:
        """Return int64 (batch,): successive positions, other ones in each turn."""
        size = self.shape[0]
        start = turn * size % (self.count - size + 1)
        return np.arange(start, start + size)

    def rows(self, turn: int) -> torch.Tensor:
        """Return float32 (batch, 1, samples): the clips `side_by_side`, a view."""
        start = turn * self.shape[0] % (self.count - self.shape[0] + 1)
        return self.data[start : start + self.shape[0]]

    def truth(self, positions: np.ndarray) -> torch.Tensor:
        """Return float32 (n, 1, samples): what the clips at these positions are."""
        return self.noise * self.loudness[torch.from_numpy(positions)]


class MappedFile:
    """The file audio.npy of a corpus's split, mapped and read once. Raises Lacking where there is none that fits."""

    def __init__(self, data: Path | None, corpus: Corpus) -> None:
        if data is None:
            raise Lacking("no file to map: --data was not given")
        array = np.load(data / SPLIT / "audio.npy", mmap_mode="r", allow_pickle=False)
        expected = (corpus.counts[SPLIT], 1, corpus.samples)
        if array.shape != expected or array.dtype != np.float32:
            raise Lacking(f"audio.npy holds {array.dtype} {array.shape}, the corpus has float32 {expected}")
        self.corpus, self.clips = corpus, list(corpus.clips(SPLIT))
        self.array = array.view(np.ndarray)
        self.count = max(1, min(len(array), RESIDENT_BYTES // array[0].nbytes))
        for clip in self.array[: self.count]:
            clip.max()

    def truth(self, positions: Iterable[int]) -> torch.Tensor:
        """Return float32 (n, 1, samples): what the clips at these positions are, read from the corpus."""
        chosen = [to_float(self.corpus.padded(self.clips[position]))[None] for position in positions]
        return torch.from_numpy(np.stack(chosen))


class OnGpu:
    """What is on the GPU, and in pinned RAM for it. Raises Lacking where its memory does not suffice."""

    def __init__(self, bench: Bench) -> None:
        free = gpu.free_bytes()
        size = bench.shape[0]
        self.count = min(bench.count, int(free * MEMORY_SHARE) // bench.data[0].nbytes - GPU_BATCHES * size)
        if self.count < size:
            raise Lacking(f"a quarter of the GPU's free {free / 1e6:,.0f} MB does not hold {GPU_BATCHES + 1} batches")
        self.data, self.truth = bench.data[: self.count].to("cuda"), bench.truth
        self.buffer = torch.empty(bench.shape, device="cuda")
        self.indices = [torch.from_numpy(where % self.count).to("cuda") for where in bench.positions]
        self.pinned = [gpu.pinned(bench.truth(bench.batch(turn))) for turn in range(PINNED_BATCHES)]


def difference(got: torch.Tensor, expected: torch.Tensor) -> str | None:
    """Return how a batch, float32 (n, 1, samples), differs from what is expected, bit by bit, or None."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        found, right = (f"{tensor.dtype} {tuple(tensor.shape)}" for tensor in (got, expected))
        return f"delivers {found}, expected is {right}"
    wrong = (got.cpu().view(torch.int32) != expected.view(torch.int32)).flatten(1).any(dim=1).nonzero().flatten()
    if len(wrong):
        return f"delivers other values: {len(wrong)} of {len(got)} clips, the first is number {int(wrong[0])}"
    return None
