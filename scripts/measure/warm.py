"""Asks a warm server (`process.py --serve`) to fork for jobs, and starts it where there is none.

All processes of one call of Snakemake find the server of its proofs by its name, an abstract socket (unix(7)); it ends
with that Snakemake, or when nobody asks. A session has its own, which hold what the in-memory ceiling streams, and end
with it. What cannot be forked has an interpreter of its own (`launch.py`).

It is our own since that of multiprocessing (forkserver) serves the process that started it alone, and waits for a fork
before what that has started could be ended, so that its number may be another's by then.
"""

import contextlib
import hashlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.common.sample import Sample
from scripts.machine import at_work
from scripts.measure import launch
from scripts.measure.launch import Job, ServerGoneError

START_SECONDS = 300.0  # that a server may take to import torch
LET_GO_SECONDS = 60.0  # for which a killed fork may hang in the kernel, on a device, before its server is given up
Batch = tuple[int, Sample]  # how many items of what, in a batch of the in-memory ceiling


class Server:
    """A server of a `call` of Snakemake (its process), or of this process and a `batch`. Closing it ends the latter."""

    def __init__(self, threads: int, batch: Batch | None = None, call: int | None = None) -> None:
        self.threads, self.batch, self.call = threads, batch, call
        self.process: subprocess.Popen | None = None  # where this process has started it

    @property
    def name(self) -> str:
        """The name of its socket: whose it is, the folder, the environment, the threads and the batch."""
        owner = self.call or os.getpid()
        began = Path(f"/proc/{owner}/stat").read_text().rpartition(")")[2].split()[19]  # another of that number
        batch = self.batch and [self.batch[0], self.batch[1].as_json()]
        said = json.dumps([owner, began, os.getcwd(), sys.executable, self.threads, batch])
        return f"\0feedrate-{os.getuid()}-{hashlib.sha256(said.encode()).hexdigest()[:16]}"

    @contextmanager
    def forked(self, job: Job) -> Iterator["Fork"]:
        """Have it fork for a job; the fork ends with the block. Raises ServerGoneError, also within the block."""
        try:
            connection = self._connected()
        except OSError as error:
            raise ServerGoneError(f"no warm server: {error}{self._status()}") from error
        fork = Fork(connection)
        try:
            fork.begin(job)
            yield fork
        except (EOFError, ConnectionError) as error:
            raise ServerGoneError(f"the warm server ended{self._status()}") from error
        finally:
            self._end(fork)
            connection.close()

    def _end(self, fork: "Fork") -> None:
        """End a fork that is at work, and what it has started: it may outlive a server that was killed."""
        if fork.pid is None or fork.ended:
            return
        launch.end(fork.pid)
        with contextlib.suppress(EOFError, ConnectionError):
            if fork.wait(LET_GO_SECONDS) is None:  # the next job gets another server
                self.close()

    def _status(self) -> str:
        """Return with what status a server ended that is this process's own, as the end of a sentence."""
        if self.process is None or self.call:
            return ""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return f" with status {self.process.wait(launch.LONGEST_DEATH)}; the session's log says why"
        return ""

    def _connected(self) -> socket.socket:
        """Return a connection to the server, which is started where there is none. Raises OSError."""
        deadline, begun = time.monotonic() + START_SECONDS, False
        while True:
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(START_SECONDS)
            try:
                connection.connect(self.name)
                if user_of(connection) != os.getuid():
                    raise ConnectionRefusedError("it is another user's")
                return connection
            except BlockingIOError:  # many wait for it
                connection.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
                continue
            except ConnectionRefusedError:
                connection.close()
                status = self.process.poll() if begun else None
                if status or time.monotonic() > deadline:
                    raise
            if not begun or status == 0:  # 0: another one was faster, and has ended meanwhile
                self._start()
                begun = True
            time.sleep(0.01)

    def _start(self) -> None:
        """Start it; where two processes of a call do at once, the second server ends (status 0)."""
        self.close()
        owner = ["--call", str(self.call)]
        if self.batch:
            owner = ["--items", str(self.batch[0]), "--sample", json.dumps(self.batch[1].as_json())]
        self.process = subprocess.Popen(
            [*launch.PROCESS, "--serve", self.name[1:], *owner],
            env=launch.environment_of(self.threads),
            stdin=subprocess.DEVNULL if self.call else subprocess.PIPE,
            start_new_session=True,
        )

    def close(self) -> None:
        """End the server of this process, and its forks."""
        if self.process is None or self.call:
            return
        self.process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = None


class Fork:
    """A fork of a server, as whoever asked for it sees it."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.heard = b""  # and not yet taken: the server may say two lines at once
        self.pid: int | None = None
        self.ended = False

    def begin(self, job: Job) -> None:
        """Have it begin a job, and print where this process does. Raises EOFError or ConnectionError."""
        said = job.as_json().encode() + b"\n"
        sent = socket.send_fds(self.connection, [said], [1, 2])
        self.connection.sendall(said[sent:])
        if (found := self._line(START_SECONDS)) is None:
            raise ConnectionError("it does not begin")
        self.pid = found["pid"]

    def wait(self, seconds: float) -> int | None:
        """Return its status if it ends within so many seconds, else None. Raises EOFError where its server ended."""
        if (found := self._line(seconds)) is None:
            return None
        self.ended = True
        return found["status"]

    def _line(self, seconds: float) -> dict[str, int] | None:
        """Return the next line of the server, None where none comes within so many seconds."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self.heard:
            if not launch.readable(self.connection.fileno(), max(0.0, deadline - time.monotonic())):
                return None
            if not (more := self.connection.recv(1 << 16)):
                raise EOFError
            self.heard += more
        line, _, self.heard = self.heard.partition(b"\n")
        return json.loads(line)


def of_call(threads: int) -> Server | None:
    """Return the server of the Snakemake that runs this process; None where there is none, or it sees other files.

    A server must not outlive the container of its first proof.
    """
    call = at_work.snakemake_above(os.getpid())
    try:
        same = call is not None and os.readlink("/proc/self/ns/mnt") == os.readlink(f"/proc/{call}/ns/mnt")
    except OSError:
        same = False
    return Server(threads, call=call) if same else None


def user_of(connection: socket.socket) -> int:
    """Return the user of the process at the other end."""
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return user
