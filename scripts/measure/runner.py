"""How runs are made: a process for each, forked from a warm server where that may be, else a new interpreter."""

import sys
from pathlib import Path
from typing import Any

import psutil

from scripts.common import isolated, location
from scripts.common.corpus import Corpus
from scripts.common.sample import Sample
from scripts.common.serving import serving
from scripts.common.versions import commit
from scripts.common.vocabulary import COLD, NOT_TRIED, NOT_WARM, SPLIT
from scripts.machine import allocator, control_groups, devices, page_cache
from scripts.measure import ceiling, control_run, launch, one_run, own_fault, ranks, sampler, warm
from scripts.measure.launch import Cause, Ended, Job
from scripts.measure.record import Record, threads_of, without_speed
from scripts.measure.warm import Server
from scripts.plan.results import Bound, Measurement, Result

NO_RECORD = (
    "the run left no record, however often it was tried: its process ended, or something killed it, perhaps for lack "
    "of memory; see its log"
)
CONTROL_MINUTES = 10  # that a control run may take
TRIES = 3  # of a run that leaves no record
CACHED_SHARE = 0.8  # of the memory that can be had: so much of it may hold files that runs read from the page cache


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


def made(result: Result, server: Server | None = None, heap_seed: int = 0) -> tuple[Record | None, Ended]:
    """Return the record of a run that a process of its own has made, None where it left none, and how it ended."""
    module = one_run.loader_of(result)
    watch = sampler.Sampler(gpu=result.settings["device"] != "cpu")
    env, preloaded = isolated.env_of(module), allocator.environment(result.settings["allocator"])
    try:
        with one_run.group_for(result) as groups:
            job = Job(result, threads_of(result.threads), heap_seed, env, preloaded, groups)
            ended = launch.run(job, watch, server)
    except control_groups.NotPermitted as reason:
        return without_speed(one_run.new_record(module, result), "skipped", str(reason)), Ended(0)
    if ended.record:
        return one_run.completed(ended.record, watch, ended.crash), ended
    if ended.crash is None:
        return None, ended
    limited = " (in its limit: measure more items, or raise measure.limited_share)" * (result.cache == "limited")
    return without_speed(one_run.new_record(module, result), "failed", ended.crash + limited, ended.cause), ended


def by_itself(result: Result) -> Record | None:
    """Return the record of a run that is no session's; None of one that another node records.

    A file of the user's own that is known to be broken is not tried. Exits where the process left no record.
    """
    module = one_run.loader_of(result)
    result = one_run.completed_result(module, result)
    note = Path(result.broken) if result.broken else None
    if fault := own_fault.known(note, module):
        record = without_speed(one_run.new_record(module, result), "skipped", fault, NOT_TRIED)
    else:
        with launch.told_to_end(), serving([location.from_json(result.location)]):
            record = _made_by_itself(result)
    return record and {**own_fault.noted(note, module, record), "commit": commit()}


def _made_by_itself(result: Result) -> Record | None:
    """Return the record of a run: a proof is a fork of the server of this call of Snakemake, where that may be."""
    warm_may = result.mode == "proof" and forkable(result)
    server = warm.of_call(threads_of(result.threads)) if warm_may else None
    record, ended = made(result, server)
    if ended.cause == Cause.NO_SERVER:
        if warm.of_call(server.threads) is None:
            sys.exit("error: Snakemake has ended, and this proof with it")
        print(f"{ended.reason}: this proof has an interpreter of its own", file=sys.stderr)
        record, ended = made(result)
    launch.exit_if_lost(ended)
    return record


class Runner:
    """Makes runs, one after the other; a context manager that ends the servers."""

    def __init__(self, sample: Sample, chance: Any) -> None:
        self.sample, self.chance = sample, chance
        self.servers: dict[tuple[int, int], Server] = {}  # by threads, and items of a batch
        self.code = {"commit": commit()}
        self.warm: dict[Path, int] = {}  # placed formats in the page cache, with their bytes, the last one read last

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers.values():
            server.close()
        self.servers = {}

    def make(self, result: Result) -> Record:
        """Return the record of one run; TRIES times in all it is tried again where it leaves none, and where others had
        put its files out of the page cache, which reads them into it first.
        """
        if reason := self._no_room(result):
            return without_speed(self._begun(result), "failed", reason, Cause.NO_ROOM)
        for _ in range(TRIES):
            self._warm_again(result)
            record = self.made(result, forkable(result))
            again = record["reason_code"] in (Cause.LOST, Cause.NO_SERVER)
            if record["reason_code"] == NOT_WARM and (files := _files(result)):
                in_ram = psutil.virtual_memory().shared
                why, again = page_cache.why_not_warm(files, devices.available_ram(), in_ram)
                record["reason"] += f"; {why}"
                self.warm.pop(_place(result), None)
            if not again:
                break
        return record

    def made(self, result: Result, fork: bool) -> Record:
        """Return the record of one try of a run; `fork`: only for what is `forkable`."""
        server = self._server(result) if fork else None
        record, ended = made(result, server, heap_seed=self.chance.randrange(1 << 30))
        if record is None:
            reason = f"{NO_RECORD} ({ended.reason or 'it ended well'}). The same command measures it again"
            record = without_speed(self._begun(result), "failed", reason, ended.cause or Cause.LOST)
        return record | self.code

    def _begun(self, result: Result) -> Record:
        return one_run.new_record(one_run.loader_of(result), result) | self.code

    def _warm_again(self, result: Result) -> None:
        """Have the files of a warm run in the page cache, if they are not the last ones that were.

        Where it has no room for them beside those of earlier runs, these leave it first, the oldest ones before others:
        else the kernel may drop what was read a moment ago.
        """
        place = _place(result)
        if place and result.cache in COLD:
            self.warm.pop(place, None)
        elif place and place != next(reversed(self.warm), None) and (files := _files(result)):
            found = page_cache.residency(files)
            self.warm.pop(place, None)
            if found.share < page_cache.WARM_SHARE:
                room = CACHED_SHARE * devices.available_ram() - found.total_bytes
                while self.warm and sum(self.warm.values()) > room:
                    oldest = next(iter(self.warm))
                    page_cache.evict(page_cache.files_of(oldest))
                    del self.warm[oldest]
                page_cache.read_through(files)
            self.warm[place] = found.total_bytes

    def control(self, bound: Bound) -> Record:
        """Return the record of one control run, the in-memory ceiling by itself."""
        if reason := self._no_room(bound):
            ended = Ended(None, Cause.NO_ROOM, reason)
        else:
            job = Job(bound, threads_of(bound.threads), self.chance.randrange(1 << 30))
            ended = launch.run(job, sampler.Sampler(gpu=False), self._server(bound), CONTROL_MINUTES)
        lost = f"the control run left no record ({ended.reason}); the session's log says what it said"
        return ended.record or without_speed(
            control_run.new_record(bound), "failed", ended.crash or lost, ended.cause or Cause.LOST
        )

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


def _place(result: Result) -> Path | None:
    """Return the local folder or file that holds what a run reads."""
    return location.from_json(result.location).split(SPLIT).held_in


def _files(result: Result) -> list[Path]:
    place = _place(result)
    return page_cache.files_of(place) if place else []
