"""What the interactive charts are made of, as Vega-Lite: axes, looks, lines of tooltips, whole specifications.

A specification names no address and needs no file. `usermeta.filters` lists what the reader may choose by a menu:
report/template/charts.js makes the menus, draws a chart when it comes into view, and gives it its colours.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scripts.report.charts._common import COLOURS, Rows, Spec, far_apart

SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right")
AXIS = {  # 0.02, 1,400, 20k and 2M; a logarithmic axis leaves some of its labels out, which stay empty
    "format": "~s",
    "labelExpr": "datum.label && format(datum.value, abs(datum.value) < 10000 ? ',~r' : '~s')",
}
BYTES = {
    "format": "~s",
    "labelExpr": "datum.label && replace(format(datum.value, '~s'), regexp('([a-zA-Z]?)$'), ' $1B')",
}


def names_of(rows: Iterable[Mapping[str, Any]], column: str) -> list[Any]:
    """Return the different values of a column, in the order in which they occur."""
    return list(dict.fromkeys(row[column] for row in rows))


def look_of(field: str, names: Sequence[str], numbers: Sequence[int] | None = None) -> dict[str, Spec]:
    """Return the colour and the shape of each name, those of its number where `numbers` has them; with one legend."""
    numbers = range(len(names)) if numbers is None else numbers
    common = {"field": field, "type": "nominal", "title": None, "legend": {"symbolOpacity": 1}}
    return {
        what: common | {"scale": {"domain": list(names), "range": [all[number % len(all)] for number in numbers]}}
        for what, all in (("color", COLOURS), ("shape", SHAPES))
    }


def tier_look(rows: Rows) -> dict[str, Spec]:
    """Return the colour and the shape of each tier in the rows: those that it has in all charts."""
    tiers = sorted({(row["tier_number"], row["tier"]) for row in rows})
    return look_of("tier", [tier for _, tier in tiers], [number for number, _ in tiers])


def scale_of(values: Iterable[float | None]) -> Spec:
    """Return a scale from zero, or by logarithms where the values span too much."""
    return {"type": "log"} if far_apart(values) else {"zero": True}


def number_axis(field: str, title: str, scale: Spec | None = None) -> Spec:
    """Return a number on an axis, which says where it is logarithmic."""
    scale = scale or {}
    text = f"{title} (log scale)" if scale.get("type") == "log" else title
    return {"field": field, "type": "quantitative", "title": text, "scale": scale, "axis": AXIS}


def name_axis(field: str, sort: Any = None) -> Spec:
    """Return names on the y axis: by the least `place` of each, as `sort` says, or as they occur."""
    return {"field": field, "type": "nominal", "title": None, "sort": sort or {"field": "place", "op": "min"}}


def tip(field: str, title: str | None = None, format: str | None = None) -> Spec:
    """Return a line of a tooltip: a number where it has a format, else text."""
    kind = {"type": "quantitative", "format": format} if format else {"type": "nominal"}
    return {"field": field, "title": title or field.capitalize(), **kind}


SETTINGS = tip("settings")
SPEED = tip("clips_per_second", "Clips/s", ",.4~r")


def point(size: int = 110, **more: Any) -> Spec:
    """Return a filled point."""
    return {"type": "point", "filled": True, "size": size, **more}


def pick(field: str) -> Spec:
    """Return the choice that a reader makes by a click in the legend."""
    return {"name": "pick", "select": {"type": "point", "fields": [field]}, "bind": "legend"}


def picked(opacity: float = 1.0) -> Spec:
    """Return an opacity that fades what is not picked."""
    return {"condition": {"param": "pick", "value": opacity}, "value": 0.1}


def chart(rows: Rows, layers: Sequence[Spec], menus: Mapping[str, str] | None = None, **more: Any) -> Spec:
    """Return a whole specification of layers; the reader chooses one value of each field in `menus` (field: title).

    `tracks` is the field whose names have a track each, and a track's height in pixels: it goes into `usermeta`.
    """
    filters = [
        {"field": field, "title": title, "values": names_of(rows, field)} for field, title in (menus or {}).items()
    ]
    tracks = more.pop("tracks", None)
    transform = [{"filter": f"datum.{one['field']} === show_{one['field']}"} for one in filters]
    return {
        "width": "container",
        "data": {"values": rows},
        "params": [{"name": f"show_{one['field']}", "value": one["values"][0]} for one in filters],
        "usermeta": {"filters": filters, "tracks": tracks and {"field": tracks[0], "step": tracks[1]}},
        **more,
        "transform": [*transform, *more.get("transform", ())],
        "layer": [_telling(layer, rows) for layer in layers],
    }


def _telling(layer: Spec, rows: Rows) -> Spec:
    """Return a layer without the lines of its tooltip of which no row knows anything."""
    unknown = {name for row in rows for name in row} - {name for row in rows for name in row if row[name] is not None}
    lines = layer["encoding"].get("tooltip")
    if not lines:
        return layer
    kept = [line for line in lines if line["field"] not in unknown]
    return {**layer, "encoding": {**layer["encoding"], "tooltip": kept}}
