"""The first batches of an epoch: what the main process and its workers did with them, and when, as tracks."""

import textwrap
from collections.abc import Mapping
from typing import Any

from scripts.decide.panel import key
from scripts.report.charts import _print as paper
from scripts.report.charts._common import (
    COLOURS,
    PAPER,
    RULE,
    Axes,
    Figure,
    Row,
    Rows,
    Tables,
    grouped,
    results,
)
from scripts.report.sentences import answer_of
from scripts.report.why import BOTH, NOW, contrasted
from scripts.tables.columns import settings_text

TITLE = "Timeline of the first batches"
QUESTION = "What do the processes do meanwhile?"
DATA = "spans.csv"
CATEGORY, ORDER, SECTION = "3 Causes", 40, "timeline"
CAPTION = (
    "The recommended loader and your current one, on one axis of time. Each line is a process; each bar is what it "
    "did with a batch, from the request for the epoch on. A main process that waits while its workers read needs "
    "faster reading, or more workers. One that waits for transfers needs fewer processes. One that never waits keeps "
    "up. A narrow bar is what the main process waits for: its own read, or a batch on its way from a worker. Decoding"
    " without a bar of its own is part of reading. A loader with one line and no reads has threads or a library that "
    "read for it, which the timeline does not show."
)
NEEDS = "the spans of a run: `timeline: candidates` below `measure` in config.yaml notes them"
_MAIN = "main"
_MOST_WORKERS = 8  # of one result in the picture
_NARROW = 0.03  # of the axis: in a bar below that a batch's number has no place
_ON_COLOUR = "#fefefe"  # not PAPER, which changes in dark mode: the bars do not
LOOK = {  # by phase: colour, hatch, label
    "wait": (RULE, "", "wait for a batch"),
    "step": (COLOURS[0], "", "step: consume it"),
    "read": (COLOURS[3], "", "read"),
    "decode": (COLOURS[1], "....", "decode"),
    "collate": (COLOURS[2], "////", "collate"),
    "transfer": (COLOURS[4], "xxxx", "transfer: made, not here yet"),
}
_FASTEST, _SLOWEST = "Fastest with a timeline", "Slowest with a timeline"
_LONGEST = 12  # times the shorter timeline: there the common axis ends

Key = tuple[str, str, str]  # loader, tier and slug


def rows(tables: Tables) -> Rows:
    """Return the spans of the two results in the picture, each up to where a worker is through with what was noted.

    `why` says why a result is one of the two. `within` marks what the main process does while it waits for a batch;
    those spans come after the waiting. trace.json, beside it in the page, has the spans of all results.
    """
    spans = grouped(tables["spans"], "loader", "tier", "slug")
    noted = {key(row): row for row, _ in results(tables, "ranking") if key(row) in spans}
    if not noted:
        return []
    return [
        {
            **{"why": why, "runs": len(noted)},
            **{name: noted[result][name] for name in ("scenario", "loader", "tier", "slug")},
            **{"settings": settings_text(noted[result]), "track_number": _track_number(span["track"])},
            **{name: span[name] for name in ("track", "batch", "phase", "start_ms")},
            **{"end_ms": min(span["end_ms"], end), "within": _within(span)},
            "milliseconds": min(span["end_ms"], end) - span["start_ms"],
        }
        for result, why in _chosen(tables, noted).items()
        if (end := _end(spans[result]))
        for span in sorted(spans[result], key=_within)
        if span["start_ms"] < end
    ]


def _chosen(tables: Tables, noted: Mapping[Key, Row]) -> dict[Key, str]:
    """Return why a result is in the picture: what is recommended, and what the user has now.

    In place of either that has no timeline: the fastest, or the slowest, that has one in the same scenario.
    """
    pair = contrasted(tables, answer_of(tables))
    found = {key(row): why for why, row in pair if key(row) in noted}  # what is recommended first
    scenario = pair[0][1]["scenario"] if pair else None
    same = [row for row in noted.values() if row["scenario"] == scenario] or list(noted.values())
    same.sort(key=lambda row: -row["items_per_second"])
    whys = set(found.values())
    if not whys - {NOW}:
        found = {key(same[0]): _FASTEST} | found
    if not whys & {NOW, BOTH}:
        found.setdefault(key(same[-1]), _SLOWEST)
    return found


