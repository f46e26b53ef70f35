"""Says what was measured once, is kept, and is not shown."""

from collections.abc import Mapping, Sequence
from typing import Any

DIFFERS = {  # by what a session relied on: what people read for it
    "seconds": "measure.seconds",
    "epochs": "measure.epochs",
    "threads": "the number of threads",
    "storage": "where the data is",
    "format": "how the format is written",
    "loader": "the loader's version",
    "proven": "your own loader's file",
    "checksums": "the data",
    "differs_by": "the decoder",
    "may_differ_by": "the decoder's limit",
    "versions": "versions of libraries",
    "protocol": "feedrate's protocol",
    "cores": "the CPUs it may use",
    "python": "the version of Python",
    "cpu": "the CPU",
    "result": "what the plan has no more",
}
FOLDER = "results/runs/{}/sessions"


def kept_text(dataset: Mapping[str, Any]) -> str:
    """Return a sentence on earlier sessions that do not compare with those shown; nothing where there is none.

    `dataset`: dataset.json of the tables.
    """
    kept: Sequence[Mapping[str, Any]] = dataset.get("kept") or []
    if not kept:
        return ""
    runs, differ = sum(one["runs"] for one in kept), {key for one in kept for key in one["different"]}
    words = list(dict.fromkeys(word for key, word in DIFFERS.items() if key in differ))
    why = f" They differ in {', '.join(words)}." if words else ""
    many = f"{len(kept)} earlier session{'s' if len(kept) > 1 else ''}"
    return (
        f"Kept and not shown: {runs:,} run{'s' if runs > 1 else ''} of {many}, in"
        f" {FOLDER.format(dataset['dataset'])}.{why} Runs of different sessions are never compared."
    )
