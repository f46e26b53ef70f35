"""Which line of a user's own Dataset an item's time goes to: some items run line by line, as under attach, in this
process, after what is proven or timed.
"""

import math
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from scripts.attach import feedrate_attach
from scripts.common.files import PROJECT
from scripts.common.request import LoaderRequest
from scripts.loaders._own_epochs import users_line

ITEMS, SECONDS = 128, 3.0  # after which it ends
LEAST_SHARE, MOST_LINES = 0.01, 20  # of an item's time; lines below are not kept
NO_LOADER = "it is no DataLoader, so nobody knows how to take a single item"
ELSEWHERE = "the data is in object storage, where each item would be paid for once more"
OWN_FUNCTION = "open_epochs(request) gives no loader object"


def item_lines(module: ModuleType, request: LoaderRequest) -> dict[str, Any]:
    """Return `item_ms`, the `parts` of it and its `lines`, of a loader in a file of the user's own; else the `reason`.

    Shares are of an item's time, collating included. A part is `open`, `decode`, `resample`, `build`, `collate` or
    `other`; a line that does several is there with each. Threads are those that a worker has.
    """
    made = getattr(module, "made", None)
    if made is None:
        return _without(OWN_FUNCTION)
    if request.location.path is None:
        return _without(ELSEWHERE)
    try:
        with made(request) as loader, _threads(1 if request.workers else None):
            inner = next(iter(getattr(loader, "pipeline", ())), loader)
            if not feedrate_attach.is_dataloader(inner):
                return _without(NO_LOADER)
            found = feedrate_attach.profile(inner, ITEMS, SECONDS, without=[str(PROJECT / "scripts")])
    except Exception as error:
        traceback.print_exc()
        said = next(iter(str(error).splitlines()), "")
        return _without(f"{type(error).__name__}: {said}{users_line(error, module)}")
    if not found["items"] or not math.isfinite(found["item_ms"]):
        return _without("it gave no item")
    return {
        "reason": None,
        "items": found["items"],
        "item_ms": found["item_ms"],
        "parts": {part: share for part, share in found["parts"].items() if share >= LEAST_SHARE},
        "lines": list(_lines(found, module.OWN_FILE.parent))[:MOST_LINES],
    }


def _without(reason: str) -> dict[str, Any]:
    return {"reason": reason, "items": 0, "item_ms": None, "parts": {}, "lines": []}


def _lines(found: Mapping[str, Any], folder: Path) -> Iterator[dict[str, Any]]:
    """Yield each line with each of its parts, the most expensive first; without a file where no line of theirs is."""
    pairs = [(share, part, row) for row in found["lines"] for part, share in row["parts"].items()]
    for share, part, row in sorted(pairs, key=lambda pair: -pair[0]):
        if share >= LEAST_SHARE:
            path = Path(row["file"])
            file = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name
            names = {"file": file if row["line"] else "", "line": row["line"] or None}
            about = {"code": row["code"], "part": part, "function": row["function"]}
            yield {**names, **about, "share": share, "ms": share * found["item_ms"]}


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """Give torch so many threads for as long as the context is open; as many as it has where that is None."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
