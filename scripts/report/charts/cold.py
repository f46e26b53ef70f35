"""The figure of cold and limited caches against the warm one: a row per loader, and how much of its speed is left."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from scripts.common.vocabulary import CACHES
from scripts.report.charts._parts import (
    BOUND,
    LABEL,
    MARKERS,
    SERIES,
    Place,
    by_place,
    footnote,
    legend,
    limit_note,
    loader_rows,
    nothing,
    number_axis,
    panel_rows,
    place_title,
    plain,
    traversing,
)
from scripts.tables.columns import number_text

_MOST_ROWS = 14  # loaders in a panel
_LOOK = {
    cache: {"marker": MARKERS[number], "color": SERIES[number], "linestyle": "", "markersize": 7}
    for number, cache in enumerate(CACHES)
}

Speeds = dict[str, dict[str, float]]  # clips/s by loader and state of the cache


def cold(tables: Mapping[str, Any]) -> Figure:
    """Return clips/s with a cold and a limited cache beside the warm one, a panel per tier, the fastest cold first.

    Of traversing, each state of the cache at the settings that are fastest with it.
    """
    rows = [row for cache in CACHES for row in traversing(tables["best"], cache)]
    lost = [row for row in tables["best"] if row["cache"] != "warm" and row["status"] != "ok"]
    places = {place: _speeds(found) for place, found in by_place(rows, tables).items()}
    places = {place: speeds for place, speeds in places.items() if speeds}
    if not places:
        text = "No loader has verified results with a cold or limited cache: sweep.cache: [warm, cold, limited] in "
        return nothing(f"{text}config.yaml measures them.", lost)
    shown = {place: dict(list(speeds.items())[:_MOST_ROWS]) for place, speeds in places.items()}
    figure, axes = panel_rows([0.7 + 0.3 * len(speeds) for speeds in shown.values()])
    for axis, (place, speeds) in zip(axes, shown.items(), strict=True):
        _panel(axis, speeds)
        axis.set_title(place_title(place, places))
    present = [cache for cache in CACHES if any(cache in found for one in shown.values() for found in one.values())]
    legend(figure, [Line2D([], [], label=f"{cache} cache", **_LOOK[cache]) for cache in present])
    footnote(figure, lost, _notes(tables, present, places))
    return figure


def _notes(tables: Mapping[str, Any], present: list[str], places: Mapping[Place, Speeds]) -> list[str]:
    notes = limit_note(_MOST_ROWS, max(map(len, places.values())))
    unmatched = [tier for (_, tier), speeds in places.items() if not any("warm" in found for found in speeds.values())]
    if unmatched:
        notes.append(f"Not measured with a warm cache: {', '.join(map(plain, dict.fromkeys(unmatched)))}.")
    share = (tables["dataset"]["measure"] or {}).get("limited_share")
    if "limited" in present and share is not None:
        notes.append(f"Limited: the page cache had room for {100 * share:.0f} % of the data.")
    return notes


def _speeds(rows: list[dict[str, Any]]) -> Speeds:
    """Return the speeds of the loaders that were read from a cache that was not warm, the fastest of them first."""
    found: Speeds = {}
    for row in rows:
        found.setdefault(row["loader"], {})[row["cache"]] = row["clips_per_second"]
    able = {loader: speeds for loader, speeds in found.items() if speeds.keys() - {"warm"}}
    return dict(sorted(able.items(), key=lambda item: (-_coldest(item[1])[1], item[0])))


def _coldest(speeds: Mapping[str, float]) -> tuple[str, float]:
    """Return the state of the cache that asks the most of the storage, and the speed with it."""
    cache = "cold" if "cold" in speeds else "limited"
    return cache, speeds[cache]


def _panel(axis: Axes, speeds: Speeds) -> None:
    for y, found in enumerate(speeds.values()):
        axis.plot([min(found.values()), max(found.values())], [y, y], color=BOUND, linewidth=1.2, zorder=2)
        for cache, speed in found.items():
            axis.plot(speed, y, zorder=3, **_LOOK[cache])
        cache, speed = _coldest(found)
        share = f", {number_text(100 * speed / found['warm'], 2)} % of warm" if "warm" in found else ""
        axis.annotate(f"{cache} {number_text(speed)}{share}", (max(found.values()), y), zorder=5, **LABEL)
    loader_rows(axis, list(speeds))
    number_axis(axis, "clips per second, more is better")
    low, high = axis.get_xlim()  # with room for the words behind the last point
    axis.set_xlim(low, high * (high / low) ** 0.35 if axis.get_xscale() == "log" else high * 1.25)
