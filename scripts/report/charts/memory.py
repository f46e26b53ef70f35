"""The figure of memory against workers: what each loader and its worker processes hold at most."""

from collections.abc import Iterable, Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from scripts.report.charts._parts import (
    BOUND,
    LABEL,
    MARKERS,
    SERIES,
    Rows,
    by_place,
    byte_unit,
    footnote,
    legend,
    limit_note,
    loader_rows,
    nothing,
    number_axis,
    panel_rows,
    place_title,
    traversing,
)
from scripts.tables.columns import bytes_text

_MOST_ROWS = 14  # loaders in a panel

Peaks = dict[int | None, float]  # bytes by number of workers; None: the loader knows no workers


def memory(tables: Mapping[str, Any]) -> Figure:
    """Return the largest PSS of all processes, a panel per tier, a row per loader, a marker per number of workers.

    Of traversing with a warm cache, the loader that needs the least first; of several settings with the same number of
    workers the fastest counts.
    """
    places = by_place((row for row in traversing(tables["ranking"]) if row["pss_peak_bytes"]), tables)
    if not places:
        text = "No loader has its memory noted: it is of results that traverse from a warm cache, on Linux."
        return nothing(text, [])
    loaders = {place: _loaders(rows) for place, rows in places.items()}
    shown = {place: _least_first(list(found.items())[:_MOST_ROWS]) for place, found in loaders.items()}
    peaks = [peaks for found in shown.values() for peaks in found.values()]
    look, unit = _look(count for found in peaks for count in found), byte_unit(max(map(_highest, peaks)))
    figure, axes = panel_rows([0.7 + 0.28 * len(found) for found in shown.values()])
    for axis, (place, found) in zip(axes, shown.items(), strict=True):
        _panel(axis, found, look, unit)
        axis.set_title(place_title(place, places))
    legend(figure, [Line2D([], [], label=_label(count), **style) for count, style in look.items()])
    footnote(figure, [], limit_note(_MOST_ROWS, max(map(len, loaders.values()))))
    return figure


def _loaders(rows: Rows) -> dict[str, Peaks]:
    """Return the peaks of each loader, the fastest loader first; the rows are sorted so."""
    found: dict[str, Peaks] = {}
    for row in rows:
        found.setdefault(row["loader"], {}).setdefault(row["workers"], row["pss_peak_bytes"])
    return found


def _least_first(loaders: Iterable[tuple[str, Peaks]]) -> dict[str, Peaks]:
    return dict(sorted(loaders, key=lambda item: (min(item[1].values()), item[0])))


def _highest(peaks: Peaks) -> float:
    return max(peaks.values())


def _look(counts: Iterable[int | None]) -> dict[int | None, dict[str, Any]]:
    """Return the marker of each number of workers, from the lowest."""
    ordered = sorted(set(counts), key=lambda count: -1 if count is None else count)
    return {
        count: {
            "marker": MARKERS[number % len(MARKERS)],
            "color": SERIES[number % len(SERIES)],
            "linestyle": "",
            "markersize": 7,
        }
        for number, count in enumerate(ordered)
    }


def _label(count: int | None) -> str:
    if count is None:
        return "knows no workers"
    return "1 worker" if count == 1 else f"{count} workers"


def _panel(axis: Axes, found: Mapping[str, Peaks], look: Mapping[int | None, Any], unit: tuple[str, float]) -> None:
    name, size = unit
    for y, peaks in enumerate(found.values()):
        ends = [min(peaks.values()) / size, _highest(peaks) / size]
        axis.plot(ends, [y, y], color=BOUND, linewidth=1.2, zorder=2)
        for count, value in peaks.items():
            axis.plot(value / size, y, zorder=3, **look[count])
        axis.annotate(bytes_text(_highest(peaks)), (ends[1], y), zorder=5, **LABEL)
    loader_rows(axis, list(found))
    number_axis(axis, f"{name} of memory at most (PSS of all processes), less is better")
