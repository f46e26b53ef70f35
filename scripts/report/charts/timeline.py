"""The first batches of an epoch: what the main process and its workers did with them, and when, as tracks."""

import textwrap
from collections import Counter
from collections.abc import Mapping
from typing import Any

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
    key,
    results,
)  # fmt: skip
from scripts.tables.columns import settings_text

TITLE = "Timeline of the first batches"
QUESTION = "What do the processes do meanwhile?"
DATA = "spans.csv"
CATEGORY, ORDER, SECTION = "3 Causes", 40, "timeline"
CAPTION = (
    "Each line is a process, each bar what it did with a batch, from the moment the epoch was asked for. A main "
    "process that waits while its workers read needs faster reading or more of them; one that waits for transfers "
    "needs fewer processes; one that never waits is sustained. A narrow bar is what the main process waits for: a "
    "read of its own, or a batch that a worker has made and that is on its way. Where decoding has no bar of its own "
    "it is part of reading. A loader with one line and no reads in it reads by threads or by a library of its own, "
    "which are not noted."
)
ALT = (
    "Lines of the main process and of each worker with the spans of reading, decoding, collating, transfer and waiting"
)
NEEDS = "the spans of a run: `timeline: first` below `measure` in config.yaml notes them"
MOST_SPANS = 4_000  # in the rows: of as many runs, the best first, as fit
_MAIN = "main"
_MOST_WORKERS = 8  # of one result in the picture
_LEAST_SHARE = 0.1  # of the time: below, waiting for transfers is not worth a panel
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
_RULES = (
    "Fastest with worker processes",
    "Longest in transfer",
    "Slowest with worker processes",
    "Fastest without worker processes",
)

Key = tuple[str, str, str]  # loader, tier and slug


def rows(tables: Tables) -> Rows:
    """Return the spans of results, the best first; of each up to where a worker is through with what was noted.

    `why` says by which rule a result is one of the few in the picture, and is blank for the others. Those few are
    always here, of the others as many as fit into MOST_SPANS; `runs` counts all. `within` marks what the main process
    does while it waits for a batch; those spans come after the waiting.
    """
    spans = grouped(tables["spans"], "loader", "tier", "slug")
    ranked = {key(row): row for row, _ in results(tables, "ranking") if key(row) in spans}
    found = {key(row): row for row in (*tables["best"], *tables["ranking"]) if key(row) in ranked}
    why, names, room = _chosen(list(ranked.values()), spans), _names(found), MOST_SPANS
    kept = set()
    for result in dict.fromkeys([*why, *found]):
        room -= len(spans[result])
        if room < 0 and result not in why:
            break
        kept.add(result)
    return [
        {
            **{"run": names[result], "why": why.get(result, ""), "runs": len(found)},
            **{name: row[name] for name in ("condition", "loader", "tier", "slug")},
            **{"settings": settings_text(row), "track_number": _track_number(span["track"])},
            **{name: span[name] for name in ("track", "batch", "phase", "start_ms")},
            **{"end_ms": min(span["end_ms"], end), "within": _within(span)},
            "milliseconds": min(span["end_ms"], end) - span["start_ms"],
        }
        for result, row in found.items()
        if result in kept and (end := _end(spans[result]))
        for span in sorted(spans[result], key=_within)
        if span["start_ms"] < end
    ]


def _chosen(ranked: list[Row], spans: Mapping[Key, Rows]) -> dict[Key, str]:
    """Return why a result is in the picture, of those of the first condition and tier that have spans.

    The fastest and the slowest with worker processes, the one that waits longest for its transfers, and the fastest
    that reads in the main process.
    """
    first = [row for row in ranked if (row["condition"], row["tier"]) == (ranked[0]["condition"], ranked[0]["tier"])]
    first.sort(key=lambda row: -row["clips_per_second"])
    reads = {key(row) for row in first if any(span["phase"] == "read" for span in spans[key(row)])}
    crews = [key(row) for row in first if len({span["track"] for span in spans[key(row)]}) > 1]
    single = [key(row) for row in first if key(row) not in crews]
    costly = [one for one in crews if _in_transfer(spans[one]) >= _LEAST_SHARE]
    costly.sort(key=lambda one: -_in_transfer(spans[one]))
    alone = [one for one in single if one in reads] or single
    found: dict[Key, str] = {}
    for why, names in zip(_RULES, (crews[:1], costly[:1], crews[-1:], alone[:1]), strict=True):
        for one in names:  # reads of threads and of libraries are not noted
            noted = ", of those whose reads are noted" if one in reads and len(reads) < len(first) else ""
            found.setdefault(one, why + noted)
    return found


