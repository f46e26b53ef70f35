"""The report's interactive charts: a Vega-Lite specification with its data for each, see `CHARTS`, at the end.

A specification names no address and needs no file. `usermeta.filters` lists what the reader may choose by a menu:
report/template/charts.js makes the menus, draws a chart when it comes into view, and gives it its colours.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scripts.common.vocabulary import CACHES
from scripts.report import rows as chart_rows
from scripts.report.charts._parts import tiers_of
from scripts.report.charts.break_even import time_unit
from scripts.report.charts.timeline import LOOK
from scripts.report.marks import (
    AXIS,
    BYTES,
    COLOURS,
    DARK,
    SETTINGS,
    Spec,
    bars,
    chart,
    curves,
    dots,
    filters,
    look_of,
    names_of,
    number_axis,
    pick,
    picked,
    scale_of,
    tip,
)
from scripts.report.rows import Rows


def throughput(rows: Rows, tiers: Sequence[str]) -> Spec:
    """Return clips/s: every run, the median with its interval, the bound."""
    return dots(rows, tiers, "clips_per_second", "Clips per second")


def first_batch(rows: Rows, tiers: Sequence[str]) -> Spec:
    """Return the seconds to the first batch."""
    return dots(rows, tiers, "first_batch_seconds", "Seconds to the first batch")


def scaling(rows: Rows) -> Spec:
    """Return clips/s against workers, with the range of the runs."""
    return curves(rows, _workers(rows), number_axis("clips_per_second", "Clips per second"), tips=SETTINGS)


def batch_size(rows: Rows) -> Spec:
    """Return clips/s against batch size, on a scale where each doubling takes the same room."""
    x = {"field": "batch_size", "type": "quantitative", "title": "Batch size", "scale": {"type": "log", "base": 2}}
    x["axis"] = {"values": sorted({row["batch_size"] for row in rows})}
    return curves(rows, x, number_axis("clips_per_second", "Clips per second"), tips=SETTINGS)


def memory(rows: Rows) -> Spec:
    """Return the peak of PSS against workers."""
    y = {**number_axis("pss_peak_bytes", "Memory, peak of PSS"), "axis": BYTES}
    tips = [tip("pss_per_worker_peak_bytes", "Largest worker, bytes", ".3~s"), *SETTINGS]
    return curves(rows, _workers(rows), y, tips=tips)


def concurrency(rows: Rows) -> Spec:
    """Return clips/s by workers and batch size as a heat map of one loader and tier."""
    place = {
        "x": {"field": "workers", "type": "ordinal", "title": "Workers", "axis": {"labelAngle": 0}},
        "y": {"field": "batch_size", "type": "ordinal", "title": "Batch size", "sort": "descending"},
    }
    speed = {"field": "clips_per_second", "type": "quantitative", "title": "Clips/s"}
    tooltip = [tip("workers"), tip("batch_size", "Batch size"), tip("clips_per_second", "Clips/s", ",.4~r")]
    speed |= {"scale": {"scheme": "cividis"}, "legend": AXIS}
    cell = {"mark": "rect", "encoding": {**place, "color": speed}}
    text = {**place, "text": {"field": "label", "type": "nominal"}}
    # cividis runs from dark to light
    middle = "datum.clips_per_second < (domain('color')[0] + domain('color')[1]) / 2"
    text["color"] = {"condition": {"test": middle, "value": "#ffffff"}, "value": "#000000"}
    cell["encoding"]["tooltip"] = text["tooltip"] = [*tooltip, *SETTINGS]
    body = {"layer": [cell, {"mark": "text", "encoding": text}], "lanes": {"field": "batch_size", "step": 36}}
    spec = chart(rows, body, ("group",))
    digits = "datum.clips_per_second < 10000 ? ',.3~r' : '.3~s'"
    spec["transform"].append({"calculate": f"format(datum.clips_per_second, {digits})", "as": "label"})
    return spec


def latency(rows: Rows) -> Spec:
    """Return the share of batches that came within a time, on a logarithmic axis of milliseconds."""
    rows = [row for row in rows if row["milliseconds"] > 0]
    x = number_axis("milliseconds", "Milliseconds from one batch to the next", {"type": "log"})
    y = number_axis("percent", "Batches that came by then, %")
    marks = [
        {"mark": {"type": "rule", "strokeDash": [4, 4], "color": DARK}, "encoding": {"y": {"datum": percent}}}
        for percent in (50, 99)
    ]
    return curves(rows, x, y, tips=[tip("batches", "Batches"), *SETTINGS], marks=marks)


def cold(rows: Rows) -> Spec:
    """Return clips/s by state of the cache, a line from the slowest to the fastest of each loader."""
    y = {"field": "loader", "type": "nominal", "title": None}
    y["sort"] = {"field": "clips_per_second", "op": "max", "order": "descending"}
    scale = scale_of(row["clips_per_second"] for row in rows)
    look = look_of("cache", [cache for cache in CACHES if any(row["cache"] == cache for row in rows)])
    tips = [tip("loader"), tip("cache", "Cache"), tip("clips_per_second", "Clips/s", ",.4~r")]
    tips += [tip("of_warm_percent", "% of warm", ".3~r"), *SETTINGS]
    ends = [{"op": op, "field": "clips_per_second", "as": f"{op}_speed"} for op in ("min", "max")]
    x = number_axis("clips_per_second", "Clips per second", scale)
    range_ = {"x": {**x, "field": "min_speed"}, "x2": {"field": "max_speed"}, "y": y}
    layers = [
        {"mark": {"type": "rule", "color": DARK}, "encoding": range_},
        {
            "params": [pick("cache")],
            "mark": {"type": "point", "filled": True, "size": 110},
            "encoding": {"x": x, "y": y, **look, "opacity": picked(), "tooltip": tips},
        },
    ]
    spec = chart(rows, {"layer": layers, "lanes": {"field": "loader", "step": 26}}, ("group",))
    spec["transform"].append({"joinaggregate": ends, "groupby": ["loader"]})
    return spec


def roofline(rows: Rows, tiers: Sequence[str]) -> Spec:
    """Return clips/s against the bound that applies; what lies on the line cannot be faster."""
    ends = [op(row[name] for row in rows for name in ("bound_clips_per_second", "clips_per_second"))
            for op in (min, max)]  # fmt: skip
    scale = {"type": "log", "domain": [ends[0] / 1.5, ends[1] * 1.5]}
    x = number_axis("bound_clips_per_second", "Bound, clips per second", scale)
    y = number_axis("clips_per_second", "Clips per second", scale)
    look = look_of("bound", names_of(rows, "bound"))
    look["shape"] = look_of("tier", tiers, rows)["shape"]
    line = {
        "data": {"values": [dict.fromkeys(("bound_clips_per_second", "clips_per_second"), end) for end in ends]},
        "mark": {"type": "line", "color": DARK, "strokeDash": [6, 4]},
        "encoding": {"x": x, "y": y},
    }
    tips = [tip("loader"), tip("tier"), tip("panel", "Condition"), tip("clips_per_second", "Clips/s", ",.4~r")]
    tips += [tip("bound", "Bound"), tip("bound_clips_per_second", "Bound, clips/s", ",.4~r")]
    points = {
        "params": [pick("bound")],
        "transform": filters(("tier",)),
        "mark": {"type": "point", "filled": True, "size": 110},
        "encoding": {"x": x, "y": y, **look, "opacity": picked(), "tooltip": [*tips, *SETTINGS]},
    }
    points["encoding"]["tooltip"].insert(4, tip("percent_of_bound", "% of the bound", ".3~r"))
    spec = chart(rows, {"layer": [line, points], "height": 380}, ("tier",), every=True)
    del spec["transform"]  # which would take the line away too
    return spec


def training(rows: Rows, tiers: Sequence[str]) -> Spec:
    """Return clips/s in training: the bare loop as filled points and Lightning as hollow ones."""
    look = look_of("tier", tiers, rows)
    tiers = [tier for tier in tiers if tier in names_of(rows, "tier")]
    ways = list(chart_rows.WAYS)
    filled = {"field": "way", "type": "ordinal", "scale": {"domain": ways, "range": [1, 0]}}
    legend = {"values": [way for way in ways if way in names_of(rows, "way")], "symbolType": "circle"}
    legend |= {"symbolFillColor": DARK, "symbolStrokeColor": DARK, "symbolStrokeWidth": 2}
    inside = f"datum.value === '{ways[1]}' ? 0 : 1"
    legend["encoding"] = {"symbols": {"fillOpacity": {"value": {"expr": inside}}}}
    # Vega-Lite has no legend for the opacity of the inside: this one is of dashes that are none
    dash = {"field": "way", "type": "nominal", "title": None, "legend": legend}
    dash["scale"] = {"domain": ways, "range": [[1, 0], [1, 0]]}
    scale = scale_of(row["clips_per_second"] for row in rows)
    y = {"field": "loader", "type": "nominal", "title": None, "sort": {"field": "place", "op": "min"}}
    look = {"fill": look["color"], "stroke": look["color"], "shape": look["shape"], "fillOpacity": filled}
    look["strokeDash"] = dash
    tips = [tip("loader"), tip("tier"), tip("way", "Loop"), tip("clips_per_second", "Clips/s", ",.4~r")]
    encoding = {"x": number_axis("clips_per_second", "Clips per second in training", scale), "y": y, **look}
    encoding |= {"yOffset": {"field": "tier", "type": "nominal", "scale": {"domain": tiers}}}
    encoding |= {"opacity": picked(), "tooltip": [*tips, tip("slug", "Settings")]}
    point = {"type": "point", "filled": True, "size": 100, "strokeWidth": 2}
    layer = {"params": [pick("tier")], "mark": point, "encoding": encoding}
    lanes = {"field": "loader", "step": 16 + 12 * len(tiers)}
    return chart(rows, {"layer": [layer], "lanes": lanes}, ("device",))


def conversion(rows: Rows) -> Spec:
    """Return the seconds that writing each format took."""
    tips = [tip("seconds", "Seconds", ",.3~r"), tip("bytes", "Bytes", ".3~s"), tip("files", "Files", ",")]
    return bars(rows, "seconds", "format", "Seconds to write all clips", tips)


def sizes(rows: Rows) -> Spec:
    """Return the bytes of each format and their share of the RAM, and the RAM of the machine as a line."""
    ends = [row[name] for row in rows for name in ("bytes", "ram_bytes") if row[name]]
    scale = scale_of(ends)
    if scale.get("type") == "log":
        scale |= {"domainMin": min(ends) / 2, "domainMax": max(ends) * 3}
    else:
        scale["domainMax"] = max(ends, default=1) * 1.25
    y = {"field": "format", "type": "nominal", "title": None, "sort": None}
    x = number_axis("bytes", "Size; dashed: the machine's RAM", scale) | {"axis": BYTES}
    tips = [tip("bytes", "Bytes", ".3~s"), tip("of_ram_percent", "% of RAM", ".3~r"), tip("clips", "Clips", ",")]
    ram = {
        "transform": [{"aggregate": [{"op": "min", "field": "ram_bytes", "as": "ram"}]}, {"filter": "datum.ram > 0"}],
        "mark": {"type": "rule", "strokeWidth": 2, "strokeDash": [6, 4], "color": COLOURS[3]},
        "encoding": {
            "x": {**x, "field": "ram"},
            "tooltip": [tip("ram", "RAM of the machine, bytes", ".3~s")],
        },
    }
    point = {
        "mark": {"type": "point", "filled": True, "size": 110, "color": COLOURS[0], "opacity": 1},
        "encoding": {"x": x, "y": y, "tooltip": [tip("format"), *tips]},
    }
    label = {
        "transform": [
            {"filter": "isValid(datum.of_ram_percent)"},
            {"calculate": "format(datum.of_ram_percent, ',.2~r') + ' % of RAM'", "as": "label"},
        ],
        "mark": {"type": "text", "align": "left", "dx": 9},
        "encoding": {"x": x, "y": y, "text": {"field": "label", "type": "nominal"}},
    }
    return chart(rows, {"layer": [ram, point, label], "lanes": {"field": "format", "step": 26}})


def ladder(rows: Rows) -> Spec:
    """Return a waterfall: from the clips/s of the rung below to those of each rung."""
    scale = scale_of(row["clips_per_second"] for row in rows)
    most = max(row["clips_per_second"] or 0 for row in rows)
    scale["domainMax"] = most * (4 if scale.get("type") == "log" else 1.25)  # room for the labels
    start = min(row["clips_per_second"] for row in rows if row["clips_per_second"]) / 2
    floor = start if scale.get("type") == "log" else 0
    names = ["first", "faster", "slower", "not told apart"]
    colour = {"field": "told", "type": "nominal", "title": None}
    colour["scale"] = {"domain": names, "range": [DARK, COLOURS[0], COLOURS[3], COLOURS[1]]}
    y = {"field": "rung", "type": "nominal", "title": None, "sort": {"field": "step", "op": "min"}}
    tips = [tip("rung", "Rung"), tip("loader"), tip("tier"), tip("slug", "Settings"), tip("told", "Against below")]
    tips += [tip("clips_per_second", "Clips/s", ",.4~r"), tip("times_faster", "Times the rung below", ".3~r")]
    tips += [tip("faster_low", "From", ".3~r"), tip("faster_high", "To", ".3~r")]
    tips += [tip("times_faster_than_first", "Times the first", ".3~r")]
    bar = {
        "transform": [{"filter": "isValid(datum.clips_per_second)"}],
        "mark": {"type": "bar", "minBandSize": 8},
        "encoding": {"x": number_axis("from", "Clips per second", scale), "x2": {"field": "clips_per_second"}, "y": y}
        | {"color": colour, "tooltip": tips},
    }
    label = {
        "transform": [{"filter": "isValid(datum.times_faster)"}],
        "mark": {"type": "text", "align": "left", "dx": 5},
        "encoding": {"x": number_axis("right", "Clips per second", scale), "y": y}
        | {"text": {"field": "label", "type": "nominal"}, "tooltip": tips},
    }
    spec = chart(rows, {"layer": [bar, label], "lanes": {"field": "rung", "step": 30}})
    spec["transform"] = [
        {"calculate": f"isValid(datum.before) ? datum.before : {floor!r}", "as": "from"},
        {"calculate": "max(datum.from, datum.clips_per_second)", "as": "right"},
        {"calculate": "format(datum.times_faster, '.3~r') + ' times'", "as": "label"},
    ]
    return spec


def timeline(rows: Rows) -> Spec:
    """Return the spans of one run: a lane per process, a colour per phase, that of the figure."""
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row["run"], set()).add(row["phase"])
    occurring = {run: [phase for phase in LOOK if phase in phases] for run, phases in found.items()}
    colour = {"field": "phase", "type": "nominal", "title": None}
    colour["scale"] = {"domain": list(LOOK), "range": [look[0] for look in LOOK.values()]}
    colour["legend"] = {"symbolOpacity": 1, "values": {"expr": f"({json.dumps(occurring)})[show_run]"}}
    y = {"field": "lane", "type": "nominal", "title": None, "sort": {"field": "lane_number", "op": "min"}}
    y["axis"] = {"grid": True, "bandPosition": 0.5}
    tips = [tip("lane", "Process"), tip("phase", "Phase"), tip("batch", "Batch")]
    tips += [tip("milliseconds", "Milliseconds", ",.3~r"), tip("start_ms", "From", ",.4~r")]
    tips += [tip("end_ms", "To", ",.4~r")]
    encoding = {
        "x": number_axis("start_ms", "Milliseconds since the epoch was asked for", {}),
        "x2": {"field": "end_ms"},
        "y": y,
        "color": colour,
        "opacity": picked(),
        "tooltip": tips,
    }
    # what the main process does while it waits lies within its bar of waiting
    encoding["size"] = {"condition": {"test": "datum.within", "value": 9}, "value": 21}
    bars_of_time = {"params": [pick("phase")], "mark": {"type": "bar", "cornerRadius": 2}, "encoding": encoding}
    return chart(rows, {"layer": [bars_of_time], "lanes": {"field": "lane", "step": 38}}, ("run",))


def break_even(rows: Rows) -> Spec:
    """Return the time for conversion and epochs against epochs; where two lines cross a format has paid."""
    unit, seconds = time_unit(rows)
    x = number_axis("epochs", "Epochs", {"type": "log"})
    y = number_axis("together", f"{unit.capitalize()}, conversion included", {"type": "log"})
    tips = [tip("loader"), tip("prepare_seconds", "Seconds to convert", ",.3~r")]
    spec = curves(rows, x, y, "format", [*tips, tip("epoch_seconds", "Seconds an epoch", ",.3~r")])
    spec["transform"].append({"calculate": f"datum.seconds / {seconds}", "as": "together"})
    return spec


def _workers(rows: Rows) -> Spec:
    axis = {"values": sorted({row["workers"] for row in rows}), "format": "d"}
    return {"field": "workers", "type": "quantitative", "title": "Workers", "axis": axis}


CHARTS: dict[str, Callable[..., Spec]] = {
    "throughput": throughput,
    "scaling": scaling,
    "batch_size": batch_size,
    "concurrency": concurrency,
    "latency": latency,
    "first_batch": first_batch,
    "cold": cold,
    "roofline": roofline,
    "memory": memory,
    "ladder": ladder,
    "timeline": timeline,
    "training": training,
    "conversion": conversion,
    "break_even": break_even,
    "sizes": sizes,
}


BY_TIER = ("throughput", "first_batch", "roofline", "training")  # those with a look for each tier


def charts(tables: Mapping[str, Any]) -> dict[str, tuple[Spec, Rows]]:
    """Return (specification, rows) of each chart by name; those without anything to draw are not there."""
    found, tiers = {}, tiers_of(tables)
    for name, specification in CHARTS.items():
        rows = getattr(chart_rows, name)(tables)
        if name == "ladder" and not any(row["clips_per_second"] for row in rows):
            continue
        if rows:
            found[name] = (specification(rows, tiers) if name in BY_TIER else specification(rows), rows)
    return found


def embedded(value: Any) -> str:
    """Return `value` as JSON that may stand in a script element: no text in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