def _end(spans: Rows) -> float:
    """Return up to when the spans say all: what a worker does after the last batch that was noted is not known."""
    last = {track: max(span["end_ms"] for span in same) for track, same in grouped(spans, "track").items()}
    return min((end for track, end in last.items() if track != _MAIN), default=last.get(_MAIN, 0.0)) or 1.0


def _within(span: Row) -> bool:
    return span["track"] == _MAIN and span["phase"] not in ("wait", "step")


def _track_number(track: str) -> int:
    number = track.rpartition(" ")[2]
    return 1 + int(number) if number.isdecimal() else 0


def draw(rows: Rows) -> Figure:
    """Return the picture: a panel for each of the two results, in it a line per process, on one axis of time.

    The axis ends at `_LONGEST` times the shorter of the two timelines.
    """
    drawn = [row for row in rows if row["track_number"] <= _MOST_WORKERS]
    runs = grouped(drawn, "why")
    heights = [1.0 + 0.3 * len({row["track"] for row in found}) for found in runs.values()]
    ends = [max(row["end_ms"] for row in found) for found in runs.values()]
    figure, axes = paper.scenarios(runs, heights)
    for axis, found in zip(axes, runs.values(), strict=True):
        _panel(axis, found, min(max(ends), _LONGEST * min(ends)))
    axes[-1].set_xlabel("milliseconds since the epoch began")
    looks = {phase: look for phase, look in LOOK.items() if any(row["phase"] == phase for row in drawn)}
    paper.legend(figure, [paper.patch(label, **_look(phase)) for phase, (_, _, label) in looks.items()])
    notes = [f"{drawn[0]['scenario']}. An epoch of its own after the timed ones; the numbers are batches."]
    most = max(row["track_number"] for row in rows)
    notes += [f"The first {_MOST_WORKERS} of up to {most} workers are drawn."] if most > _MOST_WORKERS else []
    notes += [f"The axis ends at {_LONGEST} times the shorter timeline."] if max(ends) > _LONGEST * min(ends) else []
    notes += [f"{len(runs)} of {rows[0]['runs']} runs are drawn here."] if len(runs) < rows[0]["runs"] else []
    paper.footnote(figure, notes)
    return figure


def _panel(axis: Axes, rows: Rows, end: float) -> None:
    from matplotlib.ticker import MaxNLocator

    tracks = sorted({(row["track_number"], row["track"]) for row in rows})
    for row in sorted(rows, key=lambda row: row["phase"] != "wait"):  # on which the others are
        y, width = tracks.index((row["track_number"], row["track"])), row["milliseconds"]
        height = 0.42 if row["within"] else 0.8
        axis.barh(y, width, height, left=row["start_ms"], zorder=3, **_look(row["phase"]))
        if row["phase"] in ("step", "read") and width > _NARROW * end and row["start_ms"] + width <= end:
            words = {"ha": "center", "va": "center", "size": 7, "color": _ON_COLOUR, "zorder": 4}
            axis.text(row["start_ms"] + width / 2, y, str(row["batch"]), **words)
    paper.name_axis(axis, ["main process" if track == _MAIN else track for _, track in tracks])
    axis.set_xlim(0, end)
    axis.xaxis.set_major_formatter(paper.plain_numbers())
    axis.xaxis.set_major_locator(MaxNLocator(8))
    where = f"{paper.plain(rows[0]['loader'])} on {paper.plain(rows[0]['tier'])}"
    axis.set_title(f"{rows[0]['why']}: {where}\n{textwrap.fill(rows[0]['settings'], 75)}")


def _look(phase: str) -> dict[str, Any]:
    colour, hatch, _ = LOOK[phase]
    return {"facecolor": colour, "hatch": hatch, "edgecolor": PAPER, "linewidth": 0.3}
