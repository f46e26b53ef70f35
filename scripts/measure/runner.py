"""How runs are made: a process for each, forked from a warm server where that may be, else a new interpreter."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from scripts.common import isolated, location
from scripts.common.corpus import Corpus
from scripts.common.files import read_json, write_json
from scripts.common.sample import Sample
from scripts.common.versions import commit
from scripts.common.vocabulary import COLD, SPLIT
from scripts.machine import allocator, control_groups, devices, page_cache
from scripts.measure import ceiling, control_run, launch, one_run, ranks, sampler
from scripts.measure.launch import Cause, Ended, Job
from scripts.measure.record import Record, threads_of, without_speed
from scripts.measure.warm import Server
from scripts.plan.results import Bound, Measurement, Result

NO_RECORD = (
    "the run left no record: its process ended by itself, or was killed from outside, for lack of memory, say, each "
    "time that it was tried; its log says what it said"
)
CONTROL_MINUTES = 10  # that a control run may take
TRIES = 3  # of a run that leaves no record
WARM_SHARE = 0.99  # of the files that are in the page cache: nothing is read again


def forkable(result: Result) -> bool:
    """Return whether a run may be a fork of the warm server: not with ranks, limits, or its own environment."""
    settings = result.settings
    return (
        not ranks.shared(result)
        and result.cache != "limited"
        and result.emulate is None
        and settings.get("allocator") not in allocator.LIBRARIES
        and not isolated.folder(isolated.env_of(one_run.loader_of(result))).is_dir()
    )


def made(result: Result, out: Path, server: Server | None = None, heap_seed: int = 0) -> tuple[Record | None, Ended]:
    """Return the record of a run that a process of its own has made, None where it left none, and how it ended.

    The process writes beside `out`, which is the caller's to write.
    """
    module = one_run.loader_of(result)
    aside = out.with_name(f".{out.name}.measured")
    out.parent.mkdir(parents=True, exist_ok=True)
    aside.unlink(missing_ok=True)
    watch = sampler.Sampler(gpu=result.settings["device"] != "cpu")
    env, preloaded = isolated.env_of(module), allocator.environment(result.settings["allocator"])
    try:
        with one_run.group_for(result) as groups:
            job = Job(result, aside, threads_of(result.threads), heap_seed, env, preloaded, groups)
            ended = launch.run(job, watch, server)
    except control_groups.NotPermitted as reason:
        return without_speed(one_run.new_record(module, result), "skipped", str(reason)), Ended(0)
    if aside.is_file():
        record = one_run.completed(read_json(aside), watch, ended.crash)
        aside.unlink()
        return record, ended
    if ended.crash is None:
        return None, ended
    limited = " (in its limit: measure more items, or raise measure.limited_share)" * (result.cache == "limited")
    return without_speed(one_run.new_record(module, result), "failed", ended.crash + limited, ended.cause), ended


class Runner:
    """Makes runs, one after the other; a context manager that ends the servers."""

    def __init__(self, sample: Sample, chance: Any) -> None:
        self.sample, self.chance = sample, chance
        self.servers: dict[tuple[int, int], Server] = {}  # by threads, and items of a batch
        self.code = {"commit": commit()}
        self.cooled: set[Path] = set()  # placed formats whose last run was of a cold or a limited cache

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers.values():
            server.close()
        self.servers = {}

    def make(self, result: Result, out: Path) -> Record:
        """Return the record of one run, written to `out`; what leaves none is tried again, TRIES times in all."""
        if reason := self._no_room(result):
            record = without_speed(self._begun(result), "failed", reason, Cause.NO_ROOM)
            write_json(out, record)
            return record
        self._warm_again(result)
        for _ in range(TRIES):
            record = self.made(result, out, forkable(result))
            if record["reason_code"] not in (Cause.LOST, Cause.NO_SERVER):
                break
        return record

    def made(self, result: Result, out: Path, fork: bool) -> Record:
        """Return the record of one try of a run, written to `out`; `fork`: only for what is `forkable`."""
        server = self._server(result) if fork else None
        record, ended = made(result, out, server, heap_seed=self.chance.randrange(1 << 30))
        if record is None:
            reason = f"{NO_RECORD} ({ended.reason or 'it ended well'}). The same command measures it again"
            record = without_speed(self._begun(result), "failed", reason, ended.cause or Cause.LOST)
        record |= self.code
        write_json(out, record)
        return record

    def _begun(self, result: Result) -> Record:
        return one_run.new_record(one_run.loader_of(result), result) | self.code

    def _warm_again(self, result: Result) -> None:
        """Have the files of a warm run in the cache again, where the last run that read them had them out of it."""
        place = location.from_json(result.location).split(SPLIT).held_in
        if place and result.cache in COLD:
            self.cooled.add(place)
        elif place in self.cooled:
            self.cooled.discard(place)
            files = page_cache.files_of(place)
            if page_cache.residency(files).share < WARM_SHARE:
                page_cache.read_through(files)

    def control(self, asked: Bound, out: Path) -> None:
        """Make one control run, the in-memory ceiling by itself, and write its record."""
        bound = replace(asked, path=str(out), repeat=int(out.stem))
        out.parent.mkdir(parents=True, exist_ok=True)
        if reason := self._no_room(bound):
            ended = Ended(None, Cause.NO_ROOM, reason)
        else:
            job = Job(bound, out, threads_of(bound.threads), self.chance.randrange(1 << 30))
            ended = launch.run(job, sampler.Sampler(gpu=False), self._server(bound), CONTROL_MINUTES)
        if not out.is_file():
            reason = f"the control run left no record ({ended.reason}); the session's log says what it said"
            reason = reason if ended.crash is None else ended.crash
            record = without_speed(control_run.new_record(bound), "failed", reason, ended.cause or Cause.LOST)
            write_json(out, record)

    def _batch(self, measured: Measurement) -> int:
        """Return how many items a batch has: no more than the split."""
        return min(measured.settings["batch_size"], Corpus(Path(measured.corpus)).counts[SPLIT])

    def _no_room(self, measured: Measurement) -> str | None:
        """Return why what the in-memory ceiling streams does not fit into memory, or None; a server has it already."""
        items = self._batch(measured)
        size, available = ceiling.pool_bytes(items, self.sample), devices.available_ram()
        if size <= available or (threads_of(measured.threads), items) in self.servers:
            return None
        return (
            f"out of memory: a batch of {items:,} items has {items * self.sample.bytes / 1e9:,.1f} GB, "
            f"and the in-memory ceiling needs {size / 1e9:,.1f} GB; {available / 1e9:,.1f} GB are free. Choose a "
            "smaller batch_size"
        )

    def _server(self, measured: Measurement) -> Server:
        key = (threads_of(measured.threads), self._batch(measured))
        return self.servers.setdefault(key, Server(key[0], (key[1], self.sample)))
