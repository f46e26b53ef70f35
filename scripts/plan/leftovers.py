"""Copies in RAM that an earlier call of this folder has left, and that this call has no use for."""

import os
import shutil
from pathlib import Path
from urllib.parse import unquote, urlparse

from scripts.common.files import read_json
from scripts.machine import devices
from scripts.plan.experiment import Plan

SHARED_MEMORY = Path("/dev/shm")


def remove_from_ram(plan: Plan) -> list[Path]:
    """Remove them, with what a killed copy left half, and return what was removed.

    Only for a call that nobody else of this folder is at work beside. Looked for is the folder of this checkout
    (`Plan.copy`) in /dev/shm, on the plan's tiers and where the records of copies say that one was.
    """
    checkout = plan.copy(next(iter(plan.tiers))).partition("/")[0]
    kept = {
        Path(os.path.realpath(place))
        for tier in plan.tiers
        for loader in plan.loaders
        if (place := plan.location(tier, loader).held_in) is not None
    }
    uris = [read_json(record).get("uri") or "" for record in (plan.project / "results/placed").glob("*/*/**/*.json")]
    said = [Path(unquote(urlparse(uri).path)) for uri in uris]
    folders = {Path(os.path.realpath(SHARED_MEMORY / checkout))}
    folders |= {above for path in (*said, *kept) for above in path.parents if above.name == checkout}
    removed: list[Path] = []
    for folder in sorted(folders):
        if folder.is_dir() and devices.in_memory(folder):
            _remove_but(folder, kept, removed)
    return removed


def _remove_but(path: Path, kept: set[Path], removed: list[Path]) -> None:
    """Remove a folder but for the copies in it that are `kept`."""
    if path in kept:
        return
    if any(copy.is_relative_to(path) for copy in kept if copy.exists()):
        for below in sorted(path.iterdir()):
            _remove_but(below, kept, removed)
    else:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        removed.append(path)
