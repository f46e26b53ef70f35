"""Asks the proof server of this call of Snakemake (`proof_server.py`) for a proof, and starts it where none is."""

import hashlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from scripts.machine import at_work
from scripts.measure import child
from scripts.plan.runs import Run

START_SECONDS = 120.0  # that a server may take to import torch


def name_of(call: int, threads: int) -> str:
    """Return the name of the server of a call: of its Snakemake, the folder, the environment, and the threads."""
    began = Path(f"/proc/{call}/stat").read_text().rpartition(")")[2].split()[19]  # another process of that number
    said = json.dumps([call, began, os.getcwd(), sys.executable, threads])
    return f"\0feedrate-proofs-{os.getuid()}-{hashlib.sha256(said.encode()).hexdigest()[:16]}"


def prove(run: Run, out: Path, threads: int) -> tuple[bool, str | None]:
    """Have a fork of the server write the record of a proof to `out`; return (whether it could, why it crashed).

    Exits as `child.run_again` does where the fork failed without crashing.
    """
    call = at_work.snakemake_above(os.getpid())
    if call is None or not _same_files(call):
        return False, None
    child.check_temporary()
    kills = child.out_of_memory_kills()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    number = None
    try:
        with _connected(call, threads) as server:
            asked = {"run": asdict(run), "out": str(out), "environment": _environment(threads)}
            job = json.dumps(asked).encode() + b"\n"
            sent = socket.send_fds(server, [job], [1, 2])
            server.sendall(job[sent:])
            server.settimeout(run.limit_minutes * 60)
            lines = server.makefile()
            if said := lines.readline():
                number = json.loads(said)["pid"]
                said = lines.readline()
    except TimeoutError:
        said = None
    except OSError as error:
        print(f"no proof server: {error}", file=sys.stderr)
        said = ""
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    if said:
        return True, child.crash_or_exit(json.loads(said)["status"], kills)
    if number is not None:
        child.end_session(number)  # what it has started may outlive a server that was killed
    if said is None:
        return True, child.no_end(run.limit_minutes)
    if at_work.snakemake_above(os.getpid()) != call:
        sys.exit("error: Snakemake has ended, and this proof with it")
    print("the proof server has ended: this proof has an interpreter of its own", file=sys.stderr)
    return False, None


def _same_files(call: int) -> bool:
    """Return whether a Snakemake sees the same files: a server must not outlive the container of its first proof."""
    try:
        return os.readlink("/proc/self/ns/mnt") == os.readlink(f"/proc/{call}/ns/mnt")
    except OSError:
        return False


def _connected(call: int, threads: int) -> socket.socket:
    """Return a connection to the server of a call, which is started where there is none. Raises OSError."""
    name, process = name_of(call, threads), None
    deadline = time.monotonic() + START_SECONDS
    while True:
        server = socket.socket(socket.AF_UNIX)
        server.settimeout(START_SECONDS)
        try:
            server.connect(name)
            if user_of(server) != os.getuid():
                raise ConnectionRefusedError("it is another user's")
            return server
        except BlockingIOError:  # many wait for it
            server.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
            continue
        except ConnectionRefusedError:
            server.close()
            status = process.poll() if process else None
            if status or time.monotonic() > deadline:
                raise
        if process is None or status == 0:  # 0: another one was faster, and has ended meanwhile
            process = _started(name, call, threads)
        time.sleep(0.01)


def _started(name: str, call: int, threads: int) -> subprocess.Popen:
    """Start a server; where two proofs do at once, the second one ends (status 0)."""
    program = [sys.executable, "-m", "scripts.measure.proof_server"]
    return subprocess.Popen(
        [*program, "--name", name[1:], "--call", str(call)],
        env=_environment(threads),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


def _environment(threads: int) -> dict[str, str]:
    """Return the environment of a child, that is not said to be one of this process: the server outlives it."""
    environment = child.environment_of(threads)
    del environment[child.CHILD]
    return environment


def user_of(connection: socket.socket) -> int:
    """Return the user of the process at the other end."""
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return user
