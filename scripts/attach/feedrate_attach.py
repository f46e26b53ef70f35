#!/usr/bin/env python3
"""Says whether a training waits for its data loader, which line costs the time, and what helps.

    python feedrate_attach.py train.py --its --own --arguments
    python feedrate_attach.py -m package.train ...        # also under torchrun, srun or accelerate launch

It runs your training unchanged, in your own environment, and watches the DataLoader that feeds the optimizer. Then it
keeps some batches and hands them out again: the speed of your loop on them is what a perfect loader would give. In
turns with that, in random order, your own loader and the same loader with other settings feed your loop. At the end it
runs some items line by line, writes attach.json, prints a dozen lines and ends the training.

With --passive it only watches: the training runs to its end, with the same losses.

Loaders that are no DataLoader need one line: `for batch in feedrate_attach.watch(loader):`.

It needs Python 3.9 and PyTorch 2.1, nothing else. Copy this file wherever you like. Its page is docs/attach.md.
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import dataclasses
import json
import linecache
import math
import os
import platform
import random
import re
import runpy
import shutil
import signal
import statistics
import sys
import sysconfig
import threading
import time
import traceback
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any, Optional

VERSION = 1  # of attach.json
WARM_UP = 5  # batches at the start that do not count
WATCHED = 100  # batches to watch before anything is tried
ROUNDS, FEWEST_ROUNDS = 8, 5
RUN_SECONDS, SHORTEST_RUN, LONGEST_RUN = 1.0, 12, 400  # a run of a source: seconds, batches
SETTLE = 4  # batches of a run that do not count, beside those that workers hold ready
KEPT_BYTES = 512 * 2**20  # of batches to hand out again
BOUND, FREE = 90.0, 95.0  # percent AU: input-bound below, not bound above
SHARE_OF_LINE = 0.03  # of an item's time; lines below are not printed
ITEM_SECONDS, ITEMS = 3.0, 256  # of the line profile
PARTS = (  # of an item's work, by the names in a call or a line; the first that fits is taken
    ("resample", re.compile(r"resampl|soxr|set_frame_rate", re.I)),
    ("open", re.compile(r"soundfile\.info|\bsf\.info|torchaudio\.info|\bImage\.open|SoundFile\(", re.I)),
    (
        "decode",
        re.compile(
            r"decod|soundfile|\bsf\.|audioread|audio_?segment|torchcodec|torchaudio\.load|librosa\.load|wavfile|"
            r"load_audio|read_audio|imread|\bPIL\.\w+Image\w*\.(load|convert|draft)|\.convert\(|read_image",
            re.I,
        ),
    ),
    ("open", re.compile(r"\bopen\(|\.open\b|read_bytes|read_text|np\.load|numpy\..*\bload|memmap|h5py|pathlib", re.I)),
    ("collate", re.compile(r"collat|pad_sequence", re.I)),
)
WRAPPERS = ("wrapper", "wrapped", "inner", "decorate_context")  # which do not tell what they call
NAMING = ("__str__", "__fspath__", "__truediv__", "__repr__", "__hash__", "__eq__", "__len__")  # calls of no weight
START_SECONDS = 30.0  # that a start method may take to the first batch
STARTS_SECONDS = 60.0  # after which no further start method is tried
RANK_SECONDS = 20.0  # to wait for the other ranks
PLAN_AHEAD = 50  # batches between a plan and its start, so that all ranks see it
CLEAR = 1.05  # a change whose interval lies inside 1/CLEAR..CLEAR is called "no change"
T_95 = {2: 12.71, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365}  # Student's t by number of rounds
T_99 = {2: 63.66, 3: 9.925, 4: 5.841, 5: 4.604, 6: 4.032, 7: 3.707, 8: 3.499}
ALONE = "not all ranks run under attach, so nothing was tried: start each under attach, as with torchrun"
LOSSES = 1000  # of the first steps, to be compared
MOST_LOADERS = 32  # that are watched at a time
NO_BATCH = object()
clock = time.perf_counter


class Stop(BaseException):
    """Ends the training when everything is measured; no `except Exception` holds it."""


# Batches


def handed_out(batch: Any, copied: bool = False) -> Any:
    """A batch in containers of its own, because a loop may take things out of them; its tensors too if `copied`."""
    if hasattr(batch, "shape"):
        return batch.clone() if copied and hasattr(batch, "clone") else copy.copy(batch) if copied else batch
    if isinstance(batch, (str, bytes, int, float, type(None))):
        return batch
    if isinstance(batch, MutableMapping):
        fresh = copy.copy(batch)
        for key in batch:
            fresh[key] = handed_out(batch[key], copied)
        return fresh
    if isinstance(batch, tuple):
        parts = [handed_out(part, copied) for part in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    if type(batch) is list:
        return [handed_out(part, copied) for part in batch]
    if dataclasses.is_dataclass(batch) or hasattr(batch, "__dict__"):
        return copy.deepcopy(batch) if copied else copy.copy(batch)
    return batch


def tensors_of(batch: Any, depth: int = 0) -> list[Any]:
    """The tensors and arrays of a batch, whatever holds them."""
    if hasattr(batch, "shape") and hasattr(batch, "dtype"):
        return [batch]
    if depth > 4 or isinstance(batch, (str, bytes)):
        return []
    if isinstance(batch, Mapping) or (hasattr(batch, "keys") and hasattr(batch, "__getitem__")):
        parts: Iterable[Any] = [batch[key] for key in batch.keys()]  # noqa: SIM118 (not each has __iter__)
    elif isinstance(batch, (list, tuple)):
        parts = batch
    elif hasattr(batch, "__dict__"):
        parts = list(vars(batch).values())
    else:
        return []
    return [tensor for part in parts for tensor in tensors_of(part, depth + 1)]


def size_of(tensor: Any) -> int:
    """Bytes of a tensor or array."""
    return tensor.numel() * tensor.element_size() if hasattr(tensor, "element_size") else int(tensor.nbytes)


def about_batch(batch: Any) -> dict[str, Any]:
    """Type, items, bytes, and shape and dtype of the largest tensor of a batch; None where unknown."""
    about = {"type": type(batch).__name__, "items": None, "bytes": None, "shape": None, "dtype": None}
    try:
        tensors = tensors_of(batch)
        if tensors:
            largest = max(tensors, key=size_of)
            about.update(bytes=sum(map(size_of, tensors)), shape=[int(size) for size in largest.shape])
            about["items"] = about["shape"][0] if about["shape"] else None
            about["dtype"] = str(largest.dtype).replace("torch.", "")
    except Exception:  # a type that has a shape of its own idea
        pass
    return about


def versions_of(batch: Any) -> list[int]:
    """How often each tensor of a batch was changed in place."""
    return [tensor._version for tensor in tensors_of(batch) if hasattr(tensor, "_version")]


def checksums_of(batch: Any) -> list[int]:
    """CRC-32 of each item of the largest tensor of a batch."""
    tensors = tensors_of(batch)
    if not tensors:
        return []
    largest = max(tensors, key=size_of)
    if hasattr(largest, "detach"):
        largest = largest.detach().cpu()
        largest = (largest.float() if str(largest.dtype) == "torch.bfloat16" else largest).numpy()
    return [zlib.crc32(item.tobytes()) for item in largest]


# What a loader does while it is watched


class Seen:
    """What one loader did: seconds waited for batches and used for steps, and how its epochs started."""

    def __init__(self, loader: Any, key: Any) -> None:
        self.loader, self.key = loader, key
        self.waits: list[float] = []  # of each batch but the first of an epoch
        self.steps: list[float] = []  # from a batch to the request for the next one
        self.first: list[float] = []  # from the start of an epoch to its first batch
        self.marks: list[list[float]] = []  # by epoch: its start, then when each of its first batches was asked for
        self.batches = self.epochs = self.whole_epochs = 0
        self.in_steps = 0  # optimizer steps before which it gave a batch
        self.kept: list[Any] = []
        self.about: Optional[dict[str, Any]] = None
        self.varies = False  # whether its batches differ in shape
        self.items = self.looked = 0  # items in so many batches
        self.of_epochs: list[int] = []  # batches of each epoch that is over
        self.interrupted = False  # by another loader, such as a validation's
        self.came: Optional[float] = None
        self.thread = 0
        self.sums: list[int] = []  # checksums of the items of the first epoch

    def note(self, iteration: Iteration, asked: float, came: float, batch: Any) -> None:
        """Note a batch."""
        if iteration.fresh:
            iteration.fresh = False
            iteration.began = max(iteration.began, asked - iteration.took)  # it may have been made long before
            if self.epochs:
                self.of_epochs.append(self.batches - sum(self.of_epochs))
            self.epochs += 1
            self.first.append(came - iteration.began)
            self.marks.append([iteration.began])
        elif self.came is not None and not self.interrupted:
            self.waits.append(came - asked)
            self.steps.append(asked - self.came)
        self.interrupted = False
        if len(self.marks[-1]) < 64:
            self.marks[-1].append(asked)
        self.came, self.thread = came, threading.get_ident()
        self.batches += 1
        if self.about is None or self.batches % 16 == 0:
            about = about_batch(batch)
            self.about = self.about or about
            self.varies |= about["shape"] != self.about["shape"]
            self.items += about["items"] or 0
            self.looked += 1

    def items_a_batch(self) -> Optional[float]:
        """Mean number of items of a batch; None where unknown."""
        return self.items / self.looked if self.items else None

    def epoch_length(self) -> Optional[int]:
        """Batches of an epoch, as the loop takes them; None where unknown."""
        return round(statistics.median(self.of_epochs)) if self.of_epochs else length_of(self.loader)

    def start_seconds(self, period: float) -> float:
        """Seconds that the start of an epoch costs beside its batches at `period` seconds each."""
        reach = queued_by(self.loader) + WARM_UP
        later = [one[reach] - one[0] - (reach - 1) * period for one in self.marks[1:] if len(one) > reach]
        if later and queued_by(self.loader) and not self.varies:
            return max(0.0, statistics.median(later))
        each = queued_by(self.loader) and not self.loader.persistent_workers  # starts workers in each epoch
        first = self.first if each and not self.first[1:] else self.first[1:]  # the very first one also opens files
        return max(0.0, statistics.median(first) - statistics.fmean(self.waits)) if first and self.waits else 0.0


class Iteration:
    """An epoch of a watched loader. All but the next batch is the loader's own iterator."""

    def __init__(self, watch: Watch, seen: Seen, real: Optional[Iterator[Any]], began: float) -> None:
        self.watch, self.seen, self.real, self.began = watch, seen, real, began
        self.took = clock() - began  # to make the iterator
        self.fresh = True

    def __iter__(self) -> Iteration:
        return self

    def __next__(self) -> Any:
        return self.watch.next(self)

    def __len__(self) -> int:
        return len(self.seen.loader if self.real is None else self.real)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


