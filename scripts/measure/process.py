"""The process that measures (`launch.py`): a new interpreter for the job on its stdin, or a warm server that forks.

A server (`--serve`, `warm.py`) has imported torch once. It has one thread, nothing of CUDA (`unforkable` would say so)
and no file of a loader open, so that a fork of it is a process as a new interpreter would be after its imports, in
0.2 s. It takes a job on each connection, JSON with two descriptors to print to and one for the record, and answers with
the fork's number, and then with its status. Proofs are several at a time; a session asks for one run after the other.

All runs would inherit one heap, and with it one of the modes that glibc's allocator falls into (docs/measuring.md):
each begins with random allocations. Its memory would still be the server's, a page at a time its own where it is
written to, which a new interpreter has behind it: each begins with pages of its own.
"""

import argparse
import atexit
import contextlib
import ctypes
import errno
import json
import mmap
import os
import random
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from scripts.common import sample
from scripts.common.errors import run_main
from scripts.common.serving import served
from scripts.machine import control_groups
from scripts.machine.server_process import end_with, keep_orphans
from scripts.measure import control_run, launch, one_run, ranks, warm
from scripts.measure.tensors import taking
from scripts.plan.results import Bound, Result, Tensors

IDLE_SECONDS = 2.0  # of a server of proofs: shorter than a session takes to its first run
LONGEST_JOB = 1 << 20  # bytes
WAITING = 4096  # jobs that may wait for it, which the kernel may have be fewer
SHAKEN = 200  # allocations at most, of up to SHAKEN_BYTES each, half of which are freed again
SHAKEN_BYTES = 1 << 18
POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, madvise(2), since Linux 5.14
OF_A_FILE, IN_MEMORY = 1 << 61, 1 << 63  # bits of a page in /proc/PID/pagemap, proc_pid_pagemap(5)
PAGES_AT_ONCE = 1 << 12  # looked at: what is freed after a large read would leave its mark on the allocator
Place = tuple[int, int]  # (address, bytes) of memory
KINDS = {kind.__name__: kind for kind in (Result, Bound, Tensors)}


def main() -> None:
    """Do one job, or serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", type=json.loads, help="a server (measure/warm.py); without it: do the job on stdin")
    parser.add_argument("--answer", type=int, help="descriptor of the file that the job's record is written to")
    arguments = parser.parse_args()
    if arguments.serve:
        serve(**arguments.serve)
        return
    job = json.load(sys.stdin)
    end_with(job["parent"])
    control_groups.join(job["groups"])  # before anything heavy is imported: memory stays with the group
    do(job, None, "interpreter", arguments.answer)


def do(job: Mapping[str, Any], pool: Any, started_by: str, answer: int) -> None:
    """Measure, and write the record to the descriptor `answer`; of a run on another node there is none.

    `pool`: the batches that the in-memory ceiling streams, where they are there.
    """
    keep_orphans()
    served.update(job["served"])
    asked = KINDS[job["kind"]](**job["measured"])
    if isinstance(asked, Tensors):
        record = taking.measure(asked)
    elif isinstance(asked, Bound):
        record = control_run.measure(asked, pool)
    else:
        module = one_run.loader_of(asked)
        found = ranks.measure(module, asked) if ranks.shared(asked) else one_run.measure(module, asked, pool)
        record = found and {**found, "started_by": started_by}
    with open(answer, "w", encoding="utf-8") as file:
        if record:
            json.dump(record, file, allow_nan=False)


# A server


def serve(name: str, call: int | None, batch: Mapping[str, Any] | None) -> None:
    """Fork for jobs until the `call` of Snakemake has ended and nobody asks, or, of a session, stdin ends."""
    keep_orphans()
    owner = os.pidfd_open(call) if call else sys.stdin.fileno()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.bind(f"\0{name}")
    except OSError:  # another one was faster
        return
    listener.listen(WAITING)
    pool = preloaded(batch)
    if wrong := unforkable():
        sys.exit(f"error: {wrong}")
    Server(listener, owner, pool).serve()
    os._exit(0)


def preloaded(batch: Mapping[str, Any] | None) -> Any:
    """Import what every job needs; return the batches that the in-memory ceiling streams, None without a `batch`."""
    import torch

    from scripts.measure import ceiling, run  # noqa: F401

    torch.set_num_threads(1)
    one_run.preload()
    return ceiling.pool_of(batch["items"], sample.from_json(batch["sample"])) if batch else None


def unforkable() -> str | None:
    """Return why a fork of this process could not use a GPU, which is a mistake of the project's own; else None.

    To ask for the driver's devices is enough (cuInit), which torch does not call initialized: it holds them open.
    """
    opened = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    if any(path.startswith("/dev/nvidia") for path in opened):
        return "the warm server has begun to use CUDA, and what is forked after that cannot: see its imports"
    return None


class Server:
    """Forks for each job, and ends what a fork has started when that has ended, or whoever asked for it is gone."""

    def __init__(self, listener: socket.socket, owner: int, pool: Any) -> None:
        self.listener, self.owner, self.pool = listener, owner, pool
        self.written = [] if pool is None else list(private_pages(pool))
        self.idle = IDLE_SECONDS if pool is None else None
        self.events = selectors.DefaultSelector()
        self.jobs: dict[int, socket.socket] = {}  # by their process: who asked

    def serve(self) -> None:
        """Serve; whatever ends it, no job is left at work."""
        self.ended, told = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        for one in (self.listener, self.owner, self.ended):
            self.events.register(one, selectors.EVENT_READ)
        try:
            while ready := self.events.select(None if self.jobs else self.idle):
                if any(key.fd == self.owner for key, _ in ready):
                    return
                for key, _ in ready:
                    self._answer(key)
        finally:
            for number in self.jobs:
                launch.end(number)

    def _answer(self, key: selectors.SelectorKey) -> None:
        """Do what an event asks for; that of a job that has just been finished asks for nothing."""
        if key.fileobj is self.listener:
            try:
                self._begin()
            except (OSError, ValueError) as error:
                print(f"warm server: {error}", file=sys.stderr)
        elif key.fd == self.ended:
            os.read(self.ended, 1 << 16)
            for number in list(self.jobs):
                if os.waitid(os.P_PID, number, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    self._finish(number)
        elif self.jobs.get(key.data) is key.fileobj:  # who asked is gone
            self.events.unregister(key.fileobj)
            with contextlib.suppress(ProcessLookupError):
                os.kill(key.data, signal.SIGKILL)  # also one that leads no session yet
            launch.end(key.data)

    def _begin(self) -> None:
        """Take a job, and fork for it. Raises OSError or ValueError where it cannot."""
        client, _ = self.listener.accept()
        descriptors: list[int] = []
        try:
            if warm.user_of(client) != os.getuid():
                raise PermissionError("another user asks")
            client.settimeout(10)
            heard, descriptors, _, _ = socket.recv_fds(client, LONGEST_JOB, 3)
            self._fork(json.loads(heard), client, descriptors)
        except BaseException:
            client.close()
            raise
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _fork(self, job: Mapping[str, Any], client: socket.socket, descriptors: Sequence[int]) -> None:
        """Fork for a job, and tell who asked which process it is."""
        server = os.getpid()
        number = os.fork()
        if number == 0:
            as_fork(server, lambda: self._do(job, client, descriptors))
        self.jobs[number] = client
        self.events.register(client, selectors.EVENT_READ, number)
        _say(client, number)

    def _do(self, job: Mapping[str, Any], client: socket.socket, descriptors: Sequence[int]) -> None:
        """Be a fork: leave what is the server's, which would not be seen to end, and do the job."""
        self.events.close()
        for one in (self.listener, client, *self.jobs.values()):
            one.close()
        *printed, answer = descriptors
        for descriptor, place in zip((os.open(os.devnull, os.O_RDONLY), *printed), (0, 1, 2), strict=True):
            os.dup2(descriptor, place)
            os.close(descriptor)
        _have_environment(job["environment"])
        own(self.written)
        kept = [] if self.pool is None else shaken(random.Random(job["heap_seed"]))
        do(job, self.pool, "fork", answer)
        del kept

    def _finish(self, number: int) -> None:
        """Say how a job ended, after all that it had started."""
        launch.end(number)  # until it is waited for, its number is nobody else's
        _, status = os.waitpid(number, 0)
        launch.end_children({*self.jobs} - {number})  # what has left its tree, whose parents have ended
        client = self.jobs.pop(number)
        with contextlib.suppress(KeyError):  # who asked is gone
            self.events.unregister(client)
        _say(client, os.waitstatus_to_exitcode(status))
        client.close()


