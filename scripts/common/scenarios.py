"""Scenarios: results are compared within one only."""

from collections.abc import Iterable, Mapping
from typing import Any

from scripts.common.vocabulary import CACHES, SIZES, TASKS, WHOLE, ranks_of


def scenarios(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the scenarios that occur in `rows`, sorted; results are only compared within one."""
    return [
        scenario for _, scenario in sorted({(scenario_order(row), row["scenario"]) for row in rows if row["scenario"]})
    ]


def scenario_order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return where a result's scenario stands among the others.

    By device, size, task, cache, step, number of ranks, transform, and whose items they are.
    """
    named = list(SIZES).index(row["size"]), list(TASKS).index(row["task"]), list(CACHES).index(row["cache"])
    return row["device"], *named, row["step_ms"] or 0, ranks_of(row), row.get("transform") or "", own_items(row)


def own_items(row: Mapping[str, Any]) -> str:
    """Return the loader whose own items a result is of, "" of the corpus's, which all others have."""
    return row["loader"] if row.get("check") else ""


def panel_of(row: Mapping[str, Any]) -> str:
    """Return the scenario of a result, such as ``CPU, cold cache``."""
    if not row["device"]:
        return ""
    parts = [row["device"].upper(), *([] if row["task"] == "read" else [TASKS[row["task"]].word])]
    parts += [] if row["cache"] == "warm" else [CACHES[row["cache"]].word]
    parts += [] if row["size"] == WHOLE else [SIZES[row["size"]].word]
    parts += [f"{ranks_of(row)} ranks"] if ranks_of(row) > 1 else []
    parts += [f"with {row['transform']}"] if row.get("transform") else []
    parts += [f"items of {own_items(row)}"] if own_items(row) else []
    return ", ".join(parts + ([f"{row['step_ms']:g} ms step"] if row["step_ms"] else []))
