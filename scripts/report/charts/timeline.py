"""The figure of the first batches: what the main process and its workers did with them, and when, as lanes."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from scripts.report.charts._parts import (
    NUMBERS,
    PAPER,
    RULE,
    SERIES,
    Rows,
    footnote,
    legend,
    nothing,
    panel_rows,
    plain,
)
from scripts.tables.columns import panels, settings_text

_MAIN = "main"
_MOST_WORKERS = 8  # lanes of one result
_LEAST_SHARE = 0.1  # of the time: below, waiting for transfers is not worth a lane
_NARROW = 0.03  # of the axis: in a bar below that a batch's number has no place
_TITLE_WIDTH = 75  # signs
_ON_COLOUR = "#fefefe"  # not PAPER, which changes in dark mode: the bars do not
LOOK = {  # by phase: colour, hatch, label; the report's chart has these colours too
    "wait": (RULE, "", "wait for a batch"),
    "step": (SERIES[0], "", "step: consume it"),
    "read": (SERIES[3], "", "read"),
    "decode": (SERIES[1], "....", "decode"),
    "collate": (SERIES[2], "////", "collate"),
    "transfer": (SERIES[4], "xxxx", "transfer: made, not here yet"),
}

Key = tuple[str, str, str]  # loader, tier and slug


def timeline(tables: Mapping[str, Any]) -> Figure:
    """Return lanes over milliseconds, a lane per process, for up to four results, which a rule chooses.

    Of the first condition and tier for which spans were noted: the fastest and the slowest result with worker
    processes, the one that waits longest for its transfers, and the fastest that reads in the main process.
    """
    spans = _by_result(tables["spans"])
    results = [row for row in tables["ranking"] if _key(row) in spans and row["clips_per_second"] is not None]
    if not results:
        return nothing(
            "No result has a batch timeline: measure.timeline: first in config.yaml notes one of each result that "
            "traverses.",
            [],
        )
    panel = panels(results)[0]
    order = [*(row["tier"] for row in tables["tiers"]), *(row["tier"] for row in results)]
    tier = min((row["tier"] for row in results if row["panel"] == panel), key=order.index)
    results = [row for row in results if (row["panel"], row["tier"]) == (panel, tier)]
    chosen, every = _chosen(results, spans), all(_reads(spans[_key(row)]) for row in results)
    lanes = [_lanes(spans[_key(row)]) for _, row in chosen]
    figure, axes = panel_rows([1.0 + 0.3 * len(names) for names in lanes])
    for axis, (why, row), names in zip(axes, chosen, lanes, strict=True):
        _panel(axis, spans[_key(row)], names)
        among = "of those whose reads are noted: " if not every and _reads(spans[_key(row)]) else ""
        axis.set_title(f"{why}: {plain(row['loader'])}\n{textwrap.fill(among + settings_text(row), _TITLE_WIDTH)}")
    axes[-1].set_xlabel("milliseconds since the epoch began")
    found = {span["phase"] for _, row in chosen for span in spans[_key(row)]}
    legend(figure, [_handle(phase) for phase in LOOK if phase in found])
    most = max(_lane_count(spans[_key(row)]) for _, row in chosen) - 1
    footnote(figure, [], _notes(panel, tier, most))
    return figure


def _by_result(spans: Rows) -> dict[Key, Rows]:
    found: dict[Key, Rows] = {}
    for span in spans:
        found.setdefault(_key(span), []).append(span)
    return found


def _key(row: Mapping[str, Any]) -> Key:
    return row["loader"], row["tier"], row["slug"]


def _chosen(results: Rows, spans: Mapping[Key, Rows]) -> list[tuple[str, dict[str, Any]]]:
    """Return (why, row of the ranking) of the results that are drawn, each once."""
    results = sorted(results, key=lambda row: -row["clips_per_second"])
    with_workers = [row for row in results if _lane_count(spans[_key(row)]) > 1]
    alone = [row for row in results if row not in with_workers]
    reading = [row for row in alone if _reads(spans[_key(row)])]
    costly = [row for row in with_workers if _in_transfer(spans[_key(row)]) >= _LEAST_SHARE]
    costly.sort(key=lambda row: -_in_transfer(spans[_key(row)]))
    wanted = [
        ("Fastest with worker processes", with_workers[:1]),
        ("Longest in transfer", costly[:1]),
        ("Slowest with worker processes", with_workers[-1:]),
        ("Fastest without worker processes", (reading or alone)[:1]),
    ]
    found: dict[Key, tuple[str, dict[str, Any]]] = {}
    for why, rows in wanted:
        for row in rows:
            found.setdefault(_key(row), (why, row))
    return list(found.values())


def _in_transfer(spans: Rows) -> float:
    """Return the share of the main process's time in which a batch was made and not there yet."""
    taken = sum(span["end_ms"] - span["start_ms"] for span in spans if span["phase"] == "transfer")
    return taken / max(span["end_ms"] for span in spans if span["lane"] == _MAIN)


