"""Whether a result feeds the user's own training step (`report.step_ms`): its AU there, measured or by its rate."""

from collections.abc import Iterable, Mapping
from typing import Any

from scripts.common.utilisation import au_percent, works_ahead
from scripts.common.vocabulary import ranks_of

MEASURED, BY_RATE = "measured", "by its rate"
NOT_AHEAD = ""  # the group of results that do not work ahead, beside the loaders' own


def with_step_au(rows: Iterable[Mapping[str, Any]], plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the results with `step_au_percent`, its lower end `step_au_low`, and `step_au_from`; None where unknown.

    What was tried with the step has its AU measured. Of the others it follows from steady rate and epoch start, for
    results that read every byte from a warm cache: with workers a batch is made while a step is under way, without any
    nothing overlaps. The lower end is that of the slower end of the speed's interval. Work after a wait is slower than
    work without one: where a measured result had less than its rate says, so have the others of its loader and, if it
    does not work ahead, all that do not.
    """
    step_ms, found, rows = plan["config"].get("report", {}).get("step_ms"), [], list(rows)
    share = _of_rate(rows, step_ms)
    for row in rows:
        if step_ms and row.get("asked_step_ms") == step_ms:
            said = row["asked_au_percent"], row["asked_au_percent"], MEASURED
        elif step_ms and _known(row):
            slowest = (row["interval_low"] or row["clips_per_second"]) / row["clips_per_second"]
            less = min(share.get(group, 1.0) for group in _groups(row))
            said = less * _au(row, step_ms, 1.0), less * _au(row, step_ms, slowest), BY_RATE
        else:
            said = None, None, ""
        found.append({**row, **dict(zip(("step_au_percent", "step_au_low", "step_au_from"), said, strict=True))})
    return found


def _of_rate(rows: Iterable[Mapping[str, Any]], step_ms: float | None) -> dict[str, float]:
    """Return by group of results the least share that a measured AU had of what the rate says, at most 1."""
    found: dict[str, float] = {}
    for row in rows:
        if step_ms and row.get("asked_step_ms") == step_ms and _known(row):
            share = row["asked_au_percent"] / _au(row, step_ms, 1.0)
            found |= {group: min(share, found.get(group, 1.0)) for group in _groups(row)}
    return found


def _groups(row: Mapping[str, Any]) -> list[str]:
    """Return the groups of results that wait alike: of the row's loader, and those that do not work ahead."""
    return [row["loader"]] + ([] if works_ahead(row["workers"], row["prefetch"]) else [NOT_AHEAD])


def bare(row: Mapping[str, Any]) -> bool:
    """Return whether a result's speed is that of its loader alone: one process that reads warm data, with no step."""
    return (row["task"], row["cache"], row["step_ms"], ranks_of(row)) == ("read", "warm", 0, 1)


def _known(row: Mapping[str, Any]) -> bool:
    return bool(bare(row) and row["clips_per_second"] and row["steady_clips_per_second"] and row["clips"])


def _au(row: Mapping[str, Any], step_ms: float, share: float) -> float:
    """Return AU in percent over whole epochs, at a share of the steady rate."""
    rate, ahead = share * row["steady_clips_per_second"], works_ahead(row["workers"], row["prefetch"])
    return au_percent(step_ms, row["batch_size"], rate, ahead, row["clips"], row["epoch_start_seconds"] or 0.0)
