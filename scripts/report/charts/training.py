"""The figure of training: clips/s in a bare loop and by Lightning, a row per loader."""

from collections.abc import Collection, Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from scripts.report.charts._parts import (
    INK,
    PAPER,
    TICK,
    footnote,
    legend,
    limit_note,
    loader_rows,
    nothing,
    number_at,
    number_axis,
    panel_rows,
    result_row,
    tier_handles,
    tier_look,
    tiers_of,
    values_of,
)

TRAINING = ("train", "lightning")  # tasks that this figure shows, and the others do not
_MOST_ROWS = 12  # loaders in a panel


def training(tables: Mapping[str, Any]) -> Figure:
    """Return clips/s in training by loader and tier, bare and by Lightning, at the fastest of the trained settings."""
    lost = [row for row in tables["best"] if row["task"] in TRAINING and row["status"] != "ok"]
    fastest: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in sorted(tables["training"], key=_fastest_training):
        fastest.setdefault((row["device"], row["loader"], row["tier"]), row)
    if not fastest:
        return nothing("No loader has a verified training to draw: task train or lightning in config.yaml.", lost)
    devices = sorted({device for device, _, _ in fastest})
    ordered = {device: list(dict.fromkeys(name for one, name, _ in fastest if one == device)) for device in devices}
    tiers = [tier for tier in tiers_of(tables) if tier in {tier for _, _, tier in fastest}]
    shown = {device: loaders[:_MOST_ROWS] for device, loaders in ordered.items()}
    figure, axes = panel_rows([0.7 + len(shown[device]) * max(0.45, 0.38 * len(tiers)) for device in devices])
    for axis, device in zip(axes, devices, strict=True):
        rows = [row for (one, loader, _), row in fastest.items() if one == device and loader in shown[device]]
        _panel(axis, rows, shown[device], tiers, tables)
        axis.set_title(device.upper() if len(devices) > 1 else "", loc="left")
    legend(figure, [*tier_handles(tiers_of(tables), tiers), *_handles(fastest.values())])
    footnote(figure, lost, limit_note(_MOST_ROWS, max(map(len, ordered.values()))))
    return figure


def _handles(rows: Collection[Mapping[str, Any]]) -> list[Line2D]:
    """Return what stands in the legend for the median and the ways of training that occur."""
    point = {"color": INK, "linestyle": "", "marker": "o", "markersize": 6}
    ways = {"bare": ("bare loop", {}), "lightning": ("Lightning", {"markerfacecolor": PAPER})}
    present = [look for way, look in ways.items() if any(row[f"{way}_clips_per_second"] is not None for row in rows)]
    return [
        Line2D([], [], label="median", **TICK),
        *(Line2D([], [], label=label, **point, **look) for label, look in present),
    ]


def _panel(
    axis: Axes, rows: list[dict[str, Any]], loaders: list[str], tiers: list[str], tables: Mapping[str, Any]
) -> None:
    """Draw a row per loader, within it one per tier and way of training."""
    results = {(row["loader"], row["tier"], row["slug"]): row for row in tables["ranking"] if row["status"] == "ok"}
    values = values_of(tables["runs"], "clips_per_second")
    look, lanes = tier_look(tiers_of(tables)), len(tiers) * len(TRAINING)
    step = 0.76 / lanes
    for row in rows:
        for place, task in enumerate(TRAINING):
            key = (row["loader"], row["tier"], f"{row['slug']}-{task}")
            if key in results:
                lane = tiers.index(row["tier"]) * len(TRAINING) + place
                y = loaders.index(row["loader"]) + (lane - (lanes - 1) / 2) * step
                shape = (step * 0.42, look[row["tier"]], "clips_per_second", task == "lightning")
                end = result_row(axis, results[key], values[key], y, *shape)
                number_at(axis, results[key]["clips_per_second"], end, y)
    loader_rows(axis, loaders)
    number_axis(axis, "clips per second in training, more is better")


def _fastest_training(row: Mapping[str, Any]) -> float:
    return -max(row["bare_clips_per_second"] or 0, row["lightning_clips_per_second"] or 0)
