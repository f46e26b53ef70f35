"""Values of results by loader, a track for each tier: every run as a point, the result, its interval, the bound."""

from collections.abc import Callable, Sequence
from typing import Any

from scripts.common.scenarios import scenario_order
from scripts.decide.panel import key
from scripts.report.charts import _print as paper
from scripts.report.charts._common import (
    DARK,
    INK,
    PAPER,
    TRAINING,
    Axes,
    Figure,
    Row,
    Rows,
    Tables,
    about,
    grouped,
    tiers_of,
)
from scripts.tables.columns import number_text

_MOST_ROWS, _LEAST_ROWS = 48, 10  # loaders: of all panels together, and of one panel at least
WAYS = ("bare loop", "Lightning")  # of training: filled and hollow
_ROW_BOUNDS = ("storage", "compute")  # bounds that differ from row to row


def best_rows(tables: Tables, column: str, best: Callable[..., float], also: Sequence[str] = ()) -> Rows:
    """Return the best results that are no training by scenario, with `repeat` None, each with its runs after it.

    Results without a value are among them where another one of their scenario has some. `best` is min or max.
    """
    results = [row for row in tables["best"] if row["task"] not in TRAINING and row["tier"]]
    results.sort(key=scenario_order)
    tiers = tiers_of(tables)
    found = []
    for group in grouped(results, "scenario").values():
        if any(row[column] is not None for row in group):
            entries = [(row, about(row, tiers) | {"status": row["status"]}) for row in group]
            found += with_runs(tables, entries, column, best, also)
    return found


def with_runs(
    tables: Tables, results: Sequence[tuple[Row, dict[str, Any]]], column: str, best: Callable[..., float],
    also: Sequence[str],
) -> Rows:  # fmt: skip
    """Return a row for each (result, what is common to its rows) with the columns `also`, and one for each run.

    `place` is that of the loader, the best first and those without a value last.
    """
    values: dict[str, list[float]] = {}
    for row, common in results:
        values.setdefault(common["loader"], []).extend([] if row[column] is None else [row[column]])
    sign = -1 if best is max else 1
    order = sorted(values, key=lambda name: (not values[name], sign * best(values[name], default=0), name))
    runs = grouped((run for run in tables["runs"] if run[column] is not None), "loader", "tier", "slug")
    found = []
    for row, common in results:
        common = {**common, "place": order.index(common["loader"])}
        found.append({**common, "repeat": None, column: row[column], **{name: row[name] for name in also}})
        if row[column] is not None:
            found += [{**common, "repeat": run["repeat"], column: run[column]} for run in runs[key(row)]]
    return found


