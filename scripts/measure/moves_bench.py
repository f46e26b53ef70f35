"""Where the clips lie that measure_moves.py moves: in RAM, in a mapped file, on the GPU; and what each of them is.

What is right is computed anew for each check, or read from the corpus, and never gathered.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch

from scripts.common.corpus import Corpus, to_float
from scripts.common.vocabulary import SPLIT
from scripts.measure.moves_crew import Crew

RESIDENT_BYTES = 2**30  # far more than any cache holds; more would only take time to fill
MEMORY_SHARE = 0.25  # of what is available, in RAM and on the GPU
RESERVE_BATCHES = 24  # that all ways together hold at most beside the resident clips
GPU_BATCHES = 8  # the same on the GPU
PINNED_BATCHES = 4
TURNS = 64  # batches of random positions, used in turn


class Lacking(Exception):
    """Something is not there, or there is too little of it; the text is the reason why ways cannot run."""


class Bench:
    """What all ways share: clips in RAM, random positions among them, and a buffer for one batch.

    Clip i is one noise times its own loudness (i + 1) / n, so that what is right needs no gather.
    """

    def __init__(self, clips: int, samples: int, batch_size: int, seed: Sequence[int]) -> None:
        random = np.random.default_rng(seed)
        self.noise = torch.from_numpy(random.uniform(-1, 1, (1, 1, samples)).astype(np.float32))
        self.loudness = (torch.arange(1, clips + 1) / clips).view(-1, 1, 1)
        self.data = self.noise * self.loudness
        self.shape = (batch_size, 1, samples)
        self.positions = [random.permutation(clips)[:batch_size] for _ in range(TURNS)]
        self.indices = [torch.from_numpy(positions) for positions in self.positions]
        self.singles = [int(position) for positions in self.positions for position in positions]
        self.buffer = torch.empty(self.shape)
        self.crew: Crew | None = None
        self.file: MappedFile | None = None
        self.gpu: OnGpu | None = None
        self.reasons: dict[str, str] = {}  # why there is no crew, file or gpu

    def batch(self, turn: int) -> np.ndarray:
        """Return int64 (batch,): the positions of a turn."""
        return self.positions[turn % TURNS]

    def index(self, turn: int) -> torch.Tensor:
        """Return the positions of a turn as a tensor."""
        return self.indices[turn % TURNS]

    def single(self, turn: int) -> int:
        """Return the position of a turn that moves one clip."""
        return self.singles[turn % len(self.singles)]

    def rows(self, turn: int) -> torch.Tensor:
        """Return float32 (batch, 1, samples): clips that lie side by side, a view of other ones in each turn."""
        size = self.shape[0]
        start = turn * size % (len(self.data) - size + 1)
        return self.data[start : start + size]

    def truth(self, positions: np.ndarray) -> torch.Tensor:
        """Return float32 (n, 1, samples): what the clips at these positions are."""
        return self.noise * self.loudness[torch.from_numpy(positions)]

    def right_batch(self, got: torch.Tensor, turn: int) -> str | None:
        """Return what is wrong with the gathered batch of a turn."""
        return difference(got, self.truth(self.batch(turn)))

    def right_clip(self, got: torch.Tensor, turn: int) -> str | None:
        """Return what is wrong with the clip of a turn."""
        return difference(got[None], self.truth(np.array([self.single(turn)])))

    def right_rows(self, got: torch.Tensor, turn: int) -> str | None:
        """Return what is wrong with a copy of the `rows` of a turn."""
        start = turn * self.shape[0] % (len(self.data) - self.shape[0] + 1)
        return difference(got, self.truth(np.arange(start, start + self.shape[0])))


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

    def one(self, position: int) -> torch.Tensor:
        """Return a copy of one clip, float32 (1, samples). Positions past the last clip start again."""
        return torch.from_numpy(np.array(self.array[position % self.count]))

    def taken(self, positions: np.ndarray, out: torch.Tensor) -> torch.Tensor:
        """Gather clips into `out` and return it."""
        return take(self.array, positions % self.count, out)

    def indexed(self, positions: np.ndarray) -> torch.Tensor:
        """Return clips gathered into a new array."""
        return torch.from_numpy(self.array[positions % self.count])

    def truth(self, positions: Iterable[int]) -> torch.Tensor:
        """Return float32 (n, 1, samples): what the clips at these positions are, read from the corpus."""
        chosen = [self.clips[position % self.count] for position in positions]
        return torch.from_numpy(np.stack([to_float(self.corpus.padded(clip))[None] for clip in chosen]))


class OnGpu:
    """What lies on the GPU, and in pinned RAM for it. Raises Lacking where its memory does not suffice."""

    def __init__(self, bench: Bench) -> None:
        free, _ = torch.cuda.mem_get_info()
        clip_bytes, size = bench.data[0].nbytes, bench.shape[0]
        count = int(free * MEMORY_SHARE) // clip_bytes - GPU_BATCHES * size
        if count < size:
            raise Lacking(f"a quarter of the GPU's free {free / 1e6:,.0f} MB does not hold {GPU_BATCHES + 1} batches")
        self.data = bench.data[:count].to("cuda")
        self.buffer = torch.empty(bench.shape, device="cuda")
        self.indices = [torch.from_numpy(where % len(self.data)).to("cuda") for where in bench.positions]
        self.pinned = [bench.truth(bench.batch(turn)).pin_memory() for turn in range(PINNED_BATCHES)]

    def one(self, position: int) -> torch.Tensor:
        """Return a copy of one clip. Positions past the last clip start again."""
        return self.data[position % len(self.data)].clone()

    def many(self, turn: int) -> torch.Tensor:
        """Gather the batch of a turn into the buffer and return it."""
        return torch.index_select(self.data, 0, self.indices[turn % TURNS], out=self.buffer)


def take(array: np.ndarray, positions: np.ndarray, out: torch.Tensor) -> torch.Tensor:
    """Gather rows of `array` into `out`, and return it. It runs without the interpreter's lock."""
    np.take(array, positions, axis=0, out=out.numpy(), mode="clip")
    return out


def difference(got: torch.Tensor, expected: torch.Tensor) -> str | None:
    """Return how a batch, float32 (n, 1, samples), differs from what is expected, bit by bit, or None."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        found, right = (f"{tensor.dtype} {tuple(tensor.shape)}" for tensor in (got, expected))
        return f"delivers {found}, expected is {right}"
    wrong = (got.cpu().view(torch.int32) != expected.view(torch.int32)).flatten(1).any(dim=1).nonzero().flatten()
    if len(wrong):
        return f"delivers other values: {len(wrong)} of {len(got)} clips, the first is number {int(wrong[0])}"
    return None