def _lane_count(spans: Rows) -> int:
    return len({span["lane"] for span in spans})


def _reads(spans: Rows) -> bool:
    """Return whether reads are noted: those of threads and of libraries are not."""
    return any(span["phase"] == "read" for span in spans)


def _lanes(spans: Rows) -> list[str]:
    """Return the lanes that are drawn: the main process, then the first of its workers."""
    workers = sorted({span["lane"] for span in spans} - {_MAIN}, key=lambda lane: (len(lane), lane))
    return [_MAIN, *workers[:_MOST_WORKERS]]


def _panel(axis: Axes, spans: Rows, lanes: list[str]) -> None:
    end = _end(spans, lanes)
    for span in sorted(spans, key=lambda span: span["phase"] != "wait"):  # on which the others lie
        if span["lane"] in lanes and span["start_ms"] < end:
            _bar(axis, span, lanes.index(span["lane"]), end)
    axis.set_xlim(0, end)
    axis.set_yticks(range(len(lanes)), ["main process", *lanes[1:]])
    axis.set_ylim(len(lanes) - 0.5, -0.5)
    axis.xaxis.set_major_formatter(NUMBERS)
    axis.xaxis.set_major_locator(MaxNLocator(8))
    axis.grid(axis="y", visible=False)


def _end(spans: Rows, lanes: list[str]) -> float:
    """Return where the axis ends: what a worker does after the last batch that was noted is not known."""
    last = {lane: max(span["end_ms"] for span in spans if span["lane"] == lane) for lane in lanes}
    return min((last[lane] for lane in lanes[1:]), default=last[_MAIN]) or 1.0


def _bar(axis: Axes, span: Mapping[str, Any], y: int, end: float) -> None:
    """Draw a span; what the main process does while it waits lies on the bar of its waiting, narrower."""
    colour, hatch, _ = LOOK[span["phase"]]
    inside = span["lane"] == _MAIN and span["phase"] not in ("wait", "step")
    width, height = min(span["end_ms"], end) - span["start_ms"], 0.42 if inside else 0.8
    look = {"color": colour, "hatch": hatch, "edgecolor": PAPER, "linewidth": 0.3}
    axis.barh(y, width, height, left=span["start_ms"], zorder=3, **look)
    if span["phase"] in ("step", "read") and width > _NARROW * end:
        middle = span["start_ms"] + width / 2
        axis.text(middle, y, str(span["batch"]), ha="center", va="center", size=7, color=_ON_COLOUR, zorder=4)


def _handle(phase: str) -> Patch:
    colour, hatch, label = LOOK[phase]
    return Patch(facecolor=colour, hatch=hatch, edgecolor=PAPER, linewidth=0.3, label=label)


def _notes(panel: str, tier: str, most_workers: int) -> Iterator[str]:
    """Yield the lines below the figure: what it is of, and what is not drawn."""
    yield f"{panel}, tier {plain(tier)}. An epoch of its own after the timed ones; the numbers are batches."
    if most_workers:
        yield "A part ends where the first worker is through with the batches that were noted."
    if most_workers > _MOST_WORKERS:
        yield f"The first {_MOST_WORKERS} of up to {most_workers} workers are drawn."
