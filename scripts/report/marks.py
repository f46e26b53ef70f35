"""What the report's charts are built of, as Vega-Lite: marks, axes, looks, lines of tooltips, whole specifications."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scripts.report.rows import Rows

# seaborn's palette "colorblind", which the static figures have too
COLOURS = ("#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc", "#ca9161", "#fbafe4", "#949494", "#ece133", "#56b4e9")
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right")
DARK = "#6e7781"  # legible on light and on dark paper
AXIS = {  # 0.02, 1,400, 20k and 2M; a logarithmic axis leaves some of its labels out, which stay empty
    "format": "~s",
    "labelExpr": "datum.label && format(datum.value, abs(datum.value) < 10000 ? ',~r' : '~s')",
}
BYTES = {
    "format": "~s",
    "labelExpr": "datum.label && replace(format(datum.value, '~s'), regexp('([a-zA-Z]?)$'), ' $1B')",
}
LOG_FROM = 100  # a linear axis shows no difference among values this many times smaller than its end


Spec = dict[str, Any]


def dots(rows: Rows, tiers: Sequence[str], x: str, title: str) -> Spec:
    """Return values by loader, a colour and a shape per tier: results, and, where there are some, runs and bounds."""
    look = look_of("tier", tiers, rows)
    tiers = [tier for tier in tiers if tier in names_of(rows, "tier")]
    scale = scale_of(row[x] for row in rows)
    lanes = {"yOffset": {"field": "tier", "type": "nominal", "scale": {"domain": tiers}}} if len(tiers) > 1 else {}
    y = {"field": "loader", "type": "nominal", "title": None, "sort": {"field": "place", "op": "min"}}
    base = {"x": number_axis(x, title, scale), "y": y, **lanes}
    result = {"filter": "!isValid(datum.repeat)"}
    layers: list[Spec] = []
    told = [tip("loader"), tip("tier"), tip(x, title, ",.4~r"), tip("settings")]
    if any("repeat" in row for row in rows):
        layers.append(
            {
                "transform": [{"filter": "isValid(datum.repeat)"}],
                "mark": {"type": "point", "filled": True, "size": 30},
                "encoding": {**base, **look, "opacity": picked(0.45), "tooltip": [*told, tip("repeat", "Run")]},
            }
        )
        layers += _intervals_and_bounds(rows, base, look["color"], {"title": title, "scale": scale})
        told += [tip("percent_of_bound", "% of the bound", ".3~r"), tip("bound", "Bound"), tip("format")]
        told += [tip("interval_low", "Interval from", ",.4~r"), tip("interval_high", "Interval to", ",.4~r")]
        told += [tip("runs", "Runs")]
    layers.append(
        {
            "params": [pick("tier")],
            "transform": [result],
            "mark": {"type": "point", "filled": True, "size": 110},
            "encoding": {**base, **look, "opacity": picked(), "tooltip": told},
        }
    )
    return chart(rows, {"layer": layers, "lanes": {"field": "loader", "step": 16 + 12 * len(tiers)}}, ("panel",))


def _intervals_and_bounds(rows: Rows, base: Spec, colour: Spec, axis: Mapping[str, Any]) -> list[Spec]:
    """Return the layers of the results' intervals and bounds, as far as there are any."""
    interval = {
        "transform": [{"filter": "isValid(datum.interval_low)"}],
        "mark": {"type": "rule", "strokeWidth": 2},
        "encoding": {**base, "x": number_axis("interval_low", **axis), "x2": {"field": "interval_high"}}
        | {"color": colour, "opacity": picked()},
    }
    bound = {
        "transform": [{"filter": "isValid(datum.bound_clips_per_second)"}],
        "mark": {"type": "tick", "thickness": 3, "size": 12, "color": DARK},
        "encoding": {**base, "x": number_axis("bound_clips_per_second", **axis)}
        | {"tooltip": [tip("loader"), tip("tier"), *_BOUND]},
    }
    layers = {"interval_low": interval, "bound_clips_per_second": bound}
    return [layer for name, layer in layers.items() if any(row.get(name) for row in rows)]


def curves(
    rows: Rows, x: Spec, y: Spec, by: str = "loader", tips: Sequence[Spec] = (), marks: Sequence[Spec] = ()
) -> Spec:
    """Return a line with points for each loader (or format), of one group at a time; `marks` are drawn below.

    Where rows have them there are bars from `lowest` to `highest`.
    """
    look = look_of(by, names_of(rows, by))
    tooltip = [tip(by), *(tip(axis["field"], axis["title"], ",.4~r") for axis in (x, y)), *tips]
    encoding = {"x": x, "y": y, "color": look["color"], "opacity": picked()}
    ends = {"y": {**y, "field": "lowest"}, "y2": {"field": "highest"}}
    ranges = [{"mark": {"type": "rule", "strokeWidth": 1.5}, "encoding": {**encoding, **ends}}]
    layers = [
        *marks,
        *(ranges if any(row.get("lowest") for row in rows) else []),
        {"params": [pick(by)], "mark": {"type": "line", "strokeWidth": 2}, "encoding": encoding},
        {
            "mark": {"type": "point", "filled": True, "size": 90},
            "encoding": {**encoding, **look, "tooltip": tooltip},
        },
    ]
    return chart(rows, {"layer": layers, "height": 340}, ("group",))


