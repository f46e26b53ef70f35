"""Takes the times of moving tensors: each method of each operation in turns, proven before and after.

The methods take turns in random order, so that a drift of the machine falls on all.
"""

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.common.vocabulary import SPLIT
from scripts.machine import gpu
from scripts.measure.record import begun, failed
from scripts.plan.results import Tensors

if TYPE_CHECKING:
    from scripts.measure.tensors.methods import Method

ROUNDS = 5  # each method's turns, and thereby the least number of its times
TIMES_A_TURN = 20  # at most about so many: where an operation is quicker, one time covers a series of them
WARM_UPS = 3  # untimed series, at least
FASTER = 10  # a series is at most so many times as long as the one before, while its length is looked for
LONGEST_SERIES = 1_000_000
STALE = 113  # what is put where whole numbers are to be delivered to


class Taking:
    """A method's times. A method that cannot run, breaks or delivers other values has none, and a reason."""

    def __init__(self, method: "Method", clock: Callable[[], float]) -> None:
        self.method, self.clock = method, clock
        self.status, self.reason = ("skipped", method.reason) if method.reason else ("ok", None)
        self.series, self.turn, self.seconds = method.least, 0, []

    def attempt(self, step: Callable[..., None], *given: Any) -> None:
        """Take a step, if all went well so far."""
        if self.status != "ok":
            return
        try:
            step(*given)
        except Exception as error:  # whatever breaks one method must not end the others
            first = (str(error).splitlines() or [""])[0]
            self.fail(f"{type(error).__name__}: {first}")

    def fail(self, reason: str) -> None:
        """Note why there is no number."""
        self.status, self.reason, self.seconds = "failed", reason, []

    def check(self) -> None:
        """Make one operation, untimed, and compare what it delivers with what is right."""
        if self.method.reused is not None:
            self.method.reused.fill_(float("nan") if self.method.reused.is_floating_point() else STALE)
        if self.method.prepare:
            self.method.prepare(self.turn)
        got = self.method.run(self.turn)
        self._finish()
        problem = self.method.problem(got, self.turn)
        if problem:
            self.fail(problem)
        self.turn += 1

    def warm_up(self, turn_seconds: float) -> None:
        """Make untimed series, each longer than the one before until they are long enough for one time."""
        goal = turn_seconds / TIMES_A_TURN
        warmed = 0
        while True:
            seconds, warmed = self._series(), warmed + 1
            if seconds < goal / 2 and self.series < LONGEST_SERIES:
                wanted = self.series * min(FASTER, int(goal / max(seconds, 1e-9)))
                self.series = min(LONGEST_SERIES, wanted)
            elif warmed >= WARM_UPS:
                return

    def take(self, turn_seconds: float) -> None:
        """Add the times of one turn, at least one and together at least `turn_seconds`, after an untimed series."""
        from scripts.measure.tensors.worker_pool import give_back

        give_back()
        self._series()
        taken = 0.0
        while not taken or taken < turn_seconds:
            self.seconds.append(self._series())
            taken += self.seconds[-1]

    def _series(self) -> float:
        """Return the seconds of one series of operations; what prepares each is not timed."""
        method, clock = self.method, self.clock
        turns = range(self.turn, self.turn + self.series)
        self.turn += self.series
        seconds = 0.0
        for part in [[turn] for turn in turns] if method.prepare else [turns]:
            if method.prepare:
                method.prepare(part[0])
            start = clock()
            for turn in part:
                method.run(turn)
            self._finish()
            seconds += clock() - start
        return seconds

    def _finish(self) -> None:
        if self.method.finish:
            self.method.finish()

    def as_json(self, item_bytes: int) -> dict[str, Any]:
        """Return what the record keeps."""
        method, total = self.method, sum(self.seconds)
        speed = method.items * self.series * len(self.seconds) / total if total else None
        return {
            "operation": method.operation,
            "method": method.name,
            "device": method.device,
            "items": method.items,
            "bytes": method.items * item_bytes,
            "delivers": method.delivers,
            "series": self.series,
            "seconds": [round(seconds, 9) for seconds in self.seconds],
            "items_per_second": speed,
            "megabytes_per_second": speed and speed * item_bytes / 1e6,
            "status": self.status,
            "reason": self.reason,
        }


