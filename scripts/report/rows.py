"""The rows behind each chart of the report, which are also its CSV file; from the tables."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from scripts.common.vocabulary import CACHES
from scripts.tables.columns import settings_text

TRAINING = ("train", "lightning")  # tasks with a chart of their own
SPANS = 4_000  # spans that the report holds: of as many runs, the best first, as fit
EPOCHS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000)
WAYS = ("bare loop", "Lightning")  # of training
_KEY = ("loader", "tier", "slug")

Row = Mapping[str, Any]
Rows = list[dict[str, Any]]


def measured(rows: Iterable[Row], column: str = "clips_per_second") -> list[Row]:
    """Return the results with a value in `column` that are no training."""
    return [row for row in rows if row[column] is not None and row["task"] not in TRAINING]


def group(row: Row) -> str:
    """Return the panel and the tier of a result as one name."""
    return f"{row['panel']}, {row['tier']}"


def key(row: Row) -> tuple[Any, ...]:
    """Return what names a result."""
    return tuple(row[column] for column in _KEY)


def _common(row: Row) -> dict[str, Any]:
    return {"panel": row["panel"], "loader": row["loader"], "tier": row["tier"], "settings": settings_text(row)}


def throughput(tables: Mapping[str, Any]) -> Rows:
    """Return the best result of each loader, tier and panel with `repeat` None, and its runs."""
    results = measured(tables["best"])
    places = {(row["panel"], row["loader"]): place for place, row in reversed([*enumerate(results)])}
    rows = []
    for row in results:
        common = _common(row) | {"place": places[row["panel"], row["loader"]]}
        columns = ("interval_low", "interval_high", "bound", "bound_clips_per_second", "percent_of_bound", "runs")
        columns = ("clips_per_second", *columns, "format")
        rows.append({**common, "repeat": None, **{column: row[column] for column in columns}})
        rows += [
            {**common, "repeat": run["repeat"], "clips_per_second": run["clips_per_second"]}
            for run in runs_of(tables, row)
        ]
    return rows


def runs_of(tables: Mapping[str, Any], row: Row, column: str = "clips_per_second") -> list[Row]:
    """Return the runs of a result that have a value in `column`."""
    return [run for run in tables["runs"] if run[column] is not None and key(run) == key(row)]


def first_batch(tables: Mapping[str, Any]) -> Rows:
    """Return the seconds to the first batch of each best result, the quickest loaders first."""
    results = sorted(measured(tables["best"], "first_batch_seconds"), key=lambda row: row["first_batch_seconds"])
    places = {(row["panel"], row["loader"]): place for place, row in reversed([*enumerate(results)])}
    return [
        _common(row) | {"place": places[row["panel"], row["loader"]], "first_batch_seconds": row["first_batch_seconds"]}
        for row in results
    ]


_RANGE = ("interval_low", "interval_high", "lowest", "highest")


def _curve(tables: Mapping[str, Any], x: str, value: str, also: tuple[str, ...] = ()) -> Rows:
    """Return of each loader, tier, panel and value of `x` the fastest result; of lines with two points and more."""
    first: dict[tuple[Any, ...], Row] = {}
    for row in measured(tables["ranking"]):
        if row[x] is not None and row[value] is not None:
            first.setdefault((row["loader"], row["tier"], row["panel"], row[x]), row)
    lines: dict[tuple[Any, ...], list[Row]] = {}
    for line, row in ((place[:3], row) for place, row in first.items()):
        lines.setdefault(line, []).append(row)
    return [
        {**_common(row), "group": group(row), **{column: row[column] for column in (x, value, *also)}}
        for rows in lines.values()
        if len(rows) > 1
        for row in sorted(rows, key=lambda row: row[x])
    ]


def scaling(tables: Mapping[str, Any]) -> Rows:
    """Return clips/s by number of workers; of several settings with as many workers the fastest."""
    return _curve(tables, "workers", "clips_per_second", _RANGE)


def batch_size(tables: Mapping[str, Any]) -> Rows:
    """Return clips/s by batch size; of several settings with the same batch size the fastest."""
    return _curve(tables, "batch_size", "clips_per_second", _RANGE)


def memory(tables: Mapping[str, Any]) -> Rows:
    """Return the peak of PSS in bytes by number of workers, of the fastest settings for each."""
    return _curve(tables, "workers", "pss_peak_bytes", ("pss_per_worker_peak_bytes", "clips_per_second"))


def concurrency(tables: Mapping[str, Any]) -> Rows:
    """Return clips/s by number of workers and batch size, of traversing with a warm cache and without a step.

    Of loaders and tiers with two numbers of workers and two batch sizes and more.
    """
    first: dict[tuple[Any, ...], Row] = {}
    for row in measured(tables["ranking"]):
        if (row["task"], row["cache"]) == ("traverse", "warm") and not row["step_ms"] and row["workers"] is not None:
            place = (row["device"], row["loader"], row["tier"])
            first.setdefault((*place, row["workers"], row["batch_size"]), row)
    grids: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for place in first:
        grids.setdefault(place[:3], []).append(place[3:])
    columns = ("workers", "batch_size", "clips_per_second")
    return [
        {**_common(row), "group": f"{row['loader']}, {group(row)}", **{column: row[column] for column in columns}}
        for place, row in sorted(first.items())
        if all(len(set(numbers)) > 1 for numbers in zip(*grids[place[:3]], strict=True))
    ]


def latency(tables: Mapping[str, Any]) -> Rows:
    """Return the quantiles of the best results' batch times, in ms and percent of the batches."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for one in tables["latencies"]:
        found.setdefault(key(one), []).append(one)
    columns = ("percent", "milliseconds", "batches")
    return [
        {**_common(row), "group": group(row), **{name: one[name] for name in columns}}
        for row in measured(tables["best"])
        for one in found.get(key(row), ())
    ]


