"""One run: a loader taken through the protocol, and what is found out about it afterwards."""

import contextlib
import itertools
import os
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from scripts.common.location import Location
from scripts.common.request import LoaderRequest
from scripts.common.vocabulary import SPLIT, SWEPT, TRAINING, VALIDATION
from scripts.loaders._own_epochs import users_line
from scripts.machine import device_prefetch, host
from scripts.machine.control_groups import Peak, leave_room
from scripts.machine.page_cache import ColdCache, evict, residency
from scripts.measure import protocol, spans, tasks
from scripts.measure.bottleneck_trials import Explanation
from scripts.measure.child import out_of_memory_kills
from scripts.measure.protocol import Epoch, EpochTimes, Times, rate, utilisation
from scripts.measure.record import without_speed
from scripts.measure.sampler import pss_of_tree
from scripts.measure.sink import Sink
from scripts.measure.step import Stepped, Trial, minimum_step
from scripts.measure.verify import Verifier

NO_ROOM = (
    "out of memory in its limit: what workers and batches take grew by more than the room that is left to the data; "
    "measure more clips, or raise measure.limited_share"
)
CLOCK = time.perf_counter
TRIAL_SECONDS = 0.3  # a length of step is tried for at least so long
ENOUGH_ROOM = 1 << 50  # bytes: no limit


@dataclass(frozen=True)
class Wanted:
    """How long to measure, and what to find out."""

    epochs: int
    seconds: float = 0.0  # at least so long
    bottlenecks: bool = False  # look for what holds the loader back
    timeline: bool = False  # note what each process does with the first batches of one more epoch
    step_limit_ms: float = 0.0  # look for the minimum step that it sustains, up to here; 0: do not look
    groups: tuple[str, ...] = ()  # control groups that this process tree is in
    limited_share: float = 0.5  # of the data, that a limited cache may hold
    validation: Location | None = None  # of the validation split
    logs: Path | None = None  # TensorBoard's folder of a training


def measure(
    module: ModuleType, request: LoaderRequest, corpus: Any, record: dict[str, Any], wanted: Wanted
) -> dict[str, Any]:
    """Return the record of a run that has begun with times, verification, host and warnings, or why it has no speed."""
    record["host"], record["versions"] = host.describe(("torch", *module.REQUIRES))
    run = _Run(module, request, corpus, record, wanted)
    kills = out_of_memory_kills()
    try:
        times = run.times()
        record["times"] = asdict(times)
        record["verification"] = run.verifier.as_json()
        if run.verifier.ok:
            run.look_back(times)
    except Exception as error:
        traceback.print_exc()
        record["verification"] = run.verifier.as_json()
        record["limits"] = None
        no_room = NO_ROOM if run.cache == "limited" and out_of_memory_kills() > kills else ""
        said = f"{type(error).__name__}: {_one_line(error, request)}{users_line(error, module)}"
        return without_speed(record, "failed", no_room or said)
    if not run.verifier.ok:
        record["times"]["epochs"] = []
        return without_speed(record, "failed", "verification: " + " | ".join(run.verifier.problems))
    if run.problem:
        return without_speed(record, "failed", run.problem)
    record["clips_per_second"], record["au_percent"] = rate(times), utilisation(times)
    if wanted.bottlenecks:
        run.try_bottlenecks()
    if wanted.timeline:
        run.note_spans()
    return record