def take_turns(
    methods: Sequence["Method"],
    seconds: float,
    order: random.Random,
    clock: Callable[[], float],
    around: Callable[[str], None],
) -> list[Taking]:
    """Return the times of all methods, each at least `seconds` long in ROUNDS turns; `order` shuffles each round.

    `around` is called with "before" and "after" the timed rounds.
    """
    takings = [Taking(method, clock) for method in methods]
    for taking in takings:
        taking.attempt(taking.check)
        taking.attempt(taking.warm_up, seconds / ROUNDS)
    around("before")
    for _ in range(ROUNDS):
        for taking in order.sample(takings, len(takings)):
            taking.attempt(taking.take, seconds / ROUNDS)
    around("after")
    for taking in takings:
        taking.attempt(taking.check)
    return takings


def new_record(wanted: Tensors) -> dict[str, Any]:
    """Return the record of operations that have not been measured."""
    return begun("tensors", wanted, workers=wanted.workers, tensors=[])


def measure(wanted: Tensors) -> dict[str, Any]:
    """Return the record of all operations."""
    import psutil
    import torch

    from scripts.common.corpus import Corpus
    from scripts.machine import host
    from scripts.measure.tensors import items as places, methods

    record = new_record(wanted)
    torch.set_num_threads(record["threads"])
    device, batch_size = (record["settings"][key] for key in ("device", "batch_size"))
    if device == "cuda" and not gpu.available():
        return {**record, "status": "skipped", "reason": "no GPU that torch can use is visible to this process"}
    corpus = Corpus(Path(wanted.corpus))
    record["item_bytes"] = item_bytes = corpus.sample.bytes
    available = psutil.virtual_memory().available
    items = resident_items(corpus.counts[SPLIT], batch_size, item_bytes, available)
    if not items:
        reason = f"a quarter of the free {available / 1e6:,.0f} MB does not hold {places.RESERVE_BATCHES + 1} batches"
        return {**record, "status": "skipped", "reason": reason}
    record["items"] = items
    moments, seed = {}, [wanted.seed, wanted.repeat]

    def around(phase: str) -> None:
        moments[phase] = host.look(time.perf_counter)

    try:
        bench = places.Bench(items, corpus.sample, batch_size, seed)
        data = Path(wanted.data) if wanted.data else None
        with methods.opened(bench, corpus, data, wanted.workers, device) as methods:
            order = random.Random(str(seed))
            takings = take_turns(methods, wanted.seconds, order, time.perf_counter, around)
    except (RuntimeError, MemoryError) as error:
        return failed(record, error)
    record["host"], _ = host.describe(("torch",))  # afterwards, since it may start CUDA, and the pool is forked
    record["tensors"] = [taking.as_json(item_bytes) for taking in takings]
    record["before"], record["after"] = moments["before"].as_json(), moments["after"].as_json()
    record["warnings"] = host.disturbance(**moments) + _not_warm(record["tensors"], moments)
    return record


def resident_items(wanted: int, batch_size: int, item_bytes: int, available: int) -> int:
    """Return how many items are in RAM: at least a batch, as many as `wanted` if they fit; 0 where memory is short."""
    from scripts.measure.tensors.items import MEMORY_SHARE, RESERVE_BATCHES, RESIDENT_BYTES

    fitting = int(available * MEMORY_SHARE) // item_bytes - RESERVE_BATCHES * batch_size
    if fitting < batch_size:
        return 0
    return max(batch_size, min(wanted, fitting, RESIDENT_BYTES // item_bytes))


def _not_warm(taken: list[dict[str, Any]], moments: dict[str, Any]) -> list[Any]:
    """Return a warning where the mapped file was read from a device."""
    from scripts.machine import host
    from scripts.measure.tensors.methods import MAPPED

    mapped = [operation for operation in taken if operation["method"].startswith(MAPPED)]
    payload = sum(operation["bytes"] * operation["series"] * len(operation["seconds"]) for operation in mapped)
    return list(host.not_warm(**moments, payload_bytes=payload)) if payload else []