def cold(tables: Mapping[str, Any]) -> Rows:
    """Return clips/s by state of the page cache, of loaders and tiers that were measured in two states and more."""
    results = [row for row in measured(tables["best"]) if row["task"] == "traverse" and not row["step_ms"]]
    caches: dict[tuple[Any, ...], list[Row]] = {}
    for row in results:
        caches.setdefault((row["device"], row["loader"], row["tier"]), []).append(row)
    return [
        {
            **_common(row),
            "group": f"{row['device'].upper()}, {row['tier']}",
            "cache": row["cache"],
            "clips_per_second": row["clips_per_second"],
            "of_warm_percent": _share(row, rows),
        }
        for rows in caches.values()
        if len(rows) > 1
        for row in sorted(rows, key=lambda row: list(CACHES).index(row["cache"]))
    ]


def _share(row: Row, rows: Iterable[Row]) -> float | None:
    warm = next((one["clips_per_second"] for one in rows if one["cache"] == "warm"), None)
    return 100 * row["clips_per_second"] / warm if warm else None


def roofline(tables: Mapping[str, Any]) -> Rows:
    """Return clips/s and the bound that applies, of the best results that have one."""
    columns = ("clips_per_second", "bound", "bound_clips_per_second", "percent_of_bound")
    return [
        _common(row) | {column: row[column] for column in columns}
        for row in measured(tables["best"])
        if row["bound_clips_per_second"]
    ]


def training(tables: Mapping[str, Any]) -> Rows:
    """Return clips/s in training by the bare loop and by Lightning, at the fastest of the trained settings."""
    fastest: dict[tuple[str, ...], Row] = {}
    for row in sorted(tables["training"], key=lambda row: -max(_speeds(row).values(), default=0.0)):
        fastest.setdefault((row["device"], row["loader"], row["tier"]), row)
    return [
        {
            **{name: row[name] for name in ("device", "loader", "tier", "slug")},
            **{"place": place, "way": way, "clips_per_second": speed},
        }
        for place, row in enumerate(fastest.values())
        for way, speed in _speeds(row).items()
    ]


def _speeds(row: Row) -> dict[str, float]:
    speeds = (row["bare_clips_per_second"], row["lightning_clips_per_second"])
    return {way: speed for way, speed in zip(WAYS, speeds, strict=True) if speed is not None}


