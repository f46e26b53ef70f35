"""What serves a tier while a program needs it: started by that program, known to every process below it.

A tier kind whose bytes come from a server has `serving(options, folder)` (docs/architecture.md). The program that needs
the tier (a session, a run by hand) opens it for its own life; processes that it starts find what is open in the
environment, and start nothing.
"""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from scripts.common import plugins
from scripts.common.errors import UserError
from scripts.common.location import Location

SERVED = "FEEDRATE_SERVED"  # JSON: what is known of each service that is open
PROCESSES = "processes"  # of it: the numbers of those that serve
TRAFFIC = "traffic"  # of it: the file of their counters (scripts/machine/traffic.py), where they count


@contextmanager
def serving(locations: Iterable[Location]) -> Iterator[None]:
    """Have the locations served for as long as the block runs; those that a process above serves are left to it.

    Raises UserError where a server cannot be started or reached.
    """
    before = os.environ.get(SERVED)
    served = _served()
    services = {_key(location): location.service for location in locations if location.service}
    with ExitStack() as stack:
        for key in sorted(services.keys() - served.keys()):
            service = services[key]
            kind = plugins.load("tiers", service["kind"])
            served[key] = stack.enter_context(kind.serving(service["options"], Path(service["folder"])))
        try:
            os.environ[SERVED] = json.dumps(served)
            yield
        finally:
            os.environ.pop(SERVED)
            if before is not None:
                os.environ[SERVED] = before


def reached(location: Location) -> Location:
    """Return the location with what is known only while it is served, such as its endpoint.

    Raises UserError where it needs a server and nothing serves it.
    """
    if location.service is None:
        return location
    found = _served().get(_key(location))
    if found is None:
        raise UserError(
            f"{location.uri}: found nothing that serves it; allowed is a program that does, while it needs it. "
            "Run it by `feedrate run`, or by snakemake."
        )
    return replace(location, **{name: value for name, value in found.items() if name not in (PROCESSES, TRAFFIC)})


def serving_processes() -> list[int]:
    """Return the numbers of the processes of this machine that serve tiers to this one."""
    return [number for found in _served().values() for number in found.get(PROCESSES, ())]


def serving_traffic() -> list[str]:
    """Return the files of counters of what serves tiers to this process."""
    return [found[TRAFFIC] for found in _served().values() if TRAFFIC in found]


def _served() -> dict[str, Any]:
    return json.loads(os.environ.get(SERVED, "{}"))


def _key(location: Location) -> str:
    return json.dumps(location.service, sort_keys=True)
