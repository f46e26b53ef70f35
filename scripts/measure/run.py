"""One run: a loader taken through the protocol, and what is found out about it afterwards."""

import contextlib
import itertools
import os
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from math import prod
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

from scripts.common import plugins
from scripts.common.counting import DISTURBED_PERCENT
from scripts.common.errors import advice
from scripts.common.location import Location
from scripts.common.request import LoaderRequest
from scripts.common.vocabulary import (
    CROPS,
    EXACT,
    LASTING,
    NEXT,
    NOT_WARM,
    RANDOM,
    SPLIT,
    SWEPT,
    TRAINING,
    VALIDATION,
    VERIFICATION,
)
from scripts.loaders._own_epochs import users_line
from scripts.loaders._transformed import DEVICE
from scripts.machine import control_groups, gpu, host
from scripts.machine.control_groups import Peak, leave_room
from scripts.machine.page_cache import ColdCache, evict, residency
from scripts.measure import ceiling, changed, checksums, item_lines, order, own_items, protocol, spans, tasks
from scripts.measure.bottleneck_trials import Explanation
from scripts.measure.declared import not_as_declared
from scripts.measure.launch import out_of_memory_kills
from scripts.measure.own_items import OwnSink, OwnVerifier, check_of
from scripts.measure.pieces import Pieces, decoded_by, off_in_time
from scripts.measure.protocol import Epoch, Times, rate, utilisation
from scripts.measure.record import without_speed
from scripts.measure.sampler import pss_of_tree
from scripts.measure.sink import MEANS, Holding, Sink
from scripts.measure.step import Stepped, Tried, following, trials, tried, wait
from scripts.measure.transformed import TransformedSink, opened
from scripts.measure.verify import Verifier
from scripts.measure.window import (
    EMPTY,
    NOTICED_BYTES_PER_SECOND,
    QUEUES,
    Known,
    Window,
    buffered_batches,
    cold_part,
    timed,
    timed_cold,
)
from scripts.plan.results import Result

NO_ROOM = (
    "out of memory in its limit: workers and batches grew beyond the room for the data; "
    "measure more items, or raise measure.limited_share"
)
# What libraries say, and what to do about it.
HINTS = {
    "DataLoader worker": "Look into its log; where memory (dmesg) or processes (ulimit -u) ran out, use fewer workers",
    "shared memory": "Give /dev/shm more room (df /dev/shm), or use fewer workers or smaller batches",
}
OPENED_AGAIN = "the loader cannot be opened again, or left within an epoch"
WRONG_STAGES = "one of the loader's STAGES does not deliver what its contract says"
CLOCK = time.perf_counter
STEP_TRIES = 2  # of the trials with steps, where others take much of the machine
SECOND_EPOCH_SHARE = 0.5  # of what the verify epoch took: for so long a proof goes on with the second one,
SECOND_EPOCH_LEAST, SECOND_EPOCH_SECONDS = 1.0, 20.0  # at least and at most
START_GAPS = 7  # between batches, beside which a proof sees what an epoch start takes
LEAST_PROOF_SHARE = 0.02  # of an epoch: what a start takes that only a proof has seen is then told
ENOUGH_ROOM = 1 << 50  # bytes: no limit


@dataclass(frozen=True)
class Wanted:
    """How long to measure what was asked for, and what that takes."""

    asked: Result
    epochs: int
    seconds: float = 0.0  # at least so long
    validation: Location | None = None  # of the validation split
    checksums: Path | None = None  # of the proven items: written by a proof, compared with by a run
    start_seconds: float = 0.0  # what an epoch start costs, for windows in which no epoch began
    pool: Any = None  # batches that the in-memory ceiling streams
    pool_owners: int = 1  # processes whose memory they are
    rank: Any = None  # measure/ranks.py: this process among those that share an epoch