# Sources of batches that take turns in the user's loop


class Source:
    """Feeds the loop for a run by its `give`: the loader as it is, kept batches, or the loader with a change."""

    def __init__(self, name: str, change: dict[str, Any], queued: int = 0) -> None:
        self.name, self.change, self.queued = name, change, queued
        self.periods: dict[int, float] = {}  # by round: seconds a batch
        self.items: dict[int, float] = {}  # by round: items a batch
        self.error: Optional[str] = None

    def begin(self) -> None:
        """Get ready for the batches that count."""

    def close(self) -> None:
        """Let go of workers."""


class Perfect(Source):
    """Batches that are there already: those of the last run of the loader as it is, or a few where all are alike."""

    def __init__(self) -> None:
        super().__init__("perfect", {})
        self.kept: list[Any] = []
        self.fresh: list[Any] = []
        self.bytes = self.number = 0
        self.versions: list[list[int]] = []
        self.changed_in_place = False

    def keep(self, batch: Any) -> None:
        """Keep a batch of the present run of the loader as it is."""
        if self.bytes <= KEPT_BYTES:
            tensors = tensors_of(batch)
            shared = any(getattr(one, "is_shared", bool)() and not one.is_cuda for one in tensors)
            self.fresh.append(handed_out(batch, copied=shared))  # shared memory is short
            self.bytes += sum(map(size_of, tensors))

    def take_over(self) -> None:
        """Hand out from now on what was kept last."""
        if self.fresh:
            self.kept, self.fresh, self.bytes, self.number = self.fresh, [], 0, 0
            self.versions = [versions_of(batch) for batch in self.kept]

    def begin(self) -> None:
        self.number = 0

    def give(self) -> Any:
        place = self.number % len(self.kept)
        self.number += 1
        batch = self.kept[place]
        if not self.changed_in_place and versions_of(batch) != self.versions[place]:
            self.changed_in_place = True
        return handed_out(batch, copied=self.changed_in_place)


class Real(Source):
    """A loader's own batches, epoch after epoch. The loop does not see where an epoch ends."""

    def __init__(self, name: str, change: dict[str, Any], loader: Any, real: Any = None) -> None:
        super().__init__(name, change, queued_by(loader))
        self.loader, self.real = loader, real
        self.epoch: Optional[int] = None  # batches of an epoch where runs are whole epochs
        self.opened = 0.0  # seconds for the last start of an epoch, where runs are not whole epochs
        self.ended = False  # its iterator cannot be made again

    def begin(self) -> None:
        if self.epoch:
            if getattr(self.loader, "persistent_workers", False) and hasattr(self.real, "_sampler_iter"):
                self.real._sampler_iter = iter(())
                for _ in self.real:  # what is under way, which the end of an epoch does not have
                    pass
            self.real = None  # the next batch starts an epoch, which is counted

    def give(self) -> Any:
        for _ in range(2):
            began, new = clock(), self.real is None
            if new:
                self.real = own_iterator(self.loader)
            batch = next(self.real, NO_BATCH)
            if batch is not NO_BATCH:
                self.opened = clock() - began if new and not self.epoch else 0.0
                return batch
            self.real = None
        self.ended = True
        raise StopIteration

    def close(self) -> None:
        self.real = None


def queued_by(loader: Any) -> int:
    """Batches that a DataLoader's workers hold ready."""
    workers = getattr(loader, "num_workers", 0) or 0
    return workers * (getattr(loader, "prefetch_factor", None) or 2) if workers else 0


def changed(loader: Any, change: dict[str, Any]) -> Any:
    """A DataLoader of the same dataset, sampler and collate function with other settings."""
    from torch.utils.data import DataLoader, IterableDataset

    arguments = {
        "num_workers": loader.num_workers,
        "collate_fn": loader.collate_fn,
        "pin_memory": loader.pin_memory,
        "timeout": loader.timeout,
        "worker_init_fn": loader.worker_init_fn,
        "multiprocessing_context": loader.multiprocessing_context if loader.num_workers else None,
        "prefetch_factor": loader.prefetch_factor,
        "persistent_workers": loader.persistent_workers,
        "generator": loader.generator,
        **change,
    }
    if arguments.pop("keep", False):
        arguments["worker_init_fn"] = KeepsMemory(loader.worker_init_fn)
    if not arguments["num_workers"]:
        arguments.update(prefetch_factor=None, multiprocessing_context=None, timeout=0, persistent_workers=False)
    if isinstance(loader.dataset, IterableDataset):
        arguments.update(batch_size=loader.batch_size, drop_last=loader.drop_last)
    elif loader.batch_sampler is not None:
        arguments.update(batch_sampler=loader.batch_sampler)
    else:
        arguments.update(batch_size=None, sampler=loader.sampler)
    return DataLoader(loader.dataset, **arguments)


