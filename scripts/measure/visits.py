"""How a visit is made: a process for each, forked from a warm server where that may be, else a new interpreter."""

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from scripts.common import isolated, location
from scripts.common.errors import UserError
from scripts.common.files import read_json, write_json
from scripts.common.sample import Sample
from scripts.common.versions import commit
from scripts.common.vocabulary import COLD, SPLIT
from scripts.machine import allocator, page_cache
from scripts.measure import child, control_run, one_run, ranks, sampler
from scripts.measure.record import threads_of, without_speed
from scripts.plan.runs import Bound, Measurement, Run

NO_RECORD = (
    "the visit left no record: its process ended by itself, or was killed from outside, for lack of memory, say, each "
    "time that it was tried; its log says what it said"
)
CONTROL_MINUTES = 10  # that a control run may take
TRIES = 3  # of a visit that leaves no record
WARM_SHARE = 0.99  # of the files that are in the page cache: nothing is read again


def forkable(run: Run) -> bool:
    """Return whether a visit may be a fork of the warm server: not with ranks, limits, or its own environment."""
    settings = run.settings
    return (
        not ranks.shared(run)
        and run.cache != "limited"
        and run.emulate is None
        and settings.get("allocator") not in allocator.LIBRARIES
        and not isolated.folder(isolated.env_of(one_run.loader_of(run))).is_dir()
    )


def _no_record(status: str = "") -> str:
    return f"{NO_RECORD}{status}. The same command measures it again"


