"""The nodes that a run of ranks is spread over: this machine alone, or those of `feedrate run --nodes`."""

import ipaddress
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from scripts.common.errors import UserError
from scripts.plan.results import Result

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Nodes:
    """How many nodes there are, where they meet, and the folder that all of them see."""

    count: int = 1
    rendezvous: str = f"{LOOPBACK}:0"  # HOST:PORT, of the node that writes the record
    together: str | None = None  # None: of one node, which needs none

    @property
    def address(self) -> str:
        """Return this node's own address on the way to the rendezvous."""
        host, _, port = self.rendezvous.rpartition(":")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
            link.connect((host, int(port) or 1))  # sends nothing: the kernel looks up the route
            return link.getsockname()[0]

    @property
    def hosts(self) -> bool:
        """Whether the others meet at this node; it writes the record."""
        return socket.gethostbyname(self.rendezvous.rpartition(":")[0]) in _addresses().values()

    @property
    def interface(self) -> str:
        """Return the name of the interface with that address, for gloo and nccl."""
        own = self.address
        return next(name for name, address in _addresses().items() if address == own)

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Yield the folder in which ranks leave what they found: an empty one. Raises UserError where it is not."""
        if self.together is None:
            with tempfile.TemporaryDirectory(prefix="feedrate-") as name:
                yield Path(name)
            return
        folder = Path(self.together)
        folder.mkdir(parents=True, exist_ok=True)
        if found := sorted(path.name for path in folder.glob("*.json")):
            raise UserError(
                f"--together: found {found[0]!r} of an earlier run in {folder}; allowed is a new folder for each run, "
                "on a file system that all nodes share. Name another one, the same on each node."
            )
        yield folder


def check_name(host: str) -> None:
    """Raise UserError where a node's name leads nowhere, or to this machine by an address that is no other's way."""
    do = "Write its address, as `ip -brief address` there shows it."
    try:
        address = socket.gethostbyname(host)
    except OSError:
        raise UserError(f"--rendezvous: found {host!r}, which this machine cannot resolve. {do}") from None
    if ipaddress.ip_address(address).is_loopback and host not in (address, "localhost"):
        raise UserError(
            f"--rendezvous: found {host!r}, which is {address} on this machine (/etc/hosts): the other nodes cannot "
            f"reach it. {do}"
        )


def nodes_of(result: Result) -> Nodes:
    """Return the nodes of a run; this machine alone where it names none."""
    return Nodes(**(result.nodes or {}))


def _addresses() -> dict[str, Any]:
    """Return the first IPv4 address of each interface that is up."""
    up = {name for name, state in psutil.net_if_stats().items() if state.isup}
    found = {}
    for name, addresses in psutil.net_if_addrs().items():
        own = [one.address for one in addresses if one.family == socket.AF_INET]
        if name in up and own:
            found[name] = own[0]
    return found