def draw(rows: Rows, column: str, label: str, most: int = _MOST_ROWS, notes: Sequence[str] = ()) -> Figure:
    """Return a panel for each scenario, in it a row per loader, within that a track per tier (and way of training).

    A result of which there are no runs is a point itself. Its `words`, where a row has some, stand behind its number.
    """
    groups = grouped(rows, "scenario")
    most = max(_LEAST_ROWS, most // len(groups))
    shown = {panel: [row for row in found if row["place"] < most] for panel, found in groups.items()}
    tracks = {panel: sorted({_track(row) for row in found}) for panel, found in shown.items()}
    loaders = {panel: _loaders(found) for panel, found in shown.items()}
    heights = [0.7 + len(loaders[panel]) * max(0.3, 0.19 * len(tracks[panel])) for panel in groups]
    figure, axes = paper.scenarios(groups, heights)
    for axis, (panel, found) in zip(axes, shown.items(), strict=True):
        _panel(axis, found, column, tracks[panel])
        _bound_lines(axis, found)
        paper.name_axis(axis, loaders[panel])
        paper.number_axis(axis, label)
        if any("words" in row for row in found):
            paper.room_for_words(axis)
    handles = paper.tier_handles(rows)
    if any(row["repeat"] is not None for row in rows):
        handles.append(paper.handle("result", **paper.TICK))
    if any(row.get("bound") in _ROW_BOUNDS for row in rows):
        handles.append(paper.handle("bound of the row", **paper.TICK | {"markeredgecolor": DARK}))
    point = {"color": INK, "linestyle": "", "marker": "o", "markersize": 6}
    ways = [way for way in WAYS if any(row.get("way") == way for row in rows)]
    handles += [paper.handle(way, **point, **({"markerfacecolor": PAPER} if _hollow(way) else {})) for way in ways]
    paper.legend(figure, handles)
    limit = paper.limit_note(most, max(len(_loaders(found)) for found in groups.values()))
    paper.footnote(figure, [*limit, *notes])
    return figure


def _loaders(rows: Rows) -> list[str]:
    return list(dict.fromkeys(row["loader"] for row in sorted(rows, key=lambda row: row["place"])))


def _hollow(way: str) -> bool:
    return way == WAYS[1]


def _track(row: Row) -> tuple[int, bool]:
    return row["tier_number"], _hollow(row.get("way", ""))


def _panel(axis: Axes, rows: Rows, column: str, tracks: list[tuple[int, bool]]) -> None:
    """Draw each result: its runs, a bar for its interval (or the range), a tick, its number."""
    step = 0.7 / len(tracks)
    largest = max(_bound(row) or row[column] or 0.0 for row in rows)
    runs = grouped((row for row in rows if row["repeat"] is not None), "place", "tier_number", "slug")
    for row in rows:
        if row["repeat"] is not None:
            continue
        y, half = row["place"] + (tracks.index(_track(row)) - (len(tracks) - 1) / 2) * step, step * 0.42
        if row[column] is None:
            words = f"{paper.plain(row['tier'])}: {row['status']}"
            axis.annotate(words, (0.01, y), xycoords=("axes fraction", "data"), va="center", size=8)
            continue
        values = [run[column] for run in runs.get((row["place"], row["tier_number"], row["slug"]), ())]
        ends = values or [row[column]]
        ends = [row["interval_low"], row["interval_high"]] if row.get("interval_low") else [min(ends), max(ends)]
        look = paper.point_look(row["tier_number"])
        fill = {"color": look["color"], "linewidth": 0}
        if _hollow(row.get("way", "")):
            fill = {"facecolor": PAPER, "edgecolor": look["color"], "linewidth": 1.2}
        axis.plot(ends, [y, y], color=INK, linewidth=1, marker="|", markersize=5, zorder=4)
        if values:
            axis.scatter(values, [y] * len(values), s=30, marker=look["marker"], alpha=0.6, zorder=3, **fill)
            axis.plot([row[column]] * 2, [y - half, y + half], color=INK, linewidth=1.4, zorder=4)
        else:
            axis.plot(row[column], y, zorder=5, **look)
        end, bound = max(*values, *ends), _bound(row)
        if bound:
            axis.plot([bound] * 2, [y - half, y + half], color=DARK, linewidth=2.4, zorder=4)
            if end < bound < max(1.3 * end, end + 0.12 * largest):
                end = bound  # which the number would cover
        axis.annotate(f"{number_text(row[column])} {row.get('words', '')}".rstrip(), (end, y), **paper.LABEL)


def _bound(row: Row) -> float | None:
    """Return the bound that is this row's own and no line through the panel."""
    return row["bound_items_per_second"] if row.get("bound") in _ROW_BOUNDS else None


def _bound_lines(axis: Axes, rows: Rows) -> None:
    """Draw the in-memory ceilings of a panel as lines, with their numbers above it."""
    styles = (("dashed", "--"), ("dotted", ":"), ("dash-dotted", "-."))
    bounds = {row["batch_size"]: row["bound_items_per_second"] for row in rows if row.get("bound") == "in_memory"}
    labels = []
    for number, (size, speed) in enumerate(sorted(bounds.items())):
        name, style = styles[number % len(styles)]
        axis.axvline(speed, color=INK, linestyle=style, linewidth=1.2)
        labels.append(f"{name}: the in-memory ceiling for batch {size}, {number_text(speed)} items/s")
    axis.set_title("\n".join(labels), loc="right", fontsize=8, fontweight="normal")