def measure(
    module: ModuleType, request: LoaderRequest, corpus: Any, record: dict[str, Any], wanted: Wanted
) -> dict[str, Any]:
    """Return the record of a run that has begun with times, verification, host and warnings, or why it has no speed."""
    record["host"], record["versions"] = host.describe(("torch", *plugins.required(module, request.options)))
    run = _Run(module, request, corpus, record, wanted)
    kills, asked = out_of_memory_kills(), wanted.asked
    written = Path(asked.written, SPLIT) if asked.written else None
    if wanted.rank:
        wanted.rank.orders = run.verifier.orders
    try:
        how = {"epochs": run.times, "proof": run.proven, "run": run.measure_window, "trials": run.searched}
        times = how[asked.mode]()
        record["times"] = asdict(times)
        record["verification"] = run.verification()
        if run.own and asked.mode in ("epochs", "proof"):
            record["own"] = run.verifier.found()
        if run.sound and hasattr(module, "OWN_FILE") and asked.mode in ("epochs", "proof") and not wanted.rank:
            record["item_lines"] = item_lines.item_lines(module, request)  # after all that is timed
        if run.sound and asked.mode in ("epochs", "run"):
            run.look_back(times)
        if run.own and record["own"] and not wanted.rank:  # of ranks: once they are together
            record["warnings"] = [*record["warnings"], *own_items.warnings_of(record["own"])]
    except Exception as error:
        traceback.print_exc()
        record["verification"] = run.verification()
        record["limits"] = None
        no_room = NO_ROOM if run.cache == "limited" and out_of_memory_kills() > kills else ""
        said = f"{type(error).__name__}: {_one_line(error, request)}{users_line(error, module)}"
        known = advice(error) or next((words for part, words in HINTS.items() if part in str(error)), "")
        hint = f". {known}" if known else changed.words(written, request.location.path)
        cause = wanted.rank.cause(error) if wanted.rank else None
        return without_speed(record, "failed", no_room or said + hint, cause)
    if not run.sound:
        record["times"]["epochs"] = []
        problems = " | ".join(record["verification"]["problems"])
        files = changed.words(written, request.location.path)
        return without_speed(record, "failed", f"verification: {problems}{files}", VERIFICATION)
    if run.problem:
        return without_speed(record, "failed", run.problem, NOT_WARM if run.cache == "warm" else None)
    if asked.mode != "epochs":
        return record
    record["items_per_second"], record["au_percent"] = rate(times), utilisation(times)
    if asked.bottlenecks or asked.timeline or asked.batch_ms:
        run.searched()
    return record