class _Run:
    """What one run shares among its phases; `record` grows as things are found out."""

    def __init__(
        self, module: ModuleType, request: LoaderRequest, corpus: Any, record: dict[str, Any], wanted: Wanted
    ) -> None:
        self.module, self.request, self.corpus, self.record, self.wanted = module, request, corpus, record, wanted
        self.task, self.cache = record["task"], record["cache"]
        self.verifier = Verifier(corpus, SPLIT, request.batch_size, max(1, request.workers), request.device)
        self.moments: dict[str, host.Moment] = {}
        self.cold = ColdCache(request.location.held_in, lambda: host.look(CLOCK).read_bytes)
        self.readings: list[dict[str, Any]] = []  # of memory, right after the timed epochs
        self.stack = contextlib.ExitStack()  # of the watch over memory, until the timed epochs begin
        self.problem: str | None = None  # why the number is not one of these conditions

    def times(self) -> Times:
        """Take the loader through the protocol as its task and its cache ask."""
        task = tasks.load(self.task)
        if hasattr(task, "times"):
            return task.times(self)
        wanted, sink = self.wanted, self._sink()
        arguments = (self.verifier, sink, wanted.epochs, CLOCK)
        if self.cache == "cold":
            times = protocol.run_cold(self._opened_as, *arguments, self.cold, wanted.seconds, self._around)
            self._find_step(times, self._cold_epoch)
            return times
        if self.cache == "limited":
            evict(self.cold.files)  # pages count against the group whose process reads them first
            self.peak = self.stack.enter_context(Peak(wanted.groups))
        return protocol.run(self._opened, *arguments, wanted.seconds, self._around, self._afterwards)

    def _sink(self) -> protocol.Sink:
        """Return what consumes the batches."""
        sink = tasks.load(self.task).sink(self.request)
        return Stepped(sink, self.record["step_ms"] / 1000, CLOCK) if self.record["step_ms"] else sink

    def _opened(self, **changes: Any) -> AbstractContextManager[Epoch]:
        """Construct the loader, asked for what the run asks for but for `changes`."""
        return device_prefetch.open_epochs(self.module, replace(self.request, **changes))

    def _opened_as(self, number: int) -> AbstractContextManager[Epoch]:
        """Construct a loader for one cold epoch, with a seed of its own: an order that no other epoch had."""
        return self._opened(seed=self.request.seed + number)

    def _around(self, phase: str) -> None:
        """Look at the host before and after the timed epochs; leave the data little room where it is to have little."""
        if phase == "before" and self.cache == "limited":
            room = int(self.wanted.limited_share * residency(self.cold.files).total_bytes)
            self.stack.close()
            self.record["limits"] = leave_room(self.wanted.groups, room, self.peak.used_bytes)
        self.moments[phase] = host.look(CLOCK)
        if phase == "after":
            if self.cache != "cold":  # whose loaders are closed by then
                self.readings.append(pss_of_tree(os.getpid()))
            if self.cache == "limited":
                self.record["limits"]["resident_bytes"] = residency(self.cold.files).resident_bytes

    def _afterwards(self, epoch: Epoch, times: Times) -> None:
        """Find the minimum step that the open loader sustains."""
        numbers = iter(range(1, 10**9))

        def on(_number: int) -> Any:
            return epoch(next(numbers))

        self._find_step(times, lambda sink: self._warm_epochs(on, sink))

    def _find_step(self, times: Times, epochs: Callable[[protocol.Sink], list[EpochTimes]]) -> None:
        """Note the minimum step that the loader sustains; `epochs` times some with a sink."""
        limit = self.wanted.step_limit_ms
        if not limit or self.task not in SWEPT or self.record["step_ms"] or not self.verifier.ok:
            return

        def trial(step_ms: float) -> Trial:
            timed = epochs(Stepped(Sink(self.request.device), step_ms / 1000, CLOCK))
            seconds = sum(epoch.seconds for epoch in timed)
            computed = sum(epoch.compute_seconds or 0.0 for epoch in timed)
            return Trial(step_ms, 100 * computed / seconds, seconds, sum(len(epoch.batch_clips) for epoch in timed))

        batches = sum(len(epoch.batch_clips) for epoch in times.epochs)
        per_batch = sum(epoch.seconds for epoch in times.epochs) / batches
        self.record["minimum_step"] = minimum_step(trial, per_batch, limit)

    def _warm_epochs(self, epoch: Epoch, sink: protocol.Sink) -> list[EpochTimes]:
        timed: list[EpochTimes] = []
        protocol.time_epochs(epoch, sink, 1, CLOCK, TRIAL_SECONDS, timed)
        return timed

    def _cold_epoch(self, sink: protocol.Sink) -> list[EpochTimes]:
        timed: list[EpochTimes] = []
        protocol.time_cold_epoch(self._opened, sink, CLOCK, self.cold, timed)
        return timed

    def trained(self, take: Callable[..., tuple[Times, Any]]) -> Times:
        """Train on the loader's batches by `take` (`training.run_bare` or what takes the same); note what came of it.

        The loader of the validation split is opened beside that of the train split, as a training has it.
        """
        from scripts.measure import training

        wanted = self.wanted
        with contextlib.ExitStack() as stack:
            task = training.Task(
                device=self.request.device,
                inputs=min(self.corpus.sample_rate, self.request.samples),
                seed=self.request.seed,
                validation=self._validation(stack),
                logs=wanted.logs,
            )
            times, training_ = take(
                self._opened, self.verifier, task, wanted.epochs, CLOCK, wanted.seconds, self._around
            )
        self.record["training"] = training_ and asdict(training_)
        return times

    def _validation(self, stack: contextlib.ExitStack) -> Callable[[], Iterator[protocol.Batch]] | None:
        """Return what gives a pass over the validation split, opened on `stack`; None where the split is empty."""
        clips = self.corpus.counts[VALIDATION]
        if not clips:
            return None
        epoch = stack.enter_context(self._opened(location=self.wanted.validation, clips=clips, shuffle=False))
        numbers = itertools.count()
        return lambda: epoch(next(numbers))

    def look_back(self, times: Times) -> None:
        """Note what the timed epochs used, what disturbed them, and whether they were in the asked state."""
        record, clips = self.record, sum(epoch.clips for epoch in times.epochs)
        record["before"], record["after"] = self.moments["before"].as_json(), self.moments["after"].as_json()
        record["resources"] = host.resources(**self.moments, clips=clips)
        record["warnings"] = host.disturbance(**self.moments)
        record["sampled"] = self._sampled(times)
        if self.cache == "warm":
            record["warnings"] += host.not_warm(**self.moments, payload_bytes=clips * record["clip_bytes"])
        if self.cache == "cold":
            warm = [epoch.cache["problem"] for epoch in times.epochs if epoch.cache["problem"]]
            if len(warm) == len(times.epochs):
                self.problem = f"not cold: {warm[0]}"
            elif warm:
                record["warnings"].append(not_cold(warm, len(times.epochs)))
        if self.cache == "limited":
            self.problem = not_limited(record["limits"], record["resources"]["read_bytes"], len(times.epochs))

    def _sampled(self, times: Times) -> dict[str, Any]:
        """Return what measure/sampler.py is to sum up: when the timed epochs were, and what was read after them.

        The epochs of a plain warm run follow one another without a pause, so that their ends are known.
        """
        begin, end = (self.moments[phase].wall_seconds for phase in ("before", "after"))
        ends = itertools.accumulate((epoch.seconds for epoch in times.epochs), initial=begin)
        known = self.cache != "cold" and self.task not in TRAINING
        return {"begin": begin, "end": end, "epoch_ends": list(ends)[1:] if known else [], "readings": self.readings}

    def try_bottlenecks(self) -> None:
        """Note the speeds that the loader has with parts of its work left out; the number stands if it breaks then."""
        cold = self.cold if self.cache == "cold" else None
        lift = partial(leave_room, self.wanted.groups, ENOUGH_ROOM) if self.cache == "limited" else None
        parts = Explanation(self._opened, self._sink, CLOCK, cold, lift)
        full, step = self.record["clips_per_second"], bool(self.record["step_ms"])
        try:
            self.record["bottleneck_trials"] = parts.speeds(self.module, self.request, full, step)
        except Exception as error:
            self._broke(
                "no-bottleneck-trials",
                "with parts of its work left out",
                error,
                "one of the loader's STAGES does not deliver what its contract says",
                "the number stands; what holds this loader back is not known",
            )

    def note_spans(self) -> None:
        """Note the batch timeline of one more epoch; the number stands if the loader breaks then."""
        cold, batches = self.cold if self.cache == "cold" else None, spans.batches_for(self.request.workers)
        try:
            self.record["spans"] = spans.timeline(self._opened, self._sink(), batches, cold)
        except Exception as error:
            self._broke(
                "no-timeline",
                "opened once more for the batch timeline",
                error,
                "the loader does not stand being opened again, or being left within an epoch",
                "the number stands; its first batches are not drawn",
            )

    def _broke(self, code: str, when: str, error: Exception, cause: str, hint: str) -> None:
        """Note as a warning what went wrong after the number was there."""
        traceback.print_exc()
        seen = f"{when} it broke: {type(error).__name__}: {_one_line(error, self.request)}"
        self.record["warnings"].append(host.warning(code, seen, cause, hint))