def _in_transfer(spans: Rows) -> float:
    """Return the share of the main process's time in which a batch was made and not there yet."""
    taken = sum(span["end_ms"] - span["start_ms"] for span in spans if span["phase"] == "transfer")
    return taken / max(span["end_ms"] for span in spans if span["track"] == _MAIN)


def _end(spans: Rows) -> float:
    """Return up to when the spans say all: what a worker does after the last batch that was noted is not known."""
    last: dict[str, float] = {}
    for span in spans:
        last[span["track"]] = max(span["end_ms"], last.get(span["track"], 0.0))
    return min((end for track, end in last.items() if track != _MAIN), default=last.get(_MAIN, 0.0)) or 1.0


def _names(found: Mapping[Key, Row]) -> dict[Key, str]:
    """Return what each result is called: its settings in words, or its slug where others are called so too."""
    several = len({row["condition"] for row in found.values()}) > 1
    names = {
        result: ", ".join([*result[:2], *([row["condition"]] if several else []), settings_text(row)])
        for result, row in found.items()
    }
    counts = Counter(names.values())
    return {result: name if counts[name] == 1 else ", ".join(result) for result, name in names.items()}


def _within(span: Row) -> bool:
    return span["track"] == _MAIN and span["phase"] not in ("wait", "step")


def _track_number(track: str) -> int:
    number = track.rpartition(" ")[2]
    return 1 + int(number) if number.isdecimal() else 0


def draw(rows: Rows) -> Figure:
    """Return the picture: a panel for each result that is chosen by a rule, in it a line per process."""
    drawn = [row for row in rows if row["why"] and row["track_number"] <= _MOST_WORKERS]
    runs = dict(sorted(grouped(drawn, "run").items(), key=lambda item: _RULES.index(item[1][0]["why"].split(",")[0])))
    heights = [1.0 + 0.3 * len({row["track"] for row in found}) for found in runs.values()]
    figure, axes = paper.conditions(runs, heights)
    for axis, found in zip(axes, runs.values(), strict=True):
        _panel(axis, found)
    axes[-1].set_xlabel("milliseconds since the epoch began")
    looks = {phase: look for phase, look in LOOK.items() if any(row["phase"] == phase for row in drawn)}
    paper.legend(figure, [paper.patch(label, **_look(phase)) for phase, (_, _, label) in looks.items()])
    where = f"{drawn[0]['condition']}, tier {paper.plain(drawn[0]['tier'])}"
    notes = [f"{where}. An epoch of its own after the timed ones; the numbers are batches."]
    most = max(row["track_number"] for row in rows if row["why"])
    notes += [f"The first {_MOST_WORKERS} of up to {most} workers are drawn."] if most > _MOST_WORKERS else []
    notes += [f"{len(runs)} of {rows[0]['runs']} runs are drawn here."] if len(runs) < rows[0]["runs"] else []
    paper.footnote(figure, notes)
    return figure


def _panel(axis: Axes, rows: Rows) -> None:
    from matplotlib.ticker import MaxNLocator

    end, tracks = max(row["end_ms"] for row in rows), sorted({(row["track_number"], row["track"]) for row in rows})
    for row in sorted(rows, key=lambda row: row["phase"] != "wait"):  # on which the others are
        y, width = tracks.index((row["track_number"], row["track"])), row["milliseconds"]
        height = 0.42 if row["within"] else 0.8
        axis.barh(y, width, height, left=row["start_ms"], zorder=3, **_look(row["phase"]))
        if row["phase"] in ("step", "read") and width > _NARROW * end:
            words = {"ha": "center", "va": "center", "size": 7, "color": _ON_COLOUR, "zorder": 4}
            axis.text(row["start_ms"] + width / 2, y, str(row["batch"]), **words)
    paper.name_axis(axis, ["main process" if track == _MAIN else track for _, track in tracks])
    axis.set_xlim(0, end)
    axis.xaxis.set_major_formatter(paper.plain_numbers())
    axis.xaxis.set_major_locator(MaxNLocator(8))
    axis.set_title(f"{rows[0]['why']}: {paper.plain(rows[0]['loader'])}\n{textwrap.fill(rows[0]['settings'], 75)}")


def _look(phase: str) -> dict[str, Any]:
    colour, hatch, _ = LOOK[phase]
    return {"facecolor": colour, "hatch": hatch, "edgecolor": PAPER, "linewidth": 0.3}
