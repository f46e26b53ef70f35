"""What serves a tier while a program needs it: started by that program, known to every process below it.

A tier kind whose bytes come from a server has `serving(options, folder)` (docs/architecture.md). The program that needs
the tier (a session, a run by hand) opens it for its own life; jobs that it starts are told what is open, and start
nothing.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from scripts.common import plugins
from scripts.common.errors import UserError
from scripts.common.location import Location

PROCESSES = "processes"  # of a service: the numbers of those that serve
TRAFFIC = "traffic"  # of a service: the file of their counters (scripts/machine/traffic.py), where they count
served: dict[str, dict[str, Any]] = {}  # what is known of each service that this process, or one above it, has open


@contextmanager
def serving(locations: Iterable[Location]) -> Iterator[None]:
    """Have the locations served for as long as the block runs; those that are open already are left as they are.

    Raises UserError where a server cannot be started or reached.
    """
    services = {_key(location): location.service for location in locations if location.service}
    with ExitStack() as stack:
        for key in sorted(services.keys() - served.keys()):
            service = services[key]
            kind = plugins.load("tiers", service["kind"])
            served[key] = stack.enter_context(kind.serving(service["options"], Path(service["folder"])))
            stack.callback(served.pop, key)
        yield


def reached(location: Location) -> Location:
    """Return the location with what is known only while it is served, such as its endpoint.

    Raises UserError where it needs a server and nothing serves it.
    """
    if location.service is None:
        return location
    found = served.get(_key(location))
    if found is None:
        raise UserError(
            f"{location.uri}: found no server for it; allowed is a program that starts one. "
            "Run it by `feedrate run`, or by snakemake."
        )
    return replace(location, **{name: value for name, value in found.items() if name not in (PROCESSES, TRAFFIC)})


def serving_processes() -> list[int]:
    """Return the numbers of the processes of this machine that serve tiers to this one."""
    return [number for found in served.values() for number in found.get(PROCESSES, ())]


def serving_traffic() -> list[str]:
    """Return the files of counters of what serves tiers to this process."""
    return [found[TRAFFIC] for found in served.values() if TRAFFIC in found]


def _key(location: Location) -> str:
    return json.dumps(location.service, sort_keys=True)