def bars(rows: Rows, x: str, y: str, title: str, tips: Sequence[Spec], above: Sequence[Spec] = ()) -> Spec:
    """Return a bar for each row, in the order of the rows; `above` are layers drawn over them."""
    axis = {"field": y, "type": "nominal", "title": None, "sort": None}
    bar = {
        "mark": {"type": "bar", "color": COLOURS[0]},
        "encoding": {"x": number_axis(x, title, {"zero": True}), "y": axis, "tooltip": [tip(y), *tips]},
    }
    return chart(rows, {"layer": [bar, *above], "lanes": {"field": y, "step": 26}})


def names_of(rows: Iterable[Mapping[str, Any]], column: str) -> list[str]:
    """Return the different values of a column, in the order in which they occur."""
    return list(dict.fromkeys(row[column] for row in rows))


def look_of(field: str, names: Sequence[str], rows: Rows | None = None) -> dict[str, Spec]:
    """Return the colour and the shape of each name; with the legend of both, which has those in `rows` alone."""
    colours = [COLOURS[number % len(COLOURS)] for number in range(len(names))]
    shapes = [SHAPES[number % len(SHAPES)] for number in range(len(names))]
    common = {"field": field, "type": "nominal", "title": None, "legend": {"symbolOpacity": 1}}
    if rows is not None:
        common["legend"]["values"] = [name for name in names if name in names_of(rows, field)]
    return {
        "color": common | {"scale": {"domain": list(names), "range": colours}},
        "shape": common | {"scale": {"domain": list(names), "range": shapes}},
    }


def scale_of(values: Iterable[float | None]) -> Spec:
    """Return a scale from zero, or by logarithms where the values span too much."""
    found = [value for value in values if value]
    return {"type": "log"} if found and max(found) > LOG_FROM * min(found) else {"zero": True}


def number_axis(field: str, title: str, scale: Spec | None = None) -> Spec:
    """Return a number on an axis, which says where it is logarithmic."""
    scale = scale or {}
    text = f"{title} (log scale)" if scale.get("type") == "log" else title
    return {"field": field, "type": "quantitative", "title": text, "scale": scale, "axis": AXIS}


def tip(field: str, title: str | None = None, format: str | None = None) -> Spec:
    """Return a line of a tooltip: a number where it has a format, else text."""
    kind = {"type": "quantitative", "format": format} if format else {"type": "nominal"}
    return {"field": field, "title": title or field.capitalize(), **kind}


SETTINGS = (tip("settings"),)
_BOUND = (tip("bound", "Bound"), tip("bound_clips_per_second", "Bound, clips/s", ",.4~r"))


def pick(field: str) -> Spec:
    """Return the choice that a reader makes by a click in the legend."""
    return {"name": "pick", "select": {"type": "point", "fields": [field]}, "bind": "legend"}


def picked(opacity: float = 1.0) -> Spec:
    """Return an opacity that fades what is not picked."""
    return {"condition": {"param": "pick", "value": opacity}, "value": 0.1}


def filters(fields: Iterable[str]) -> list[Spec]:
    """Return the filters that leave the rows which the reader chose by menus."""
    return [{"filter": f"show_{field} === '' || datum.{field} === show_{field}"} for field in fields]


def chart(rows: Rows, body: Spec, fields: Sequence[str] = (), every: bool = False) -> Spec:
    """Return a whole specification; the reader chooses one value of each of `fields`, or, with `every`, all.

    `lanes` of the body goes into `usermeta`: the field whose names have a lane each, and a lane's height in pixels.
    """
    menus = [{"field": field, "values": names_of(rows, field), "every": every} for field in fields]
    first = {menu["field"]: "" if every else menu["values"][0] for menu in menus}
    return {
        "width": "container",
        "data": {"values": rows},
        "params": [{"name": f"show_{field}", "value": value} for field, value in first.items()],
        "transform": filters(fields),
        "usermeta": {"filters": menus, "lanes": body.pop("lanes", None)},
        **body,
        "layer": [_telling(layer, rows) for layer in body["layer"]],
    }


def _telling(layer: Spec, rows: Rows) -> Spec:
    """Return a layer without the lines of its tooltip of which no row knows anything."""
    unknown = {name for row in rows for name in row} - {name for row in rows for name in row if row[name] is not None}
    lines = layer["encoding"].get("tooltip")
    if not lines:
        return layer
    kept = [line for line in lines if line["field"] not in unknown]
    return {**layer, "encoding": {**layer["encoding"], "tooltip": kept}}
