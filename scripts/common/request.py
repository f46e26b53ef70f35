"""What a loader is asked for. The contract that it keeps is in docs/architecture.md."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from scripts.common.errors import UserError
from scripts.common.location import Location
from scripts.common.sample import Sample
from scripts.common.vocabulary import CROPS, SPLIT, VALIDATION


@dataclass(frozen=True)
class Share:
    """Which part of an epoch a process delivers."""

    rank: int = 0  # of this process, below `world`
    world: int = 1  # processes that share an epoch, on all nodes
    node: int = 0  # that this process runs on

    def of(self, positions: Any) -> Any:
        """Return every `world`-th of the positions, from the rank on: shares are disjoint and complete."""
        return positions[self.rank :: self.world]


@dataclass(frozen=True)
class LoaderRequest:
    """One split of a placed format, and how it is to be delivered."""

    location: Location  # of the split, on its tier
    items: int  # items in the split
    sample: Sample  # what a delivered item is
    classes: int
    batch_size: int = 32
    workers: int = 0  # worker processes, or threads where the library has threads; see each loader
    prefetch: int = 2  # batches ahead per worker, or per queue
    pin_memory: bool = False
    start_method: str = "fork"  # of worker processes
    persistent_workers: bool = True  # whether they stay from one epoch to the next
    transform: str = "none"  # its name; what is at work is `applied`
    transform_in: str = "worker"  # or "device": where a transform is at work
    applied: Any = None  # loaders/_transformed.py: the transform, where there is one
    device_prefetch: int = 0  # batches copied ahead to a GPU by whoever opens the loader: device_prefetch.py
    threads: int = 1  # of torch and OpenMP in this process, set by whoever opens the loader
    device: str = "cpu"  # or "cuda"
    shuffle: bool = True
    seed: int = 0
    sample_rate: int | None = None  # Hz, of audio
    share: Share = Share()
    options: Mapping[str, Any] = field(default_factory=dict)  # the loader's own settings, see its OPTIONS
    without: frozenset[str] = frozenset()  # of the loader's STAGES: left out, to see what they cost; data is then void
    compared_epochs: int = 0  # of a user's own items: the first epochs, in which batches are compared with their items
    corpus: Path | None = None  # its folder, where `origins` are looked up
    spans: Any = None  # measure/spans.py: notes of what its processes do with each batch, in an epoch that is not timed

    @cached_property
    def data(self) -> Path:
        """The split's folder of files. Raises ValueError where its location has none (a loader's READS say so)."""
        if self.location.path is None:
            raise ValueError(f"{self.location.uri} has no folder of files: the loader needs READS = ('path',)")
        return self.location.path

    @cached_property
    def label_folder(self) -> Path:
        """The local folder of the split's label arrays: beside its files, or beside its index."""
        return self.location.index or self.data

    @cached_property
    def origins(self) -> list[Any]:
        """Of each item of the split the file that it was made of, where it begins in it, and its length.

        See `Origin`. Raises UserError where the corpus has no ledgers beside it.
        """
        from scripts.common.origins import origins_of

        if self.corpus is None:
            raise UserError("request.origins: found no corpus; allowed is a run that knows its own. Add --corpus.")
        item_seconds = self.samples / self.sample_rate if self.sample.kind == "audio" and self.sample_rate else None
        split = self.location.uri.rpartition("/")[2]
        return origins_of(self.corpus, split if split in (SPLIT, VALIDATION) else SPLIT, item_seconds)

    @cached_property
    def array(self) -> Path:
        """The file of all items in a folder of the format memmap: `audio.npy`, or `image.npy`, `array.npy`."""
        return self.data / f"{self.sample.key}.npy"

    @cached_property
    def frames(self) -> Any:
        """Of recordings: int64 (items,), the length of each in samples, which is beside the labels."""
        import numpy as np

        return np.load(self.label_folder / "frames.npy", allow_pickle=False)

    @cached_property
    def samples(self) -> int:
        """The fixed length of a delivered item of audio."""
        return self.sample.shape[-1]

    @cached_property
    def rank(self) -> int:
        """That of its share."""
        return self.share.rank

    @cached_property
    def world(self) -> int:
        """That of its share."""
        return self.share.world


def epoch_order(request: LoaderRequest, epoch: int) -> Any:
    """Return int64 (share,): the positions in the split that this rank delivers in `epoch`, in order.

    The ranks' shares are disjoint and complete within an epoch, and differ from epoch to epoch when shuffling. Of
    recordings of which pieces are delivered: int64 (share, 2), the position and the sample where the piece begins.
    """
    import numpy as np

    positions = np.arange(request.items)
    if request.shuffle:
        positions = np.random.default_rng([request.seed, epoch]).permutation(positions)
    positions = request.share.of(positions)
    if request.sample.kind != CROPS:
        return positions
    return np.stack([positions, starts_of(request, epoch)[positions]], axis=1)


def starts_of(request: LoaderRequest, epoch: int) -> Any:
    """Return int64 (items,): where the piece begins that `epoch` delivers of each recording, in samples.

    Uniform over all places where a whole piece is; 0 of a recording that is shorter than one.
    """
    import numpy as np

    room = np.maximum(request.frames - request.samples, 0)
    return np.random.default_rng([request.seed, epoch, 1]).integers(0, room + 1)


def batches_of(positions: Any, batch_size: int) -> Iterator[Any]:
    """Yield `positions` in slices of `batch_size`; the last one may be shorter."""
    for start in range(0, len(positions), batch_size):
        yield positions[start : start + batch_size]


def too_large(request: LoaderRequest, free: int, where: str) -> str | None:
    """Return a reason where the split takes more than half of the `free` bytes there, else None."""
    copies = request.world if where == "RAM" else 1  # each rank has its own, and those of one machine its memory
    needed = copies * request.items * request.sample.bytes
    if needed <= free / 2:
        return None
    several = f"{copies} ranks take" if copies > 1 else "the split takes"
    return f"{several} {needed / 1e9:.1f} GB, more than half of the {free / 1e9:.1f} GB that {where} has free"