class KeepsMemory:
    """A `worker_init_fn` that has glibc keep the memory of batches that were freed."""

    def __init__(self, own: Optional[Callable[[int], None]]) -> None:
        self.own = own

    def __call__(self, worker: int) -> None:
        libc = ctypes.CDLL(None)
        if not libc.mallopt(-3, 1 << 30):  # M_MMAP_THRESHOLD
            libc.mallopt(-3, 1 << 25)  # glibc before 2.35 takes no more
        libc.mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD
        if self.own is not None:
            self.own(worker)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def alternatives(loader: Any, pinning: bool, short_epochs: bool) -> list[tuple[str, dict[str, Any]]]:
    """(name, changes) of settings that are worth a try, the most promising first."""
    workers, prefetch, trials = loader.num_workers, loader.prefetch_factor or 2, []
    if workers and short_epochs and not loader.persistent_workers:
        trials.append(("persistent_workers", {"persistent_workers": True}))
    counts = dict.fromkeys((min(cores(), 2 * workers or 2), cores(), max(1, cores() // 2)))
    more = [
        (f"workers {count}", {"num_workers": count, "prefetch_factor": prefetch})
        for count in counts
        if count != workers
    ]
    trials += more[:2]
    if loader.pin_memory or pinning:
        trials.append(("no pin_memory" if loader.pin_memory else "pin_memory", {"pin_memory": not loader.pin_memory}))
    if workers:
        trials.append((f"prefetch {2 * prefetch}", {"prefetch_factor": 2 * prefetch}))
        if platform.libc_ver()[0] == "glibc":
            trials.append(("allocator keep", {"keep": True}))
    return trials


def shared_bytes(loader: Any, batch_bytes: Optional[int]) -> int:
    """Bytes of shared memory that the batches of a DataLoader's workers take."""
    return (queued_by(loader) + 2) * (batch_bytes or 0) if queued_by(loader) else 0


def free_shared_memory() -> float:
    """Bytes of shared memory that are free."""
    return shutil.disk_usage("/dev/shm").free if os.path.isdir("/dev/shm") else math.inf


@dataclasses.dataclass
class Turn:
    """A run: which source in which round, batches before it counts, and batches that count."""

    round: int
    source: int
    settle: int
    batches: int


def turns_of(
    sources: list[Source], batches: list[int], rounds: int, step: float, period: float, varies: bool
) -> list[Turn]:
    """The runs in rounds, each round in a random order of its own.

    `step` and `period` are seconds a batch without and with waiting. Before a run counts, the workers of the source
    before it must have filled their queues, since until then they take the cores. Where batches vary, the loader as it
    is comes first in each round, so that the same batches are handed out again.
    """
    order, turns, before = random.Random(0), [], sources[0]
    for number in range(rounds):
        places = list(range(len(sources)))
        order.shuffle(places)
        for place in sorted(places, key=bool) if varies else places:
            source = sources[place]
            workers = max(1, getattr(getattr(before, "loader", None), "num_workers", 1))
            filling = before.queued / workers * period * workers if before is not source else 0.0
            pace = max(1e-5, step if isinstance(source, Perfect) else period)
            settle = SETTLE + source.queued + min(200, math.ceil(min(filling, 3.0) / pace))
            turns.append(Turn(number, place, settle, batches[place]))
            before = source
    return turns


class Rounds:
    """Runs of the sources in the user's loop, and what came of them."""

    def __init__(self, sources: list[Source], turns: list[Turn], watch: Watch) -> None:
        self.sources, self.turns, self.watch = sources, turns, watch
        self.perfect: Perfect = sources[1]  # type: ignore[assignment]
        self.at = self.given = 0  # the turn, and batches given in it
        self.counting = self.interrupted = False
        self.asked = self.seconds = self.cpu = self.ours = 0.0
        self.items = self.number = 0
        self.cpu_shares: list[float] = []
        self.failed: Optional[Exception] = None  # of the user's own loader
        self.until = 0.0  # batches that the loop must have used before a run counts, where a thread runs ahead

    def source(self) -> Optional[Source]:
        """Whose turn it is; None when all are over."""
        return self.sources[self.turns[self.at].source] if self.at < len(self.turns) else None

    def next(self) -> Any:
        """A batch of the source whose turn it is. Raises Stop when all runs are over."""
        while True:
            source = self.source()
            if source is None:
                raise Stop
            turn = self.turns[self.at]
            self._account(source)
            if self.counting and self.given >= turn.settle + turn.batches:
                self._close(source, turn)
                continue
            late = self.given >= turn.settle + 200  # of what the loop uses nothing is known
            used = self.watch.world > 1 or late or self.watch.used() >= self.until
            if not self.counting and self.given >= turn.settle and used:
                self._open(source)
                self.given = turn.settle
            feeder = self.perfect if source.error else source
            began = clock()
            try:
                if not self.given and feeder is source and isinstance(source, Real) and not source.epoch:
                    for _ in range(source.queued):  # what was made while others had their turn is no speed
                        source.give()
                batch = feeder.give()
            except StopIteration:
                if feeder is self.sources[0]:
                    raise
                source.error = "it gave no batch"
                continue
            except Exception as error:
                if feeder.name in ("as it is", "perfect"):
                    self.failed = error
                    raise
                source.error = f"{type(error).__name__}: {error}".strip().splitlines()[0][:200]
                continue
            gave = clock()
            self.given += 1
            if self.counting:
                if source.name == "as it is" and self.watch.lead.varies:  # type: ignore[union-attr]
                    self.perfect.keep(batch)  # else those of the watch do: kept memory cannot be used again
                self.items += about_batch(batch)["items"] or 0
            self.ours = clock() - (began if feeder is self.perfect else gave)
            return batch

    def _account(self, source: Source) -> None:
        """Add the batch that was asked for before this one, unless something else came between."""
        now = clock()
        if self.counting and self.given > self.turns[self.at].settle:
            if isinstance(source, Real) and source.opened:
                self.interrupted, source.opened = True, 0.0
            if not self.interrupted:
                self.seconds += now - self.asked - self.ours
                self.number += 1
        self.interrupted, self.asked = False, now

    def _open(self, source: Source) -> None:
        self.watch.synchronise()
        source.begin()
        self.counting, self.seconds, self.number, self.items = True, 0.0, 0, 0
        self.asked, self.cpu = clock(), time.thread_time()

    def _close(self, source: Source, turn: Turn) -> None:
        self.watch.synchronise()
        self.seconds += clock() - self.asked
        if self.number >= 2 and not source.error:
            source.periods[turn.round] = self.seconds / self.number
            source.items[turn.round] = self.items / turn.batches
            if source is self.perfect and self.seconds > 0 and not self.watch.threaded():
                self.cpu_shares.append(min(1.0, (time.thread_time() - self.cpu) / self.seconds))
        if source.name == "as it is":
            self.perfect.take_over()
        self.counting, self.at, self.given = False, self.at + 1, 0
        self.until = self.watch.given() + SETTLE if self.watch.threaded() else 0.0


def ratio(over: Mapping[int, float], under: Mapping[int, float], t: Mapping[int, float]) -> Optional[list[float]]:
    """[ratio of the means, low, high] of two sources over the rounds that both have; None below two rounds.

    The interval is that of the ratio estimator (Cochran, Sampling Techniques, 3rd edition, 6.3), paired by rounds.
    """
    rounds = [one for one in over if one in under]
    if len(rounds) < 2:
        return None
    mean = statistics.fmean(under[one] for one in rounds)
    value = statistics.fmean(over[one] for one in rounds) / mean
    rest = [over[one] - value * under[one] for one in rounds]
    width = t.get(len(rounds), 3.4) * math.sqrt(sum(x * x for x in rest) / (len(rest) - 1) / len(rest)) / mean
    return [value, value - width, value + width]


# The watch


ORIGINAL_ITER: Any = None  # DataLoader.__iter__ of PyTorch


def is_dataloader(loader: Any) -> bool:
    """Whether a loader is a DataLoader of PyTorch."""
    from torch.utils.data import DataLoader

    return isinstance(loader, DataLoader)


def own_iterator(loader: Any) -> Iterator[Any]:
    """A loader's own iterator, which is not watched."""
    if not is_dataloader(loader):
        return iter(loader)
    stateful = [one for one in type(loader).__mro__ if one.__name__ == "StatefulDataLoader"]
    return (stateful[0].__iter__.original if stateful else ORIGINAL_ITER)(loader)


class Watch:
    """Watches all loaders of this process, and tries what helps in the loop of the one that feeds the optimizer."""

    def __init__(self, passive: bool, out: Path, budget: float, checksums: bool) -> None:
        self.passive, self.out, self.budget, self.checksums = passive, out, budget, checksums
        self.seen: dict[Any, Seen] = {}
        self.since_step: Counter = Counter()  # batches by loader since the last optimizer step
        self.optimizer_steps = 0
        self.optimizer_thread = 0
        self.losses: list[Any] = []
        self.rounds: Optional[Rounds] = None
        self.lead: Optional[Seen] = None
        self.over = self.reported = self.stopped = False
        self.calls_after = 0
        self.lines: Optional[dict[str, Any]] = None
        self.starts: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.began, self.process = clock(), os.getpid()
        self.cpu = cpu_seconds()
        self.store: Any = None
        self.begin_at: Optional[int] = None
        self.plan: dict[str, Any] = {}
        self.at_plan = (1, 1)  # batches and optimizer steps when the rounds began
        self.synchronise: Callable[[], None] = nothing
        self.rank, self.world = rank_and_world()
        self.gpu: list[float] = []
        self.cpu_percent: Optional[float] = None  # of this machine's cores, busy while it was watched

    # Hooks

    def attach(self) -> None:
        """Put the hooks in place."""
        global ORIGINAL_ITER
        import torch
        from torch.optim.optimizer import register_optimizer_step_post_hook
        from torch.utils.data import DataLoader

        ORIGINAL_ITER, watch = DataLoader.__iter__, self

        def watching(original: Any) -> Any:
            def watched_iter(loader: Any) -> Any:
                began = clock()
                return watch.iteration(loader, lambda: original(loader), began)

            watched_iter.original = original  # type: ignore[attr-defined]
            return watched_iter

        def init_subclass(cls: Any, **named: Any) -> None:
            super(DataLoader, cls).__init_subclass__(**named)
            if cls.__name__ == "StatefulDataLoader" and "__iter__" in vars(cls):
                cls.__iter__ = watching(cls.__iter__)

        DataLoader.__iter__ = watching(ORIGINAL_ITER)  # type: ignore[method-assign]
        DataLoader.__init_subclass__ = classmethod(init_subclass)  # type: ignore[assignment,arg-type]
        register_optimizer_step_post_hook(lambda *_: self.stepped())
        backward = torch.Tensor.backward

        def noting_backward(loss: Any, *arguments: Any, **named: Any) -> Any:
            if os.getpid() == watch.process:
                if len(watch.losses) < LOSSES and watch.rounds is None and loss.numel() == 1:
                    watch.losses.append(loss.detach().clone())
                if not watch.optimizer_steps:  # a trainer may have optimizers that are not PyTorch's
                    watch.fed()
            return backward(loss, *arguments, **named)

        torch.Tensor.backward = noting_backward  # type: ignore[method-assign,assignment]

    def iteration(self, loader: Any, make: Callable[[], Iterator[Any]], began: float, key: Any = None) -> Any:
        """An epoch of a loader; watched in the training's own process only."""
        if os.getpid() != self.process or self.reported or getattr(loader, "_feedrate_own", False):
            return make()
        key = key or key_of(loader)
        if len(self.seen) > MOST_LOADERS:  # a script that makes datasets without end
            idle = [one for one in self.seen if self.seen[one] is not (self.lead or self.leading())]
            self.seen.pop(idle[0], None)
        seen = self.seen.setdefault(key, Seen(loader, key))
        if self.rounds is not None and seen is self.lead:
            self.rounds.interrupted = True
            own = self.rounds.sources[0]
            if own.ended:  # type: ignore[attr-defined]
                own.loader, own.real, own.ended, seen.loader = loader, None, False, loader  # type: ignore[attr-defined]
            return Iteration(self, seen, None, began)
        seen.loader = loader
        return Iteration(self, seen, make(), began)

    def stepped(self) -> None:
        """Note an optimizer step."""
        self.optimizer_steps += 1
        self.fed()

    def fed(self) -> None:
        """Note that the loaders that gave a batch since the last time feed the training."""
        self.optimizer_thread = threading.get_ident()
        for key in list(self.since_step):
            if key in self.seen:
                self.seen[key].in_steps += 1
        self.since_step.clear()

    def next(self, iteration: Iteration) -> Any:
        """The next batch of an epoch: the loader's own, or that of the source whose turn it is."""
        asked, seen, rounds = clock(), iteration.seen, self.rounds
        if rounds is not None:
            if seen is self.lead:
                return self._in_rounds(iteration, rounds)
            if not self._feeds(seen):
                rounds.interrupted = True  # a validation, for example, which is no part of a step
            elif rounds.source() is rounds.perfect and seen.kept:
                return handed_out(seen.kept[rounds.given % len(seen.kept)])
        if iteration.real is None:
            iteration.real = own_iterator(seen.loader)
        try:
            batch = next(iteration.real)
        except StopIteration:
            seen.came = None
            seen.whole_epochs += 1
            raise
        came = clock()
        if self.over or rounds is not None:
            return batch
        try:
            if self.optimizer_steps and not seen.in_steps:
                for one in self.seen.values():
                    one.interrupted |= one is not seen
            seen.note(iteration, asked, came, batch)
            self.since_step[seen.key] += 1
            if self.world > 1 and self.store is None:
                self.store = group_store()
                if self.store is not None:
                    self.store.add("feedrate/attached", 1)
            if not self.passive:
                if len(seen.kept) < 4 and seen.batches > WARM_UP:
                    seen.kept.append(handed_out(batch))
                if self._due(seen):
                    self._begin(seen, iteration)
            if self.checksums and seen.epochs == 1:
                seen.sums += checksums_of(batch)
            seen.came = clock() if self.checksums else came
        except Exception as error:
            self._failed(error)
        return batch

    def _feeds(self, seen: Seen) -> bool:
        """Whether a loader feeds the optimizer beside the leading one."""
        return self.lead is not None and seen.in_steps > self.lead.in_steps / 2

    def _failed(self, error: BaseException) -> None:
        """Go on without trying anything."""
        self.notes.append(f"attach failed, and the training went on: {type(error).__name__}: {error}")
        self.passive = True
        traceback.print_exc()

    # What the loop has used, where another thread takes the batches

    def threaded(self) -> bool:
        """Whether another thread than the optimizer's takes the leading loader's batches."""
        return bool(self.lead and self.optimizer_thread and self.lead.thread != self.optimizer_thread)

    def given(self) -> float:
        """Batches that the leading loader gave so far, in the watch and in the rounds."""
        return self.lead.batches if self.lead else 0.0

    def used(self) -> float:
        """Batches that the optimizer has used."""
        if not self.threaded():
            return math.inf
        each = self.at_plan[0] / max(1, self.at_plan[1])  # batches of an optimizer step
        return self.optimizer_steps * (round(each) if each >= 1 else 1 / round(1 / each))

    # Phases

    def leading(self) -> Optional[Seen]:
        """The loader that feeds the training: the one whose batches most optimizer steps followed."""
        candidates = [one for one in self.seen.values() if one.batches]
        if not candidates:
            return None
        return max(candidates, key=lambda one: (one.in_steps, one.batches))

    def _due(self, seen: Seen) -> bool:
        """Whether the rounds begin with this batch."""
        if self.leading() is not seen:
            return False
        if not seen.in_steps and clock() - seen.marks[0][0] < self.budget:
            return False  # it may be a validation before the first step
        if self.world > 1:
            return self._due_on_all_ranks(seen)
        if group_store() is not None:
            self.notes.append(ALONE)
            self.passive = True
            return False
        return self._watched(seen)

    def _watched(self, seen: Seen) -> bool:
        counted = len(seen.waits) - WARM_UP
        return counted >= WATCHED or (counted >= 16 and clock() - seen.marks[0][0] > self.budget / 3)

    def _due_on_all_ranks(self, seen: Seen) -> bool:
        """The same, for several ranks: rank 0 names a batch, and the others read it from the store of their group."""
        if self.store is None:
            return False
        if self.begin_at is None:
            if self.rank == 0 and self._watched(seen):
                if int(self.store.add("feedrate/attached", 0)) < self.world:
                    self.notes.append(ALONE)
                    self.passive = True
                    return False
                self.plan = self._plan(seen)
                self.begin_at = seen.batches + PLAN_AHEAD
                self.store.set("feedrate/plan", json.dumps({"begin": self.begin_at, **self.plan}))
            elif self.rank and self.store.check(["feedrate/plan"]):
                self.plan = json.loads(self.store.get("feedrate/plan"))
                self.begin_at = self.plan["begin"]
        return self.begin_at is not None and seen.batches >= self.begin_at

    def _plan(self, seen: Seen) -> dict[str, Any]:
        """Which changes are tried, and the runs, as fits into the budget."""
        waits, steps = seen.waits[WARM_UP:], seen.steps[WARM_UP:]
        step = statistics.fmean(steps)
        period = max(1e-6, step + statistics.fmean(waits))
        if self.optimizer_thread and seen.thread != self.optimizer_thread:
            step = period / 2  # a thread's own waiting says little
        length = seen.epoch_length() if is_dataloader(seen.loader) else None
        rare = statistics.pstdev(waits) > period  # few batches take most of the time: longer runs hold some of them
        count = int(min(LONGEST_RUN, max(SHORTEST_RUN, (3 if rare else 1) * RUN_SECONDS / period)))
        short = bool(length and length <= 2 * count and self.world == 1)
        names = [("as it is", {}), ("perfect", {})]
        if is_dataloader(seen.loader):
            for name, change in alternatives(seen.loader, synchronise_of() is not nothing, short):
                try:
                    changed(seen.loader, change)
                    names.append((name, change))
                except Exception as error:
                    self.notes.append(f"{name} was not tried: {type(error).__name__}: {error}")
        rounds = ROUNDS

        def turns() -> list[Turn]:
            whole = length * max(1, math.ceil(count / length)) if short else count
            batches = [count if name == "perfect" and not seen.varies else whole for name, _ in names]
            sources = [self._source(seen, name, change, None) for name, change in names]
            return turns_of(sources, batches, rounds, step, period, seen.varies)

        def cost() -> float:
            return sum((step if turn.source == 1 else period) * (turn.settle + turn.batches) for turn in turns())

        while cost() > self.budget:
            if len(names) > 4:
                names.pop()
            elif rounds > FEWEST_ROUNDS:
                rounds -= 1
            elif len(names) > 2:
                names.pop()
            elif count > SHORTEST_RUN:
                count = max(SHORTEST_RUN, count // 2)
            else:
                break
        return {
            "names": names,
            "turns": [dataclasses.astuple(turn) for turn in turns()],
            "epoch": length if short else None,
        }

    def _source(self, seen: Seen, name: str, change: dict[str, Any], real: Any) -> Source:
        if name == "perfect":
            return Perfect()
        if name == "as it is":
            return Real(name, {}, seen.loader, real)
        other = changed(seen.loader, change)
        other._feedrate_own = True
        return Real(name, change, other)

    def _begin(self, seen: Seen, iteration: Iteration) -> None:
        """Start the rounds with the next batch."""
        self.cpu_percent = 100 * (cpu_seconds() - self.cpu) / ((clock() - self.began) * (os.cpu_count() or 1))
        plan = self.plan if self.world > 1 else self._plan(seen)
        sources = [self._source(seen, name, change, iteration.real) for name, change in plan["names"]]
        room = free_shared_memory() / 2
        for source in sources:
            if isinstance(source, Real):
                source.epoch = plan["epoch"]
                taken = shared_bytes(source.loader, (seen.about or {}).get("bytes")) if source.change else 0
                room -= taken
                if taken and room < 0:
                    source.error = "its batches would not fit into /dev/shm"
        perfect = sources[1]
        perfect.fresh = list(seen.kept)  # type: ignore[attr-defined]
        perfect.take_over()  # type: ignore[attr-defined]
        iteration.real = None  # the source has it, and may end it
        self.lead, self.at_plan = seen, (seen.batches, self.optimizer_steps)
        self.synchronise = synchronise_of()
        self.rounds = Rounds(sources, [Turn(*turn) for turn in plan["turns"]], self)

    def _in_rounds(self, iteration: Iteration, rounds: Rounds) -> Any:
        if self.over:
            self.calls_after += 1
            if self.calls_after > 2:  # a loop that catches everything
                leave()
            raise Stop
        try:
            batch = rounds.next()
            self.lead.batches += 1  # type: ignore[union-attr]
            self.lead.thread = threading.get_ident()  # type: ignore[union-attr]
            if rounds.at % 3 == 0 and rounds.given == 1:
                self._look_at_gpu()
            return batch
        except Stop:
            self._end()
            raise
        except StopIteration:
            raise
        except Exception as error:
            if error is rounds.failed:
                raise  # as it would without attach
            self._failed(error)
            iteration.real = rounds.sources[0].real or own_iterator(iteration.seen.loader)  # type: ignore[attr-defined]
            self.rounds, self.over = None, True
            return next(iteration.real)  # type: ignore[arg-type]

    def _look_at_gpu(self) -> None:
        import torch

        if torch.cuda.is_available() and torch.cuda.is_initialized():
            try:
                self.gpu.append(float(torch.cuda.utilization()))
            except Exception:  # no NVML
                self.gpu = []

    def _end(self) -> None:
        """Look at single items, report, and see to it that the training ends."""
        self.over = self.stopped = True
        loader = self.lead.loader  # type: ignore[union-attr]
        for source in self.rounds.sources:  # type: ignore[union-attr]
            source.close()
        if is_dataloader(loader) and self.rank == 0:
            try:
                self.lines = profile(loader)
            except Exception as error:
                self.notes.append(f"single items were not run: {type(error).__name__}: {error}")
            if loader.num_workers:
                self.starts = starts_of(loader)
        self.report()
        if threading.current_thread() is not threading.main_thread():
            leave()
        timer = threading.Timer(30.0, leave)  # for what catches even this
        timer.daemon = True
        timer.start()

    def report(self) -> None:
        """Write attach.json and print what it says; once."""
        if self.reported:
            return
        self.reported = self.over = True
        try:
            found = finding(self)
            found["ranks"] = self._ranks(found)
            if self.rank:
                return
            print("\n".join(["", *words(found, str(self.out))]), flush=True)
            partial = Path(f"{self.out}.partial")
            partial.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n", encoding="utf-8")
            os.replace(partial, self.out)
            print(f"  written: {self.out}", flush=True)
        except Exception:  # the training keeps its own exit status
            traceback.print_exc()

    def _ranks(self, found: dict[str, Any]) -> list[dict[str, Any]]:
        """What each rank waits; rank 0 waits for the others to say it."""
        row = {"rank": self.rank, "wait_ms": found.get("wait_ms"), "step_ms": found.get("loop_step_ms")}
        if self.world == 1 or self.store is None:
            return [row]
        rows = [row]
        try:
            if self.rank:
                self.store.set(f"feedrate/rank{self.rank}", json.dumps(row))
                return []
            deadline = clock() + RANK_SECONDS
            for rank in range(1, self.world):
                while not self.store.check([f"feedrate/rank{rank}"]) and clock() < deadline:
                    time.sleep(0.05)
                if self.store.check([f"feedrate/rank{rank}"]):
                    rows.append(json.loads(self.store.get(f"feedrate/rank{rank}")))
        except Exception as error:
            self.notes.append(f"the other ranks were not heard: {type(error).__name__}: {error}")
        return rows


def leave() -> None:
    """End this process with status 0, whatever holds it."""
    import multiprocessing

    for child in multiprocessing.active_children():
        child.terminate()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def nothing() -> None:
    """Wait for nothing."""


def synchronise_of() -> Callable[[], None]:
    """What waits for the GPU, where the training uses one."""
    import torch

    return torch.cuda.synchronize if torch.cuda.is_available() and torch.cuda.is_initialized() else nothing


def cpu_seconds() -> float:
    """Seconds of CPU of the whole machine since its start; 0 where the system does not say."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            fields = [int(one) for one in file.readline().split()[1:]]
        return (sum(fields[:8]) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0


def rank_and_world() -> tuple[int, int]:
    """Which process of how many this is, as torchrun, srun and accelerate launch say it."""
    for rank, world in (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")):
        if os.environ.get(rank, "").isdigit() and os.environ.get(world, "").isdigit():
            return int(os.environ[rank]), int(os.environ[world])
    return 0, 1


def group_store() -> Any:
    """The store of the process group, None before there is one."""
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
        return None
    return dist.distributed_c10d._get_default_store()


def length_of(loader: Any) -> Optional[int]:
    """Batches of an epoch, None where a loader does not say; that of a stream is not asked, which would note it."""
    from torch.utils.data import IterableDataset

    if isinstance(getattr(loader, "dataset", None), IterableDataset):
        return None
    try:
        return len(loader)
    except Exception:
        return None


def key_of(loader: Any) -> tuple[Any, ...]:
    """What a DataLoader has in common with the one of the next epoch, where a script makes a new one for each."""
    sampler = getattr(loader, "sampler", None)
    samplers = (type(getattr(loader, "batch_sampler", None)), type(sampler), length_of(sampler))
    return (id(getattr(loader, "dataset", loader)), getattr(loader, "batch_size", None), *samplers)


# Which line


class Lines:
    """Time by the user's own lines: what a line calls in libraries is the line's."""

    def __init__(self, also: Iterable[str], without: Iterable[str] = ()) -> None:
        paths = sysconfig.get_paths()
        folders = [*(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")), *without]
        self.foreign = tuple({os.path.realpath(folder) + os.sep for folder in folders})
        self.also = {os.path.realpath(one) for one in also}
        self.known: dict[str, bool] = {}
        self.seconds: dict[tuple[str, int], float] = defaultdict(float)
        self.with_calls: dict[tuple[str, int], float] = defaultdict(float)  # and in the user's functions that it calls
        self.in_calls: dict[tuple[str, int], Counter] = defaultdict(Counter)  # by the library function that was called
        self.functions: dict[tuple[str, int], str] = {}  # of the user's, that a line is in
        self.built: Counter = Counter()  # torch modules, and objects of the user's classes, by line and class
        self.called = ""
        self.stack: list[Any] = []
        self.at: Optional[tuple[str, int]] = None
        self.last = 0.0

    def own(self, file: str) -> bool:
        """Whether a file is the user's, or one that holds the dataset or the collate function."""
        if file not in self.known:
            path = os.path.realpath(file)
            foreign = path.startswith(self.foreign) or file.startswith("<") or path == os.path.realpath(__file__)
            self.known[file] = path in self.also or not foreign
        return self.known[file]

    def charge(self, to: Optional[tuple[str, int]]) -> None:
        """Charge the time since the last event, and go on at a line."""
        now = clock()
        if self.at is not None:
            self.seconds[self.at] += now - self.last
            self.in_calls[self.at][self.called] += now - self.last
            for frame in self.stack[:-1]:
                self.with_calls[frame.f_code.co_filename, frame.f_lineno] += now - self.last
        self.at, self.called, self.last = to, "", clock()

    def build(self, kind: str) -> None:
        """Note that an object is built for the line that asked for it, from within its constructors or not."""
        callers = [frame for frame in self.stack if frame.f_code.co_name != "__init__"]
        if callers:
            self.built[(callers[-1].f_code.co_filename, callers[-1].f_lineno), kind] += 1

    def trace(self, frame: Any, _event: str, _argument: Any) -> Any:
        """The trace function of new frames: only those of the user's files are followed."""
        if not self.own(frame.f_code.co_filename):
            if self.stack and frame.f_back is self.stack[-1]:  # what a line calls itself, not what that calls
                called = called_by(frame)
                if not called.endswith(NAMING):
                    self.charge(self.at)
                    self.called = called
            return None
        if frame.f_code.co_name == "__init__" and "self" in frame.f_locals:
            self.build(type(frame.f_locals["self"]).__name__)
        self.stack.append(frame)
        self.charge((frame.f_code.co_filename, frame.f_lineno))
        self.functions[frame.f_code.co_filename, frame.f_lineno] = frame.f_code.co_name
        return self.local

    def local(self, frame: Any, event: str, _argument: Any) -> Any:
        """The trace function of a frame of the user's."""
        if event == "line":
            self.charge((frame.f_code.co_filename, frame.f_lineno))
            self.functions[frame.f_code.co_filename, frame.f_lineno] = frame.f_code.co_name
        elif event == "return":
            if self.stack and self.stack[-1] is frame:
                self.stack.pop()
            back = self.stack[-1] if self.stack else None
            self.charge((back.f_code.co_filename, back.f_lineno) if back else self.otherwise)
        return self.local

    def run(self, work: Callable[[], Any], otherwise: tuple[str, int]) -> Any:
        """Run `work`, charging what no line of the user's does to `otherwise`."""
        import torch

        original, lines = torch.nn.Module.__init__, self

        def noting_init(module: Any, *arguments: Any, **named: Any) -> None:
            kind = type(module)
            if not lines.own(getattr(sys.modules.get(kind.__module__), "__file__", None) or "<"):
                lines.build(kind.__name__)  # the user's own are seen by their lines
            original(module, *arguments, **named)

        torch.nn.Module.__init__ = noting_init  # type: ignore[method-assign]
        before, self.stack = sys.gettrace(), []
        self.at, self.otherwise, self.last = otherwise, otherwise, clock()
        sys.settrace(self.trace)
        try:
            return work()
        finally:
            sys.settrace(before)
            self.charge(None)
            torch.nn.Module.__init__ = original  # type: ignore[method-assign]


def files_of(*things: Any) -> list[str]:
    """The files of the classes or functions of things, but for PyTorch's own."""
    files = []
    for thing in things:
        for one in (thing, *type(thing).__mro__[:-1]):
            module = sys.modules.get(getattr(one, "__module__", None) or "")
            name = getattr(module, "__name__", "").partition(".")[0]
            if module is not None and getattr(module, "__file__", None) and name not in ("torch", "builtins"):
                files.append(module.__file__)
    return files


def called_by(frame: Any) -> str:
    """The name of the library function that begins with a frame: `soundfile.read`, `torchaudio.transforms.Resample()`.

    That of a method has its object's class, since PyTorch's modules are all called by one function.
    """
    name, module = frame.f_code.co_name, str(frame.f_globals.get("__name__", ""))
    local = frame.f_locals
    kind = type(local["self"]) if "self" in local else local.get("cls")
    if not isinstance(kind, type):
        return f"{module}.{name}"
    named = f"{kind.__module__}.{kind.__name__}"
    return f"{named}()" if name == "__init__" else f"{named}.{name}"


def part_of(code: str, called: str, otherwise: str) -> str:
    """The part of an item's work that a call in a line of code is: one of PARTS, or `build`, or `otherwise`."""
    known = called and not called.endswith(WRAPPERS)
    text = called if known else code
    builds = bool(known) and called.endswith("()")
    for part, pattern in PARTS:
        if pattern.search(text):
            return "build" if builds and part == "resample" else part
    return "build" if builds else otherwise


def profile(
    loader: Any, items: int = ITEMS, seconds: float = ITEM_SECONDS, without: Iterable[str] = ()
) -> dict[str, Any]:
    """Where the time of an item goes, by running some in this process, line by line.

    It ends after so many items or seconds. What is in the folders `without` is no file of the user's.
    `item_ms` is the time without the profile. `share` is each line's part of it, library calls included, and
    `share_with_calls` counts the user's functions that it calls as well. `parts` divides `share` by what a line does:
    `open`, `decode`, `resample`, `build` an object, `collate` or `other`; those of all lines are beside them. `builds`
    names the torch modules, and the classes of the user's own, that a line builds for most items.
    """
    from torch.utils.data import IterableDataset

    dataset, collate = loader.dataset, loader.collate_fn
    inner = [getattr(dataset, name, None) for name in ("dataset", "transform")]
    lines = Lines(files_of(dataset, *inner, collate), without)
    reading, collating = ("dataset", 0), ("collate", 0)
    count, timed, plain, began = 0, 0, 0.0, clock()
    of_collating: set[tuple[str, int]] = {collating}

    def collated(work: Callable[[], Any]) -> None:
        before = dict(lines.seconds)
        lines.run(work, collating)
        of_collating.update(at for at in lines.seconds if at not in before)

    if isinstance(dataset, IterableDataset):
        stream, batch = iter(dataset), loader.batch_size or 1
        next(stream, None)
        while count < items and clock() - began < seconds:
            came = [lines.run(lambda: next(stream, NO_BATCH), reading) for _ in range(batch)]
            if any(item is NO_BATCH for item in came):
                break
            collated(lambda came=came: collate(came if loader.batch_size else came[0]))
            count += len(came)
    else:
        whole = loader.batch_size is None and loader.batch_sampler is None
        for turn, chosen in enumerate(loader.sampler if whole else loader.batch_sampler):
            keys = [chosen] if whole else list(chosen)
            if turn % 5 == 1:  # other items than those of the profile, which would be in caches
                started = clock()
                came = fetched(dataset, keys, began + seconds)
                collate(came[0] if whole else came)
                plain, timed = plain + clock() - started, timed + (len(keys) if whole else len(came))
            else:
                came = lines.run(lambda keys=keys: fetched(dataset, keys, began + seconds), reading)
                collated(lambda came=came: collate(came[0] if whole else came))
                count += len(keys) if whole else len(came)
            if count >= items or clock() - began > seconds:
                break
    total = sum(lines.seconds.values()) or 1.0
    rows, shares = [], Counter()
    for (file, line), taken in sorted(lines.seconds.items(), key=lambda one: -one[1]):
        code, parts = linecache.getline(file, line).strip() if line else "", Counter()
        function = lines.functions.get((file, line), "")
        otherwise = "collate" if (file, line) in of_collating else "build" if function == "__init__" else "other"
        for called, spent in lines.in_calls[file, line].items():
            parts[part_of(code, called, otherwise)] += spent / total
        shares.update(parts)
        builds = [name for (at, name), times in lines.built.items() if at == (file, line) and 2 * times >= count]
        if len(rows) < 20 or builds:
            rows.append(
                {
                    "file": file,
                    "line": line,
                    "code": code,
                    "function": function,
                    "share": taken / total,
                    "parts": dict(parts.most_common()),
                    "share_with_calls": (taken + lines.with_calls[file, line]) / total,
                    "builds": builds,
                }
            )
    item_ms = 1000 * (plain / timed if timed else total / max(1, count))
    return {"items": count, "item_ms": item_ms, "parts": dict(shares.most_common()), "lines": rows}


def fetched(dataset: Any, keys: list[Any], until: float) -> list[Any]:
    """The items of some keys, as a DataLoader's worker takes them; one by one only `until` then, and one at least."""
    many = getattr(dataset, "__getitems__", None)
    if many:
        return many(keys)
    found = []
    for key in keys:
        found.append(dataset[key])
        if clock() > until:
            break
    return found


def starts_of(loader: Any) -> list[dict[str, Any]]:
    """Seconds to the first batch with one worker, by start method.

    A script that does not ask for `__main__` would train in each process that is not forked, so there it is only said.
    """
    import multiprocessing

    current = (
        getattr(loader.multiprocessing_context, "get_start_method", lambda: None)()
        or multiprocessing.get_start_method()
    )
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    try:
        guarded = script is not None and "__main__" in Path(script).read_text(encoding="utf-8")
    except OSError:
        guarded = False
    rows, first = [], clock()
    for method in dict.fromkeys((current, "fork", "forkserver", "spawn")):
        row: dict[str, Any] = {"method": method, "seconds": None, "error": None}
        rows.append(row)
        if clock() - first > STARTS_SECONDS:
            row["error"] = f"not tried: the methods before took {STARTS_SECONDS:.0f} s"
            continue
        if method not in multiprocessing.get_all_start_methods():
            row["error"] = "not available on this system"
            continue
        if method != "fork" and not guarded:
            row["error"] = 'your script has no `if __name__ == "__main__":`'
            continue
        began = clock()
        try:
            other = changed(loader, {"num_workers": 1, "multiprocessing_context": method, "timeout": START_SECONDS})
            other._feedrate_own = True
            iterator = iter(other)
            next(iterator, None)
            row["seconds"] = clock() - began
            del iterator
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {error}".strip().splitlines()[0][:200]
    return rows


# What was found


def finding(watch: Watch) -> dict[str, Any]:
    """attach.json, as docs/attach.schema.json describes it."""
    import torch

    seen = watch.lead or watch.leading()
    found: dict[str, Any] = {
        "version": VERSION,
        "verdict": "NOT-SEEN",
        "command": sys.argv,
        "passive": watch.passive,
        "rank": watch.rank,
        "world": watch.world,
        "notes": watch.notes,
        "au": None,
        "batches": 0 if seen is None else seen.batches,
        "losses": losses_of(watch.losses),
        "environment": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "cores": cores(),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        },
    }
    if seen is None or len(seen.waits) < 2:
        batches = "no batch" if seen is None else f"{seen.batches} batch" + "es" * (seen.batches > 1)
        watch.notes.append(
            f"found {batches} of a DataLoader in this process, needed are 3 in an epoch. "
            + (
                "Each batch starts the loader anew: do not call next(iter(loader)) for each step"
                if seen is not None and seen.epochs == seen.batches > 2
                else "Other loaders: for batch in feedrate_attach.watch(loader)"
            )
        )
        return found
    skip = WARM_UP if len(seen.waits) > 3 * WARM_UP else 0
    waits, steps = seen.waits[skip:], seen.steps[skip:]
    wait, step = statistics.fmean(waits), statistics.fmean(steps)
    period, items = wait + step, seen.items_a_batch()
    length = seen.epoch_length()
    start = seen.start_seconds(period) if length else 0.0
    start_share = start / (start + length * period) if length else 0.0
    by_waits = 100 * step / period * (1 - start_share)
    found.update(
        au={"percent": by_waits, "low": None, "high": None, "by": "waits"},
        wait_ms=1000 * wait,
        loop_step_ms=1000 * step,
        step_ms=1000 * step,
        period_ms=1000 * period / (1 - start_share),
        items_per_second=items and items / period * (1 - start_share),
        headspace_items_per_second=items and items / step if step else None,
        au_by_waits=by_waits,
        batch={**(seen.about or about_batch(None)), "items": items},
        loader=about_loader(seen.loader),
        epoch_starts={"seconds": start, "share": start_share, "seen": len(seen.first)},
        slowest=slowest(waits),
        cpu_percent=watch.cpu_percent,
        gpu_percent=statistics.fmean(watch.gpu) if watch.gpu else None,
        host_share=None,
        lines=watch.lines,
        tried=[],
        starts=watch.starts,
        items=items_of(seen),
        audio=audio_of(seen),
    )
    if watch.rounds is not None:
        add_rounds(found, watch.rounds, start, length)
    if watch.optimizer_thread and seen.thread != watch.optimizer_thread and found["au"]["by"] == "waits":
        watch.notes.append("another thread takes the batches: what it waits says little. Run without --passive")
    if found["environment"]["gpu"] and found["au"]["by"] == "waits":
        watch.notes.append("the GPU may work while your loop waits, so AU is at least this. Run without --passive")
    if not seen.in_steps:
        watch.notes.append("saw no optimizer step: it looked at the loader that gave the most batches")
    low, high = (
        found["au"][key] if found["au"][key] is not None else found["au"]["percent"] for key in ("low", "high")
    )
    middle = found["au"]["percent"]
    clearly_bound = high < BOUND or (middle < BOUND and found["au"]["by"] == "waits")
    found["verdict"] = "INPUT-BOUND" if clearly_bound else "NOT-BOUND" if low >= FREE else "CLOSE"
    return found


def add_rounds(found: dict[str, Any], rounds: Rounds, start: float, length: Optional[int]) -> None:
    """Add what the rounds say: AU, headspace and what was tried."""
    own, perfect, *others = rounds.sources
    au = ratio(perfect.periods, own.periods, T_95)
    if au is None:
        return
    whole = bool(own.epoch)  # type: ignore[attr-defined]
    period, step = statistics.fmean(own.periods.values()), statistics.fmean(perfect.periods.values())
    left = 1.0 if whole or not length else length * period / (start + length * period)
    items = statistics.fmean(own.items.values()) or found["batch"]["items"]
    names = ("percent", "low", "high")
    if au[1] > 1.01:
        rounds.watch.notes.append(
            f"your loop was {100 * (au[0] - 1):.0f} % slower on kept batches than on fresh ones: they differ, "
            "or your loader leaves them in the cache"
        )
    found["au"] = {name: max(0.0, min(100.0, 100 * value * left)) for name, value in zip(names, au)}
    found["au"]["by"] = "rounds"
    found.update(
        step_ms=1000 * step,
        period_ms=1000 * period / left,
        items_per_second=items and items / period * left,
        headspace_items_per_second=items and items / step,
        host_share=statistics.fmean(rounds.cpu_shares) if rounds.cpu_shares else None,
        rounds={"rounds": len(own.periods), "batches": rounds.turns[0].batches, "whole_epochs": whole},
    )
    found["batch"]["items"] = items
    if rounds.perfect.changed_in_place:
        rounds.watch.notes.append("your loop changes its batches in place: kept batches were copied, outside the times")
    for source in others:
        times = ratio(own.periods, source.periods, T_99)
        row = {
            "name": source.name,
            "change": source.change,
            "error": source.error,
            "times": None,
            "low": None,
            "high": None,
        }
        if times:
            scale = statistics.fmean(source.items.values()) / items if items and source.items else 1.0
            row.update(zip(("times", "low", "high"), (value * (scale or 1.0) for value in times)))
        found["tried"].append(row)


def about_loader(loader: Any) -> dict[str, Any]:
    """What a loader is, and its settings."""
    names = ("batch_size", "num_workers", "prefetch_factor", "pin_memory", "persistent_workers")
    settings = {name: getattr(loader, name, None) for name in names}
    dataset = getattr(loader, "dataset", None)
    name = None if dataset is None else type(dataset).__name__
    return {"type": type(loader).__name__, "dataset": name, "batches": length_of(loader), **settings}


def slowest(waits: list[float]) -> dict[str, float]:
    """How much of all waiting is for the slowest 1 % of the batches."""
    ordered, count = sorted(waits, reverse=True), max(1, round(0.01 * len(waits)))
    total = sum(ordered)
    return {
        "percent_of_batches": 100 * count / len(ordered),
        "share_of_waiting": sum(ordered[:count]) / total if total else 0.0,
        "longest_ms": 1000 * ordered[0],
        "median_ms": 1000 * statistics.median(ordered),
    }


def losses_of(losses: list[Any]) -> list[Optional[float]]:
    """The losses on which `backward` was called while the loader was watched; None where not finite."""
    numbers = []
    for loss in losses:
        try:
            numbers.append(float(loss))
        except Exception:  # not a scalar, or its device is lost
            continue
    return [number if math.isfinite(number) else None for number in numbers]


def items_of(seen: Seen) -> Optional[dict[str, Any]]:
    """Number, distinct number and one checksum of the items of the first whole epoch; None unless asked for."""
    if not seen.sums or not seen.whole_epochs:
        return None
    digest = zlib.crc32(",".join(map(str, sorted(seen.sums))).encode())
    return {"number": len(seen.sums), "distinct": len(set(seen.sums)), "digest": f"{digest:08x}"}


def audio_of(seen: Seen) -> Optional[dict[str, Any]]:
    """Sample rate in Hz and seconds of an item, where the dataset has the rate as an attribute; else None."""
    dataset, about = getattr(seen.loader, "dataset", None), seen.about or {}
    for name in ("sample_rate", "sampling_rate", "target_sample_rate", "sr"):
        rate, shape = getattr(dataset, name, None), about.get("shape") or [0]
        channels = shape[1] if len(shape) == 3 else 1
        if isinstance(rate, int) and 4000 <= rate <= 384_000 and shape[-1] >= rate / 10 and channels <= 2:
            return {"sample_rate": rate, "seconds": shape[-1] / rate}
    return None


# What it says


SAID = {
    "INPUT-BOUND": "INPUT-BOUND: your training waits for its loader {wait:.0f} % of its time{interval}.",
    "CLOSE": "CLOSE: your training waits for its loader {wait:.0f} % of its time{interval}.",
    "NOT-BOUND": "NOT INPUT-BOUND: AU is {au:.0f} %{interval}. A faster loader would not help.",
    "NOT-SEEN": "NOTHING MEASURED.",
}


def words(found: dict[str, Any], out: str) -> list[str]:
    """attach.json for a terminal."""
    notes = [f"  note: {one}" for one in found["notes"]]
    if found["au"] is None:
        return [SAID[found["verdict"]], *notes]
    au, batch, loader = found["au"], found["batch"], found["loader"]
    bounds = (
        (au["low"], au["high"])
        if found["verdict"] == "NOT-BOUND"
        else (100 - (au["high"] or 0), 100 - (au["low"] or 0))
    )
    interval = "" if au["low"] is None else f" ({bounds[0]:.0f} to {bounds[1]:.0f})"
    lines = [SAID[found["verdict"]].format(au=au["percent"], wait=100 - au["percent"], interval=interval)]
    settings = "no workers"
    if loader["num_workers"]:
        settings = f"{loader['num_workers']} workers, prefetch {loader['prefetch_factor']}" + ", pinned" * bool(
            loader["pin_memory"]
        )
    if batch["items"]:
        lines.append(
            f"  step without waiting {found['step_ms']:.1f} ms at batch {batch['items']:.0f} = "
            f"{found['headspace_items_per_second']:,.0f} items/s; your {loader['type']} gives "
            f"{found['items_per_second']:,.0f} ({settings})"
        )
    else:
        lines.append(
            f"  step without waiting {found['step_ms']:.1f} ms; a batch takes {found['period_ms']:.1f} ms ({settings})"
        )
    if au["by"] == "waits":
        lines.append("  AU is from waiting times alone: no kept batches were handed out")
    lines += words_of_causes(found)
    if found["lines"]:
        named = [(part, share) for part, share in found["lines"]["parts"].items() if share >= SHARE_OF_LINE]
        told = ", ".join(f"{part} {100 * share:.0f} %" for part, share in named)
        lines.append(f"  where an item's {found['lines']['item_ms']:.2f} ms go: {told}")
        parts = [(row["share_with_calls" if row["builds"] else "share"], row) for row in found["lines"]["lines"]]
        for share, row in [part for part in parts if part[0] >= SHARE_OF_LINE][:5]:
            where = (
                f"{os.path.basename(row['file'])}:{row['line']}  {row['code'][:70]}"
                if row["line"]
                else f"{row['file']}, in libraries"
            )
            built = f"  (builds {', '.join(row['builds'])} for each item)" if row["builds"] else ""
            lines.append(f"    {100 * share:3.0f} %  {where}{built}")
    if found["tried"]:
        tried = "; ".join(words_of_trial(row) for row in found["tried"])
        lines.append(f"  tried here, in {found['rounds']['rounds']} rounds: {tried}")
    took = {row["method"]: row["seconds"] for row in found["starts"] if row["seconds"] is not None}
    if len(took) > 1:
        lines.append(
            "  first batch with one worker: " + "; ".join(f"{name} {seconds:.1f} s" for name, seconds in took.items())
        )
    if found["verdict"] in ("INPUT-BOUND", "CLOSE"):
        lines.append(f"  next, in feedrate's folder: snakemake --config training={out}")
    return lines + notes


def words_of_causes(found: dict[str, Any]) -> list[str]:
    """Lines about epoch starts, the slowest batches and the slowest rank."""
    lines, starts, slow = [], found["epoch_starts"], found["slowest"]
    if starts["share"] > 0.01:
        keep = (
            ""
            if found["loader"]["persistent_workers"] or not found["loader"]["num_workers"]
            else "; persistent_workers=True keeps the workers"
        )
        lines.append(
            f"  the start of an epoch takes {starts['seconds']:.1f} s, {100 * starts['share']:.0f} % of the epoch{keep}"
        )
    if (
        slow["share_of_waiting"] > 0.3
        and slow["longest_ms"] > 10 * max(0.1, slow["median_ms"])
        and found["verdict"] != "NOT-BOUND"
    ):
        lines.append(
            f"  {100 * slow['share_of_waiting']:.0f} % of the waiting is for {slow['percent_of_batches']:.0f} % "
            f"of the batches, up to {slow['longest_ms']:.0f} ms"
        )
    ranks = [row for row in found.get("ranks", []) if row["wait_ms"] is not None]
    if len(ranks) > 1:
        last = max(ranks, key=lambda row: row["wait_ms"])
        rest = statistics.median(row["wait_ms"] for row in ranks if row is not last)
        lines.append(
            f"  rank {last['rank']} waits the longest: {last['wait_ms']:.1f} ms a batch, the others {rest:.1f} ms"
        )
    return lines


def words_of_trial(row: dict[str, Any]) -> str:
    """A setting that was tried, in words."""
    if row["times"] is None:
        return f"{row['name']}: failed ({row['error'] or 'no run was finished'})"
    interval = f"({row['low']:.2f} to {row['high']:.2f})"
    if row["low"] > 1 or row["high"] < 1:
        return f"{row['name']}: {row['times']:.2f} times {interval}"
    if row["low"] > 1 / CLEAR and row["high"] < CLEAR:
        return f"{row['name']}: no change"
    return f"{row['name']}: open {interval}"


# From outside


_watch: Optional[Watch] = None


class Watched:
    """An iterable of batches that is watched as a DataLoader is."""

    def __init__(self, loader: Any, key: Any) -> None:
        self.loader, self.key = loader, key

    def __iter__(self) -> Iterator[Any]:
        began = clock()
        if _watch is None:
            return iter(self.loader)
        return _watch.iteration(self.loader, lambda: iter(self.loader), began, self.key)

    def __len__(self) -> int:
        return len(self.loader)


def watch(loader: Iterable[Any]) -> Iterable[Any]:
    """A loader that is no DataLoader, watched under attach; without attach nothing changes."""
    if is_dataloader(loader):
        return loader
    caller = sys._getframe(1)
    return Watched(loader, (caller.f_code.co_filename, caller.f_lineno))


def parser() -> argparse.ArgumentParser:
    """The parser of the program's options."""
    options = argparse.ArgumentParser(
        prog="feedrate_attach", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--passive", action="store_true", help="only watch; the training runs to its end")
    options.add_argument("--out", type=Path, default=Path("attach.json"), help="file to write (default: attach.json)")
    options.add_argument(
        "--budget", type=float, default=60.0, metavar="SECONDS", help="for what is tried (default: 60)"
    )
    options.add_argument("--items", action="store_true", help="also checksums of the items of the first epoch")
    options.add_argument("-m", dest="module", action="store_true", help="the training is a module, as for python -m")
    options.add_argument("script", help="your training")
    options.add_argument("arguments", nargs=argparse.REMAINDER, help="its own arguments")
    return options


def refusal(given: argparse.Namespace) -> Optional[str]:
    """Why nothing can be run, None where it can."""
    if not given.module and not os.path.isfile(given.script):
        return f"found no file {given.script!r}. Type your training's script, or -m and its module."
    if not given.out.absolute().parent.is_dir():
        return f"found no folder {str(given.out.absolute().parent)!r} for --out. Type the path of a folder that exists."
    try:
        import torch

        del torch
    except ImportError:
        return "found no PyTorch for this Python. Run it with the Python of your training."
    return None


def main() -> int:
    """Run the training under the watch; 0 where the watch ended it, else its own exit status."""
    global _watch
    given = parser().parse_args()
    problem = refusal(given)
    if problem:
        print(f"feedrate_attach: error: {problem}", file=sys.stderr)
        return 2
    sys.modules["feedrate_attach"] = sys.modules["__main__"]
    KeepsMemory.__module__ = "feedrate_attach"  # for workers that are not forked
    given.out = given.out.absolute()
    sys.argv = [given.script, *given.arguments]
    own = sys.path[0]
    sys.path[0] = os.getcwd() if given.module else os.path.dirname(os.path.abspath(given.script))
    sys.path.append(own)  # for processes that are not forked, and import feedrate_attach
    _watch = Watch(given.passive, given.out, given.budget, given.items)
    _watch.attach()
    try:
        if given.module:
            runpy.run_module(given.script, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(given.script, run_name="__main__")
    except BaseException as error:
        if isinstance(error, Stop) or _watch.stopped:
            return 0  # whatever the script made of Stop
        if not isinstance(error, KeyboardInterrupt):
            raise
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second one ends this at once
        _watch.report()
        return 130
    finally:
        if os.getpid() == _watch.process:
            _watch.report()
    return 0


if __name__ == "__main__":
    sys.exit(main())