def _ended_with(parent: int) -> Callable[[], None]:
    """Return what a new process does first, so that it is told to end (SIGTERM) when its parent is killed."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def begin() -> None:
        prctl(child.PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it ended before the call above
            os._exit(1)

    return begin


class Server:
    """A warm process that forks for each visit (`fork_server.py`); closing it ends what it has started."""

    def __init__(self, threads: int, clips: int, sample: Sample) -> None:
        program = [sys.executable, "-m", "scripts.measure.fork_server"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        self.process = subprocess.Popen(
            program, env=child.environment_of(threads), start_new_session=True, cwd=Path.cwd(), **pipes
        )
        self.heard = b""  # and not yet taken: the server may say two lines at once
        self._say({"clips": clips, "sample": sample.as_json()})
        self._hear(time.monotonic() + 300)

    def make(self, job: Mapping[str, Any], seconds: float, watch: sampler.Sampler) -> str | None:
        """Have one child do the job; return why it crashed, or None. Raises TimeoutError after `seconds`."""
        kills = child.out_of_memory_kills()
        self._say({**job, "server": self.process.pid})
        deadline = time.monotonic() + seconds
        number = self._hear(deadline)["pid"]
        try:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                watch.start(number)
            status = self._hear(deadline, watch)["status"]
        except (TimeoutError, KeyboardInterrupt):
            child.end_session(number)
            try:
                self._hear(time.monotonic() + 60)
            except TimeoutError:  # it hangs in the kernel, on a device: the next visit gets another server
                self.close()
            raise
        except UserError:  # the server is gone, its child ends by itself, and what that has started with it here
            child.end_session(number)
            raise
        finally:
            watch.stop()
        return child.crash_of(status, kills) if status else None

    def _say(self, message: Mapping[str, Any]) -> None:
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def _hear(self, deadline: float, watch: sampler.Sampler | None = None) -> dict[str, Any]:
        """Return the server's next line, while `watch` looks at its child."""
        poll = select.poll()
        poll.register(self.process.stdout, select.POLLIN)
        while b"\n" not in self.heard:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            pause = watch.take() if watch and watch.tree else 1.0
            if poll.poll(1000 * max(0.001, min(pause, left))):
                heard = os.read(self.process.stdout.fileno(), 1 << 16)
                if not heard:
                    raise UserError(
                        f"the fork server ended with status {self.process.wait()}; its log says why. Type the same "
                        "command again"
                    )
                self.heard += heard
        line, _, self.heard = self.heard.partition(b"\n")
        return json.loads(line)

    def close(self) -> None:
        """End the server and its child."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


class Visitor:
    """Makes visits, one after the other; a context manager that ends the servers."""

    def __init__(self, sample: Sample, chance: Any) -> None:
        self.sample, self.chance = sample, chance
        self.servers: dict[tuple[int, int], Server] = {}
        self.code = {"commit": commit()}
        self.cooled: set[Path] = set()  # placed formats whose last visit was of a cold or a limited cache

    def __enter__(self) -> "Visitor":
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers.values():
            server.close()
        self.servers = {}

    def make(self, run: Run, out: Path) -> dict[str, Any]:
        """Return the record of one visit, written to `out`; what leaves none is tried again, TRIES times in all."""
        self._warm_again(run)
        for _ in range(TRIES):
            record = self.forked(run, out) if forkable(run) else self.interpreted(run, out)
            if not (record["reason"] or "").startswith(NO_RECORD):
                break
        return record

    def _warm_again(self, run: Run) -> None:
        """Have the files of a warm visit in the cache again, where the last visit that read them had them out of it."""
        place = location.from_json(run.location).split(SPLIT).held_in
        if place and run.cache in COLD:
            self.cooled.add(place)
        elif place in self.cooled:
            self.cooled.discard(place)
            files = page_cache.files_of(place)
            if page_cache.residency(files).share < WARM_SHARE:
                page_cache.read_through(files)

    def forked(self, run: Run, out: Path) -> dict[str, Any]:
        """Return the record of a visit by a fork of the warm server, written to `out`; only for what is `forkable`."""
        out.parent.mkdir(parents=True, exist_ok=True)
        module = one_run.loader_of(run)
        watch = sampler.Sampler(gpu=run.settings["device"] != "cpu")
        aside = out.with_name(f".{out.name}.measured")
        aside.unlink(missing_ok=True)
        job = {"run": asdict(run), "out": str(aside), "heap_seed": self.chance.randrange(1 << 30)}
        server = self._server(run)
        try:
            crash = server.make(job, run.limit_minutes * 60, watch)
        except TimeoutError:
            crash = child.no_end(run.limit_minutes)
        if aside.is_file():
            record = {**one_run.completed(read_json(aside), watch, crash), **self.code}
            aside.unlink()
        else:
            begun = one_run.new_record(module, run)
            record = {**without_speed(begun, "failed", crash or _no_record()), **self.code}
        write_json(out, record)
        return record

    def interpreted(self, run: Run, out: Path) -> dict[str, Any]:
        """Return the record of a visit by a new interpreter, written to `out`."""
        out.parent.mkdir(parents=True, exist_ok=True)
        program = [sys.executable, "-m", "scripts.measure.run_loader"]
        command = [*program, "--run", json.dumps(asdict(run)), "--out", str(out)]
        out.unlink(missing_ok=True)
        process = subprocess.Popen(command, start_new_session=True, preexec_fn=_ended_with(os.getpid()))
        try:
            status = process.wait()
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise
        if out.is_file():
            return read_json(out)
        begun = one_run.new_record(one_run.loader_of(run), run)
        record = without_speed(begun, "failed", _no_record(f" (status {status})"))
        write_json(out, record)
        return record

    def control(self, asked: Bound, out: Path) -> None:
        """Make one control run, the in-memory ceiling by itself, and write its record."""
        bound = replace(asked, path=str(out), repeat=int(out.stem))
        out.parent.mkdir(parents=True, exist_ok=True)
        job = {"bound": asdict(bound), "out": str(out), "heap_seed": self.chance.randrange(1 << 30)}
        try:
            crash = self._server(bound).make(job, 60 * CONTROL_MINUTES, sampler.Sampler(gpu=False))
        except TimeoutError:
            crash = f"no end after {CONTROL_MINUTES} minutes"
        if not out.is_file():
            reason = crash or "the control run left no record; the session's log says what it said"
            write_json(out, without_speed(control_run.new_record(bound), "failed", reason))

    def _server(self, run: Measurement) -> Server:
        key = (threads_of(run.threads), run.settings["batch_size"])
        if key not in self.servers or self.servers[key].process.poll() is not None:
            self.servers[key] = Server(*key, self.sample)
        return self.servers[key]
