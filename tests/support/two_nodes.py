"""Two nodes for tests: network namespaces of this machine with addresses of their own, joined by a cable."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pytest

from tests.support.programs import PROJECT

ADDRESSES = ("10.213.77.1", "10.213.77.2")


@contextmanager
def two_nodes() -> Iterator[tuple[str, str]]:
    """Yield the names of the namespaces; a test is skipped where they cannot be made."""
    names = [f"feedrate-{os.getpid()}-{number}" for number in (0, 1)]
    with ExitStack() as undone:
        try:
            for name in names:
                _ip("netns", "add", name)
                undone.callback(_ip, "netns", "del", name)
            ends = [f"fr{os.getpid() % 100_000}{side}" for side in "ab"]
            _ip("link", "add", ends[0], "netns", names[0], "type", "veth", "peer", "name", ends[1], "netns", names[1])
            for name, end, address in zip(names, ends, ADDRESSES, strict=True):
                _ip("-n", name, "addr", "add", f"{address}/24", "dev", end)
                _ip("-n", name, "link", "set", end, "up")
                _ip("-n", name, "link", "set", "lo", "up")
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", "") or error
            pytest.skip(f"two network namespaces cannot be made: {' '.join(str(said).split())}")
        yield names[0], names[1]


def started_on(name: str, arguments: Sequence[str]) -> subprocess.Popen:
    """Start a program of the project on a node."""
    command = ["ip", "netns", "exec", name, sys.executable, "-m", *arguments]
    return subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