def conversion(tables: Mapping[str, Any]) -> Rows:
    """Return the seconds and bytes that each written format took."""
    rows = [dict(row) for row in tables["formats"] if row["seconds"] is not None and row["bytes"] is not None]
    return sorted(rows, key=lambda row: (row["seconds"], row["format"]))


def sizes(tables: Mapping[str, Any]) -> Rows:
    """Return the bytes of each format, and what share of the smallest machine's RAM that is, in percent."""
    ram = ram_bytes(tables)
    rows = [row for row in tables["formats"] if row["bytes"] is not None]
    return [
        {
            **{name: row[name] for name in ("format", "bytes", "files", "clips")},
            "ram_bytes": ram,
            "of_ram_percent": 100 * row["bytes"] / ram if ram else None,
        }
        for row in sorted(rows, key=lambda row: (row["bytes"], row["format"]))
    ]


def ram_bytes(tables: Mapping[str, Any]) -> int | None:
    """Return the RAM of the smallest machine that took part, None where it is not known."""
    found = (one["host"].get("memory_bytes") for one in tables["host"]["hosts"])
    return min((value for value in found if value), default=None)


def ladder(tables: Mapping[str, Any]) -> Rows:
    """Return the rungs with the clips/s of the last rung below that has a speed, and what is told of the gain."""
    rows, before = [], None
    for rung in tables["ladder"]:
        row = {**rung, "before": before, "rung": f"{rung['step']}. {rung['change']}", "told": _told(rung)}
        rows.append(row)
        before = rung["clips_per_second"] or before
    return rows


def _told(rung: Row) -> str:
    if rung["clips_per_second"] is None:
        return "no speed"
    low, high = rung["faster_low"], rung["faster_high"]
    if rung["times_faster"] is None:
        return "first"
    if low is None or high is None or low <= 1 <= high:
        return "not told apart"
    return "faster" if low > 1 else "slower"


def timeline(tables: Mapping[str, Any]) -> Rows:
    """Return the spans of results, the best first; each one's whole, at most SPANS.

    `within` marks what the main process does while it waits for a batch; those spans come after the waiting.
    """
    spans: dict[tuple[Any, ...], list[Row]] = {}
    for span in tables["spans"]:
        spans.setdefault(key(span), []).append(span)
    results = {key(row): row for row in (*tables["best"], *tables["ranking"]) if key(row) in spans}
    rows: Rows = []
    for result, run in _names(results).items():
        if len(rows) + len(spans[result]) > SPANS:
            break
        rows += [
            {
                "run": run,
                "lane_number": _lane_number(span["lane"]),
                **{name: span[name] for name in ("lane", "batch", "phase", "start_ms", "end_ms")},
                "milliseconds": span["end_ms"] - span["start_ms"],
                "within": _within(span),
            }
            for span in sorted(spans[result], key=_within)
        ]
    return rows


def _names(results: Mapping[tuple[Any, ...], Row]) -> dict[tuple[Any, ...], str]:
    """Return what each result is called: its settings in words, or its slug where others are called so too."""
    several = len({row["panel"] for row in results.values()}) > 1
    names = {
        result: ", ".join([*result[:2], *([row["panel"]] if several else []), settings_text(row)])
        for result, row in results.items()
    }
    counts = Counter(names.values())
    return {result: name if counts[name] == 1 else ", ".join(result) for result, name in names.items()}


def _within(span: Mapping[str, Any]) -> bool:
    return span["lane"] == "main" and span["phase"] not in ("wait", "step")


def _lane_number(lane: str) -> int:
    number = lane.rpartition(" ")[2]
    return 1 + int(number) if number.isdecimal() else 0


def break_even(tables: Mapping[str, Any]) -> Rows:
    """Return the seconds that conversion and a number of epochs take together, by device, tier and format."""
    return [
        {
            "group": f"{row['device'].upper()}, {row['tier']}",
            **{name: row[name] for name in ("format", "loader", "prepare_seconds", "epoch_seconds")},
            "epochs": epochs,
            "seconds": row["prepare_seconds"] + epochs * row["epoch_seconds"],
        }
        for row in tables["break_even"]
        if row["prepare_seconds"] is not None and row["epoch_seconds"] is not None
        for epochs in EPOCHS
    ]