def _say(client: socket.socket, number: int) -> None:
    """Send a number to who asked, unless that is gone."""
    with contextlib.suppress(OSError):
        client.send(str(number).encode())


# A fork


def as_fork(server: int, work: Callable[[], None]) -> NoReturn:
    """Be what a server has forked: the leader of a session, that ends with the server, or when its work is done."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        end_with(server)
        run_main(work)
        code = 0
        atexit._run_exitfuncs()  # of libraries: multiprocessing removes its folders, torchdata waits for its threads
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _have_environment(wanted: Mapping[str, str]) -> None:
    """Have the environment of whoever asked; where it is the server's, as in a session, nothing is touched."""
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    os.environ.update({name: value for name, value in wanted.items() if os.environ.get(name) != value})


def private_pages(pool: Any) -> Iterator[Place]:
    """Yield where this process has memory that is its own, but for the batches of the pool, which are only read."""
    import numpy as np

    page, first = mmap.PAGESIZE, pool.ctypes.data
    with open("/proc/self/maps", encoding="utf-8") as maps, open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
        for line in maps.readlines():
            addresses, permissions, *_ = line.split()
            if permissions != "rw-p":
                continue
            low, high = (int(address, 16) for address in addresses.split("-"))
            for start in range(low, high, page * PAGES_AT_ONCE):
                count = min(PAGES_AT_ONCE, (high - start) // page)
                pages = np.frombuffer(os.pread(pagemap.fileno(), 8 * count, 8 * (start // page)), np.uint64)
                private = (pages & np.uint64(IN_MEMORY) != 0) & (pages & np.uint64(OF_A_FILE) == 0)
                at = start + page * np.arange(count)
                private &= (at + page <= first) | (at >= first + pool.nbytes)
                edges = np.flatnonzero(np.diff(private, prepend=False, append=False)).reshape(-1, 2)
                yield from ((start + page * begin, page * (stop - begin)) for begin, stop in edges.tolist())


def own(written: list[Place]) -> None:
    """Have pages of this process's own where it has those of its parent: one that is written to later costs a copy.

    A kernel before Linux 5.14 cannot: runs of loaders with worker processes are some 3 % slower there.
    """
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    for address, size in written:
        if madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), POPULATE_WRITE):
            reason = ctypes.get_errno()
            if reason == errno.ENOMEM:  # the server has given a part of it back since
                continue
            print(f"pages stay the server's until they are written to: madvise: {os.strerror(reason)}", file=sys.stderr)
            return


def shaken(chance: random.Random) -> list[bytearray]:
    """Return allocations of random sizes between which others were freed: a heap that is another one each time."""
    made = [bytearray(chance.randrange(1, SHAKEN_BYTES)) for _ in range(chance.randrange(SHAKEN))]
    return made[::2]


if __name__ == "__main__":
    run_main(main)
