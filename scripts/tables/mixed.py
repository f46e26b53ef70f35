"""Rows of warnings.csv where results of one ranking were measured by different code (`code` of a record).

A run is not made again when the code on its timed path changes, since runs cost days: the reader is told instead.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Row = Mapping[str, Any]
_CODE = "mixed-code"


def warning_rows(runs: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Yield a warning for what all runs go through, and one for each loader, where ok runs had several versions of it.

    `code` of a run is two hashes, `SHARED-LOADER`: what every run goes through, and the loader's own code.
    """
    found = [(row, *row["code"].partition("-")[::2]) for row in runs if row["status"] == "ok" and row["code"]]
    shared = {every for _, every, _ in found}
    if len(shared) > 1:
        yield _warning(f"the runs went through {len(shared)} versions of the code that times every loader", "")
    for loader in sorted({row["loader"] for row, *_ in found}):
        versions = {own for row, _, own in found if row["loader"] == loader}
        if len(versions) > 1:
            yield _warning(f"its runs were made by {len(versions)} versions of the loader's code", loader)


def _warning(seen: str, loader: str) -> dict[str, Any]:
    target = f"results/{loader}.json" if loader else "report/index.html"
    return {
        "loader": loader,
        "code": _CODE,
        "seen": seen,
        "cause": "the code was changed between runs, and these are not made again by themselves",
        "hint": "where the change may matter, measure all of them by one version: "
        f"snakemake {target} --forcerun prove_loader, with the --config of your command",
    }
