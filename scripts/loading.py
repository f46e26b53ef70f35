"""What a loader is asked for. The contract that it keeps is in docs/architecture.md."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class LoaderRequest:
    """One split of a placed format, and how it is to be delivered."""

    data: Path  # the split's folder on its tier
    clips: int  # clips in the split
    samples: int  # fixed length of a delivered clip
    classes: int
    batch_size: int = 32
    workers: int = 0  # worker processes, or threads where the library has threads; see each loader
    prefetch: int = 2  # batches ahead per worker, or per queue
    pin_memory: bool = False
    threads: int = 1  # of torch and OpenMP in this process, set by whoever opens the loader
    device: str = "cpu"  # or "cuda"
    shuffle: bool = True
    seed: int = 0
    rank: int = 0
    world: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)  # the loader's own settings, see its OPTIONS
