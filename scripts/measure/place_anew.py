"""Places the files anew that a session reads, so that it tells nothing of where those of the session before lay."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from scripts.common import plugins
from scripts.common.location import from_json
from scripts.plan.planned import Planned
from scripts.plan.results import Result


def place_anew(plan: Planned, results: Iterable[Result]) -> None:
    """Write each copy of these results again: other inodes, blocks and pages, of the same bytes.

    A copy is removed first, so that two never need room at once; what is killed here, Snakemake places again. A
    location without files of this machine stays as it is.
    """
    for written, tier, location in {(one.written, one.tier, from_json(one.location)) for one in results if _local(one)}:
        kind, options = plugins.load("tiers", plan.tiers[tier]["kind"]), plan.tiers[tier]["place"]
        if location.held_in.is_dir():
            shutil.rmtree(location.held_in)
        else:
            location.held_in.unlink(missing_ok=True)
        getattr(kind, "place_anew", kind.place)(options, Path(written), location)


def _local(result: Result) -> bool:
    return result.location.get("held_in") is not None