class _Run:
    """What one run shares among its phases; `record` grows as things are found out."""

    def __init__(
        self, module: ModuleType, request: LoaderRequest, corpus: Any, record: dict[str, Any], wanted: Wanted
    ) -> None:
        self.module, self.request, self.corpus, self.record, self.wanted = module, request, corpus, record, wanted
        self.asked, self.task, self.cache = wanted.asked, record["task"], record["cache"]
        self.clock = gpu.clock_of(request.device, CLOCK)
        self.reached = gpu.reached(request.device)
        varying = request.sample.kind == "image" and prod(request.sample.shape) >= MEANS
        self.own = check_of(module) != EXACT  # whether its items are the user's own
        self.tolerance = plugins.pixel_tolerance(module, record["settings"], request.sample) if varying else 0
        self.pieces = None
        if request.sample.kind == CROPS:
            files = Path(self.asked.written, SPLIT) if self.asked.written else request.data
            corpus.decoded = decoded_by(plugins.format_of(module), files, corpus, SPLIT)
            corpus.shift = plugins.time_shift(module, record["settings"])
            self.pieces = Pieces(request, corpus)
        share = self.pieces.share if self.pieces else 1.0
        self.cold = ColdCache(request.location.held_in, lambda: host.look(self.clock).read_bytes, share)
        self.agreed = wanted.rank.agreed if wanted.rank else bool
        self.groups = tuple(control_groups.joined)
        self.moments: dict[str, host.Moment] = {}
        self.consuming = threads_here()  # before the loader is opened
        self.readings: list[dict[str, Any]] = []  # of memory, right after the timed epochs
        self.stack = contextlib.ExitStack()  # of the watch over memory, until the timed epochs begin
        self.problem: str | None = None  # why the number is not one of these conditions
        self.different: list[str] = []  # how what a run delivered differs from what was proven
        self.delivered = 0  # items of a run
        self.in_first_epoch = False  # whether a run's window began there

    @cached_property
    def verifier(self) -> Verifier:
        """What an epoch is held to that is verified: the manifest, which a run of a proven result does not read."""
        of_all = self.wanted.rank and self.asked.mode == "epochs" and self.wanted.checksums
        return (OwnVerifier if self.own else Verifier)(
            self.corpus,
            SPLIT,
            self.request.batch_size,
            max(1, self.request.workers),
            self.request.device,
            self.request.world,
            plugins.value_limit(self.module, self.record["settings"], self.request.sample),
            self.tolerance,
            # a rank has other items in each epoch: those of its verify epoch alone say nothing of the others
            dict(checksums.load(of_all)) if of_all else {},
            level=check_of(self.module),
            pieces=self.pieces,
        )

    @property
    def sound(self) -> bool:
        """Whether what was delivered is right, as far as this run looks at it."""
        return not self.different if self.asked.mode in ("run", "trials") else self.verifier.ok

    @property
    def _held(self) -> int:
        """How many batches are in workers, queues and shuffle buffers."""
        return self.request.workers * self.request.prefetch + buffered_batches(self.module, self.request)

    def verification(self) -> dict[str, Any]:
        """Return what the record says of what was delivered; that of a run is by checksums of the proven items."""
        if self.asked.mode not in ("run", "trials"):
            return self.verifier.as_json()
        counts = {"expected": self.request.items, "delivered": self.delivered}
        return {"ok": not self.different, **counts, "problems": self.different}

    def proven(self) -> Times:
        """Let the verifier see an epoch, then how the next ones begin, of a rank all of one; keep the checksums.

        Note what was measured on the way: the order, what an epoch start takes, and how long a batch lasts.
        """
        times, holding = Times(), Holding(self._bytes_read())
        lasting = self.record["lifetime"] == LASTING
        sink = holding if lasting else holding.sink
        with protocol.verified(self._opened, self.verifier, sink, times, self.clock) as epoch:
            orders = list(self.verifier.orders)
            if self.verifier.ok and self.wanted.rank and not self.own:
                self.verifier.check_epoch(1, [sink.consume(batch) for batch in epoch(1)])
                orders = self.verifier.orders
            elif self.verifier.ok:
                orders += self._later_epochs(epoch, sink, times.verify_seconds)
            if self.verifier.ok and lasting and holding.changed():
                self.record["lifetime"] = NEXT
            holding.held.clear()
        self.record["order"] = order.measured(orders, self.verifier.items, self.request.batch_size)
        if self.own:
            self.record["order"] = None
        self.record["warnings"] = not_as_declared(self.record)
        if self.corpus.shift:
            self.record["warnings"].append(off_in_time(self.corpus.shift, self.corpus.sample_rate))
        if self.verifier.ok and self.wanted.checksums:
            checksums.save(self.wanted.checksums, self.verifier.sums)
        return times

    def _later_epochs(self, epoch: Epoch, sink: protocol.Sink, verify_seconds: float) -> list[list[int]]:
        """Return the orders of the second epoch and, where that came to its end, of the beginning of the third.

        The second one is left where it takes longer than a part of the first, and on storage that sends each byte.
        """
        longest = min(max(SECOND_EPOCH_SHARE * verify_seconds, SECOND_EPOCH_LEAST), SECOND_EPOCH_SECONDS)
        within = longest if self.request.location.path else 0.0
        noting = self.verifier.second(sink) if self.own else sink
        second, ended, cost = self._beginning(1, epoch(1), noting, within)
        self.record["epoch_start_seconds"] = cost
        return [second, self._beginning(2, epoch(2), sink)[0]] if ended and self.verifier.ok else [second]

    def _beginning(
        self, number: int, batches: Iterator[protocol.Batch], sink: protocol.Sink, within: float = 0.0
    ) -> tuple[list[int], bool, float]:
        """Return how an epoch begins: its items, whether it came to its end, what its start costs beyond a batch (s).

        It must have an order of its own, and goes on to its end for as long as it has not, or it is `within` so many
        seconds. A start costs 0 where epochs are of a single batch.
        """
        items: list[int] = []
        stamps, stream, ended = [self.clock()], iter(batches), True
        for batch in stream:
            self.reached()
            stamps.append(self.clock())
            items += sink.consume(batch).item.tolist()
            enough = len(stamps) > 1 + START_GAPS and len(items) >= order.LEAST_ITEMS
            if enough and stamps[-1] - stamps[0] >= within and not self.verifier.order_like(items):
                ended = False
                break
        if hasattr(stream, "close"):
            stream.close()
        if not items:
            raise RuntimeError(EMPTY.format(number))
        self.verifier.check_order(items, f" in epoch {number}")
        first, *gaps = itertools.starmap(lambda earlier, later: later - earlier, itertools.pairwise(stamps))
        return items, ended, max(0.0, first - median(gaps[:START_GAPS])) if gaps else 0.0

    def measure_window(self) -> Times:
        """Time a window of batches, and the in-memory ceiling right before and after it."""
        wanted, times = self.wanted, Times()
        proven = checksums.load(wanted.checksums)
        before = ceiling.ceiling(self.request, wanted.pool, self.clock)
        self.consuming = threads_here()
        window = self._cold_window(times) if self.cache == "cold" else self._warm_window(times)
        after = ceiling.ceiling(self.request, wanted.pool, self.clock)
        for number, (whole, taken) in enumerate(window.checksums):
            right = self._pieces_of(number, 1 / len(window.checksums)) if self.pieces else None
            self.different += [] if self.own else checksums.check_against(proven, taken, whole, self.tolerance, right)
            self.delivered += sum(taken.sizes)
        if self.record["declared"]["order"] == RANDOM and not self.own:  # few shards come in the same order by chance
            self.different += checksums.same_orders(taken for whole, taken in window.checksums if whole)
        if not self.own:
            delivered = [[item for sums in taken for item in sums.item.tolist()] for _, taken in window.checksums]
            found = order.measured(delivered, proven.keys(), self.request.batch_size)
            self.different += order.other_than_proven(self.record["order"], found)
        times.epochs, window = window.parts, window.cold()
        found = window.start_seconds()
        cost = wanted.start_seconds if found is None else found
        thought = "proof" if self.asked.start_seconds is None else "runs"
        if not self.different:
            items_per_second = window.rate(cost, self.request.items)
            self.record |= {
                "items_per_second": items_per_second,
                "steady_items_per_second": window.steady_rate(cost),
                "epoch_start_seconds": cost,
                "epoch_start_from": thought if found is None else "window",
                "au_percent": window.utilisation(items_per_second),
                "ceiling": None if self.request.applied or self.own else {"before": before, "after": after},
            }
        return times

    def _pieces_of(self, number: int, share: float) -> Callable[[list[tuple[int, ...]]], list[int]]:
        """Return the function that finds wrong pieces in an epoch of the window; cold ones have their own seeds."""
        epoch, seed = (0, self.request.seed + 1 + number) if self.cache == "cold" else (number, None)
        return partial(self.pieces.differing, epoch=epoch, seed=seed, share=share)

    def _cold_window(self, times: Times) -> Window:
        """Time epochs that come from the device; the first batch is that of the first of them."""
        # each epoch has a seed of its own: an order that no other epoch had
        opened = lambda number: self._opened(seed=self.request.seed + 1 + number)  # noqa: E731
        seconds, part = self.wanted.seconds, cold_part(self.request, QUEUES * self._held)
        window = timed_cold(opened, self._sink(), self.clock, self.cold, seconds, part, self._held, self._around)
        first = window.parts[0]
        times.construct_seconds, times.first_batch_seconds = first.opening_seconds, first.gap_seconds
        return window

    def _warm_window(self, times: Times) -> Window:
        """Time a window of an open loader, and note the phases around it."""
        wanted, sink = self.wanted, self._sink()
        start = self.clock()

        def first_batch() -> None:
            self.reached()
            times.first_batch_seconds = self.clock() - start

        with self._opened() as epoch:
            times.construct_seconds = self.clock() - start
            known = Known.of(self.request, self.asked.start_within, wanted.start_seconds)
            window = timed(epoch, sink, self.clock, wanted.seconds, self._held, self._around, first_batch, known=known)
            closing = self.clock()
        times.teardown_seconds = self.clock() - closing
        self.in_first_epoch = not window.edges[0][0]
        return window

    def times(self) -> Times:
        """Take the loader through the protocol as its task and its cache ask, and ranks that read to their ceiling."""
        if not self.wanted.rank or self.task != "read" or self.own:  # items of a user's own have another size
            return self._times()
        before = self._ceiling_of_ranks()
        times = self._times()
        if self.sound:
            self.record["ceiling"] = {"before": before, "after": self._ceiling_of_ranks()}
        return times

    def _ceiling_of_ranks(self) -> float:
        """Return this rank's in-memory ceiling while all others stream through memory too."""
        pool = ceiling.pool_of(self.request.batch_size, self.request.sample)
        self.agreed(True)
        return ceiling.ceiling(self.request, pool, self.clock)

    def _times(self) -> Times:
        task = tasks.load(self.task)
        if hasattr(task, "times"):
            return task.times(self)
        wanted, sink = self.wanted, self._sink()
        if self.request.applied:
            return self._transformed_times(sink)
        arguments = (self.verifier, sink, wanted.epochs, self.clock)
        if self.cache == "cold":
            # each epoch has a seed of its own: an order that no other epoch had
            opened = lambda number: self._opened(seed=self.request.seed + number)  # noqa: E731
            return protocol.run_cold(opened, *arguments, self.cold, wanted.seconds, self._around)
        if self.cache == "limited":
            evict(self.cold.files)  # pages count against the group whose process reads them first
            self.peak = self.stack.enter_context(Peak(self.groups))
        return protocol.run(self._opened, *arguments, wanted.seconds, self._around, self.agreed)

    def _transformed_times(self, sink: protocol.Sink) -> Times:
        """Return the times of whole epochs with the transform; what it transforms is verified before, without it."""
        times, wanted, delivered = Times(), self.wanted, []
        plain = self._reading(Sink(self.request.device))
        with protocol.verified(partial(self._opened, applied=None), self.verifier, plain, times, self.clock):
            pass
        if self.verifier.ok:
            with self._opened() as epoch:
                self._around("before")
                delivered = protocol.time_epochs(
                    epoch, sink, wanted.epochs, self.clock, wanted.seconds, times.epochs, self.agreed
                )
                self._around("after")
        protocol.check_epochs(self.verifier, delivered)
        return times

    def _sink(self, void: bool = False) -> protocol.Sink:
        """Return a sink for the batches; of `void` data nothing is known but its form."""
        if self.request.applied and not void:
            by_item = self.request.transform_in != DEVICE
            sink = TransformedSink(self.request.device, self.request.applied, self.corpus, by_item)
        elif self.own and self.task == "read":
            sink = self._bytes_read()
        else:
            sink = self._reading(tasks.load(self.task).sink(self.request))
        return self._stepped(sink, self.record["step_ms"]) if self.record["step_ms"] else sink

    def _bytes_read(self) -> protocol.Sink:
        """Return a sink that reads every byte of a batch."""
        return OwnSink(self.request.device) if self.own else self._reading(Sink(self.request.device))

    def _reading(self, sink: protocol.Sink) -> protocol.Sink:
        """Return the sink, told what its checksums are to hold."""
        if isinstance(sink, Sink):
            sink.varies = bool(self.tolerance) or (self.pieces is not None and self.corpus.decoded is not None)
        return sink

    def _stepped(self, sink: protocol.Sink, step_ms: float) -> Stepped:
        """Return a sink that takes an emulated step after each batch."""
        waiting = partial(wait, host_share=self.asked.host_share)
        return Stepped(sink, step_ms / 1000, self.clock, waiting, self.reached)

    def _opened(self, **changes: Any) -> AbstractContextManager[Epoch]:
        """Construct the loader, asked for what the run asks for but for `changes`."""
        if self.own:  # both epochs of a proof are untimed, of a run by whole epochs the first one
            changes = {"compared_epochs": {"proof": 2, "epochs": 1}.get(self.asked.mode, 0), **changes}
        return opened(self.module, replace(self.request, **changes))

    def _around(self, phase: str) -> None:
        """Look at the host before and after the timed epochs; leave the data little room where it is to have little."""
        if phase == "before" and self.cache == "limited":
            room = int(self.asked.limited_share * residency(self.cold.files).total_bytes)
            self.stack.close()
            self.record["limits"] = leave_room(self.groups, room, self.peak.used_bytes)
        self.agreed(True)  # all ranks have verified, or ended the last epoch, and no loader is closed
        root = self.wanted.rank.root if self.wanted.rank else os.getpid()
        self.moments[phase] = host.look(self.clock, root=root, kernel=self.cache != "warm")
        if phase == "after":
            if self.cache != "cold" and self.request.rank == 0:  # cold: the loaders are closed by then
                self.readings.append(pss_of_tree(root))
            self.agreed(True)
            if self.cache == "limited":
                self.record["limits"]["resident_bytes"] = residency(self.cold.files).resident_bytes

    def searched(self) -> Times:
        """Find out what a proven result's speed does not say: how it feeds training steps, bottleneck, timeline."""
        asked, cold = self.asked, self.cold if self.cache == "cold" else None
        if asked.batch_ms and self.task in SWEPT and not self.record["step_ms"]:
            when, unknown = "with training steps between its batches", "how it feeds them is not known"
            with self._number_stands("no-steps", when, unknown), self._opened() as epoch:
                self._find_steps(epoch)
        if asked.bottlenecks:
            when, unknown = "with parts of its work left out", "what holds this loader back is not known"
            with self._number_stands("no-bottleneck-trials", when, unknown, WRONG_STAGES):
                self._try_bottlenecks(cold)
        if asked.timeline:
            when, unknown = "opened once more for the batch timeline", "its first batches are not drawn"
            with self._number_stands("no-timeline", when, unknown):
                batches = spans.batches_for(self.request.workers)
                self.record["spans"] = spans.timeline(self._opened, self._sink(), batches, cold)
        return Times()

    @contextlib.contextmanager
    def _number_stands(self, code: str, when: str, unknown: str, cause: str = OPENED_AGAIN) -> Iterator[None]:
        """Note as a warning what goes wrong after the number is there."""
        try:
            yield
        except Exception as error:
            traceback.print_exc()
            seen = f"{when} it broke: {type(error).__name__}: {_one_line(error, self.request)}"
            self.record["warnings"].append(host.warning(code, seen, cause, f"the number stands; {unknown}"))

    def _find_steps(self, epoch: Epoch) -> None:
        """Note what steps of some lengths give beside the open loader; not in its first epoch, where that is short."""
        asked, held, epoch = self.asked, self._held, following(epoch)

        sink = self._bytes_read

        def window(step_ms: float, long: bool) -> Tried:
            return tried(epoch, self._stepped(sink(), step_ms) if step_ms else sink(), step_ms, self.clock, held, long)

        def made() -> dict[str, Any]:
            return trials(window, asked.batch_ms, asked.asked_step_ms or None, self.clock)

        timed(epoch, sink(), self.clock, 0.0, held, known=Known.of(self.request, 0.0, 0.0))
        self.record["steps"] = {**self._undisturbed(made), "host_share": asked.host_share}

    def _undisturbed(self, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return what `work` returns, with how much of all cores others took from it: of a few tries the first that is
        as little disturbed as a run that counts, else the least disturbed one.
        """
        tries: list[dict[str, Any]] = []
        while len(tries) < STEP_TRIES and (not tries or tries[-1]["others_percent"] > DISTURBED_PERCENT):
            before = host.look(self.clock)
            found = work()
            tries.append({**found, "others_percent": host.others_percent(before, host.look(self.clock))})
        return min(tries, key=lambda found: found["others_percent"])

    def trained(self, take: Callable[..., tuple[Times, Any]]) -> Times:
        """Train on the loader's batches by `take` (`training.run_bare` or what takes the same); note what came of it.

        The loader of the validation split is opened beside that of the train split, as a training has it.
        """
        from scripts.measure import training

        wanted, logs = self.wanted, self.asked.logs
        with contextlib.ExitStack() as stack:
            task = training.Task(
                device=self.request.device,
                inputs=training.inputs_of(self.request),
                seed=self.request.seed,
                validation=self._validation(stack),
                logs=Path(logs) if logs and self.request.rank == 0 else None,
                epochs=wanted.epochs,
                least_seconds=wanted.seconds,
                clock=self.clock,
                around=self._around,
                agreed=self.agreed,
            )
            times, training_ = take(self._opened, self.verifier, task)
        self.record["training"] = training_ and asdict(training_)
        return times

    def _validation(self, stack: contextlib.ExitStack) -> Callable[[], Iterator[protocol.Batch]] | None:
        """Return what gives a pass over the validation split, opened on `stack`; None where the split is empty."""
        items = self.corpus.counts[VALIDATION]
        if not items:
            return None
        epoch = stack.enter_context(self._opened(location=self.wanted.validation, items=items, shuffle=False))
        numbers = itertools.count()
        return lambda: epoch(next(numbers))

    def look_back(self, times: Times) -> None:
        """Note what the timed epochs used, what disturbed them, and whether they were in the asked state."""
        # the process tree is that of all ranks, so that this is what they deliver, give or take an item
        record, items = self.record, self.request.world * max(1, sum(epoch.items for epoch in times.epochs))
        record["before"], record["after"] = self.moments["before"].as_json(), self.moments["after"].as_json()
        record["resources"] = host.resources(**self.moments, items=items)
        if self.request.world == 1:
            record["resources"]["loader_threads"] = host.threads_at_work(**self.moments, beside=self.consuming)
        record["warnings"] = host.disturbance(**self.moments)
        record["warnings"] += not_as_declared(record) + start_of_proof(record)
        if self.corpus.shift:
            record["warnings"].append(off_in_time(self.corpus.shift, self.corpus.sample_rate))
        record["warnings"] += first_epoch(record) if self.in_first_epoch else []
        record["sampled"] = self._sampled(times)
        if self.cache == "warm":
            payload = self._payload_bytes(items)
            record["warnings"] += host.not_warm(**self.moments, payload_bytes=payload)
            self.problem = host.from_device(**self.moments, payload_bytes=payload)
        if self.cache == "cold":
            warm = [epoch.cache["problem"] for epoch in times.epochs if epoch.cache["problem"]]
            if len(warm) == len(times.epochs):
                self.problem = f"not cold: {warm[0]}"
            elif warm:
                record["warnings"].append(not_cold(warm, len(times.epochs)))
        if self.cache == "limited":
            self.problem = not_limited(record["limits"], record["resources"]["read_bytes"], len(times.epochs))

    def _payload_bytes(self, items: int) -> int:
        """Return about how many stored bytes so many items have; of files of the user's own by what they all have."""
        format = plugins.format_of(self.module)
        if not hasattr(format, "BYTES"):
            if self.pieces:
                each = residency(self.cold.files).total_bytes * self.pieces.share / max(1, self.request.items)
                return round(items * each)
            return items * plugins.takes(format, self.request.sample)
        an_epoch = ((self.record["own"] or {}).get("expected") or items) if self.record.get("own") else items
        return max(1, round(items / max(1, an_epoch) * format.BYTES))

    def _sampled(self, times: Times) -> dict[str, Any]:
        """Return what measure/sampler.py is to sum up: when the timed epochs were, and what was read after them.

        The epochs of a plain warm run follow one another without a pause, so that their ends are known.
        """
        begin, end = (self.moments[phase].wall_seconds for phase in ("before", "after"))
        ends = itertools.accumulate((epoch.seconds for epoch in times.epochs), initial=begin)
        known = self.cache != "cold" and self.task not in TRAINING and self.asked.mode == "epochs"
        pool = {"pool_bytes": getattr(self.wanted.pool, "nbytes", 0), "pool_owners": self.wanted.pool_owners}
        spans = {"begin": begin, "end": end, "epoch_ends": list(ends)[1:] if known else []}
        return {**spans, "readings": self.readings, **pool}

    def _try_bottlenecks(self, cold: ColdCache | None) -> None:
        """Note the speeds that the loader has with parts of its work left out."""
        lift = partial(leave_room, self.groups, ENOUGH_ROOM) if self.cache == "limited" else None
        parts = Explanation(self._opened, partial(self._sink, void=True), self.clock, cold, lift)
        found = parts.speeds(self.module, self.request, bool(self.record["step_ms"]))
        self.record["bottleneck_trials"] = found if found["without"] else None


def threads_here() -> frozenset[int]:
    """Return the threads of this process."""
    return frozenset(map(int, os.listdir("/proc/self/task")))


def not_cold(problems: list[str], epochs: int) -> dict[str, str]:
    """Return the warning of a cold run some of whose epochs were not."""
    return host.warning(
        "not-cold",
        f"{len(problems)} of {epochs} epochs were not cold and do not count: {problems[0]}",
        "something else keeps the files in the page cache",
        "measure with more items, and with nothing else that reads them",
    )


def start_of_proof(record: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the warning of a run in whose speed an epoch start counts that only the proof has seen; else nothing."""
    if record["epoch_start_from"] != "proof":
        return []
    epoch = record["items"] / record["items_per_second"]
    share = record["epoch_start_seconds"] / epoch
    if share < LEAST_PROOF_SHARE:
        return []
    return [
        host.warning(
            "epoch-start-of-proof",
            f"{100 * share:.1f} % of an epoch is its start, which was seen in the proof, beside other jobs",
            "an epoch is too long for a window to go on until the next",
            f"measure longer windows: the same command with measure='{{seconds: {epoch:.0f}}}' behind --config",
        )
    ]


def first_epoch(record: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the warning of a run whose window began in its first epoch, though that is read fast; else nothing."""
    rate = record["item_bytes"] * record["items_per_second"]
    if rate < NOTICED_BYTES_PER_SECOND:
        return []
    return [
        host.warning(
            "first-epoch",
            f"the window lies in the first epoch of its process, at {rate / 1e6:,.0f} MB/s",
            "an epoch is too long to go untimed, and in the first one pages are mapped and memory is taken",
            "the number holds for a first epoch; later ones may be faster",
        )
    ]


def not_limited(limits: Mapping[str, Any], read_bytes: int, epochs: int) -> str | None:
    """Return why a run's cache was not limited, or None: it held more than it had room for, or nothing was read."""
    if limits["resident_bytes"] > 1.05 * limits["room_bytes"] + 4e6:
        return (
            f"not limited: {limits['resident_bytes'] / 1e6:,.1f} MB of the files were in the page cache at the end, "
            f"and its room was {limits['room_bytes'] / 1e6:,.1f} MB. Batches take much memory beside so small a set: "
            "measure more items, or raise measure.limited_share"
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