def not_cold(problems: list[str], epochs: int) -> dict[str, str]:
    """Return the warning of a cold run some of whose epochs were not."""
    return host.warning(
        "not-cold",
        f"{len(problems)} of {epochs} epochs were not cold and do not count: {problems[0]}",
        "something else keeps the files in the page cache, or the loader reads ahead before its first epoch",
        "measure with more clips, and with nothing else that reads them",
    )


def not_limited(limits: Mapping[str, Any], read_bytes: int, epochs: int) -> str | None:
    """Return why a run's cache was not limited, or None: it held more than it had room for, or nothing was read."""
    if limits["resident_bytes"] > 1.05 * limits["room_bytes"] + 4e6:
        return (
            f"not limited: {limits['resident_bytes'] / 1e6:,.1f} MB of the files was in the page cache at the end, and "
            f"its room was {limits['room_bytes'] / 1e6:,.1f} MB: what batches take comes and goes, and is much beside "
            "so small a data set; measure more clips, or raise measure.limited_share"
        )
    least = host.WARM_PERCENT / 100 * limits["room_bytes"] * epochs
    if read_bytes <= least:
        return f"not limited: {read_bytes / 1e6:,.1f} MB were read from the device in {epochs} epochs"
    return None


def _one_line(error: Exception, request: LoaderRequest) -> str:
    """Return an error's text as one line, without tracebacks inside it and without the path of the data."""
    lines = [line.strip() for line in str(error).splitlines()]
    noise = ("Traceback", "Original Traceback", "File ", "^", "~", "C++ context")
    text = " ".join(line for line in lines if line and not line.startswith(noise)) or "no message"
    path = request.location.held_in
    return (text.replace(str(path.parent), "...") if path else text)[:300]
