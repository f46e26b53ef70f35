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
from functools import partial
from pathlib import Path

from scripts.common.sample import Sample
from scripts.machine import at_work
from scripts.measure import launch
from scripts.measure.launch import Job, Process, ServerGoneError

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
    def forked(self, job: Job, answer: int) -> Iterator[Process]:
        """Have it fork for a job; the fork ends with the round. Raises ServerGoneError, also within the round.

        The fork writes its record to the descriptor `answer`.
        """
        try:
            connection, pid = self._begun(job, answer)
        except (OSError, EOFError) as error:
            raise ServerGoneError(f"the warm server did not start: {error or 'it ended'}{self._status()}") from error
        with connection:
            try:
                yield Process(pid, connection.fileno(), partial(_said, connection))
            except (EOFError, ConnectionError) as error:
                launch.end(pid)  # what it has started may outlive the server
                raise ServerGoneError(f"the warm server ended{self._status()}") from error
            except BaseException:
                launch.end(pid)
                if not launch.readable(connection.fileno(), LET_GO_SECONDS):  # the next job gets another server
                    self.close()
                raise

    def _begun(self, job: Job, answer: int) -> tuple[socket.socket, int]:
        """Return a connection to a fork that has begun, and prints where this process does; and its number."""
        connection = self._connected()
        try:
            socket.send_fds(connection, [job.as_json()], [1, 2, answer])
            return connection, _said(connection)
        except BaseException:
            connection.close()
            raise

    def _status(self) -> str:
        """Return with what status a server ended that is this process's own, as the end of a sentence."""
        if self.process is None or self.call:
            return ""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return f" with status {self.process.wait(launch.LONGEST_DEATH)}; the session's log says why"
        return ""

    def _connected(self) -> socket.socket:
        """Return a connection to the server, which is started where there is none. Raises OSError."""
        deadline, started = time.monotonic() + START_SECONDS, False
        while True:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            connection.settimeout(START_SECONDS)
            try:
                connection.connect(self.name)
                if user_of(connection) != os.getuid():
                    raise PermissionError("it is another user's")
                return connection
            except (BlockingIOError, ConnectionRefusedError) as error:  # many wait for it; it is not there
                connection.close()
                refused = isinstance(error, ConnectionRefusedError)
                status = self.process.poll() if refused and started else None
                if status or time.monotonic() > deadline:
                    raise
                if refused and (not started or status == 0):  # 0: another one was faster, and has ended meanwhile
                    self._start()
                    started = True
            time.sleep(0.01)

    def _start(self) -> None:
        """Start it; where two processes of a call do at once, the second server ends (status 0)."""
        self.close()
        batch = {"items": self.batch[0], "sample": self.batch[1].as_json()} if self.batch else None
        self.process = subprocess.Popen(
            [*launch.PROCESS, "--serve", json.dumps({"name": self.name[1:], "call": self.call, "batch": batch})],
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


def _said(connection: socket.socket) -> int:
    """Return the next number of a server: of a fork's process, then how that ended. Raises EOFError where it ended."""
    if not (said := connection.recv(64)):
        raise EOFError
    return int(said)


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
