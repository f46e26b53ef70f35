"""The tables between measuring and reporting: their columns, how they are written and read, how a cell is shown."""

import csv
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scripts.common.errors import UserError
from scripts.common.files import read_json

SETTINGS = ("device", "batch_size", "workers", "prefetch", "pin_memory")  # every other setting goes into `options`
RESOURCES = ("cpu_seconds_per_1000_clips", "read_bytes", "minor_faults", "major_faults")  # of a run, by its record
MEMORY = ("pss_peak_bytes", "pss_per_worker_peak_bytes", "threads_peak", "open_files_peak")  # of a run, by its record
CONDITIONS = ("task", "cache", "step_ms")
CACHES = ("warm", "cold", "limited")
TASKS = {"traverse": "traversing", "loop": "plain loop", "train": "training", "lightning": "training by Lightning"}
EMULATED = " (emulated)"  # ends the name of a tier whose reads are slowed down to those of other storage
_RESULT = ("loader", "tier", "format", *CONDITIONS, *SETTINGS, "options", "slug")
_RANKING = (
    "rank", *_RESULT, "runs", "failed", "clips_per_second", "lowest", "highest", "interval_low", "interval_high",
    "bound", "bound_clips_per_second", "percent_of_bound", "times_slower_than_best", "slower_low", "slower_high",
    "au_percent", "shortest_step_ms", "step_limit_ms", "bottleneck", "bottleneck_percent", "evidence",
    "outliers", "disturbed", "first_batch_seconds", "cpu_seconds_per_1000_clips", *MEMORY, "status", "reason",
    "warnings", "about",
)  # fmt: skip
COLUMNS = {
    "runs": (
        *_RESULT, "repeat", "status", "reason", "clips_per_second", "construct_seconds", "first_batch_seconds",
        "verify_seconds", "epoch_gap_seconds", "epochs", "clips", "megabytes_per_second", "epochs_seconds",
        "au_percent", "validation_seconds", "last_loss", "shortest_step_ms", "step_limit_ms", *RESOURCES, *MEMORY,
        "gpu_utilisation_mean_percent", "gpu_memory_peak_bytes", "warnings", "disturbed", "started",
    ),
    "ranking": _RANKING,
    "best": _RANKING,
    "formats": ("format", "seconds", "bytes", "files", "clips", "clips_per_second"),
    "tiers": (
        "tier", "path", "kind", "filesystem", "device", "model", "rotational", "scheduler",
        "sequential_megabytes_per_second", "random_clips_per_second", "random_latency_ms", "warnings", "reason",
    ),
    "bounds": (
        "bound", "device", "batch_size", "tier", "formats", "readers", "loader", "slug", "runs", "clips_per_second",
        "lowest", "highest",
    ),
    "moves": (
        "move", "way", "device", "clips", "runs", "clips_per_second", "lowest", "highest", "megabytes_per_second",
        "times_slower", "status", "reason",
    ),
    "training": (
        "loader", "tier", "slug", "device", "batch_size", "bare_clips_per_second", "lightning_clips_per_second",
        "lightning_cost_percent", "cost_low", "cost_high", "bare_au_percent", "lightning_au_percent", "bare_runs",
        "lightning_runs",
    ),
    "seconds": (
        "loader", "tier", "slug", "epochs", "traverse_runs", "traverse_mean_seconds", "traverse_deviation_seconds",
        "train_runs", "train_mean_seconds", "train_deviation_seconds",
    ),
    "parts": ("loader", "tier", "slug", "part", "percent", "clips_per_second_without"),
    "ladder": (
        "step", "change", "loader", "tier", "slug", "runs", "clips_per_second", "interval_low", "interval_high",
        "times_faster", "faster_low", "faster_high", "times_faster_than_first", "status", "reason",
    ),
    "latencies": ("loader", "tier", "slug", "batches", "percent", "milliseconds"),
    "spans": ("loader", "tier", "slug", "lane", "batch", "phase", "start_ms", "end_ms"),
    "break_even": (
        "device", "tier", "format", "loader", "slug", "prepare_seconds", "epoch_seconds", "against_format",
        "against_loader", "against_prepare_seconds", "against_epoch_seconds", "break_even_epochs", "reason",
    ),
    "noise": (
        "device", "batch_size", "sentinels", "median_clips_per_second", "variation_percent", "range_percent",
        "drift_percent", "drift_seen", "hours",
    ),
    "skipped": ("loader", "tier", "slug", "repeats", "status", "reason"),
    "warnings": ("loader", "tier", "slug", "repeat", "code", "seen", "cause", "hint"),
}  # fmt: skip
DOCUMENTS = ("dataset", "host")  # JSON files beside the tables
_INTEGERS = {"rank", "batch_size", "workers", "prefetch", "runs", "failed", "repeat", "repeats", "epochs", "clips",
             "warnings", "bytes", "files", "outliers", "disturbed", "sentinels", "read_bytes", "minor_faults",
             "major_faults", "readers", "bare_runs", "lightning_runs", "traverse_runs", "train_runs", "pss_peak_bytes",
             "pss_per_worker_peak_bytes", "threads_peak", "open_files_peak", "gpu_memory_peak_bytes",
             "step", "batches", "batch"}  # fmt: skip
_FLOATS = {
    "clips_per_second", "lowest", "highest", "percent_of_bound", "times_slower_than_best", "first_batch_seconds",
    "construct_seconds", "verify_seconds", "epoch_gap_seconds", "megabytes_per_second", "seconds",
    "cpu_seconds_per_1000_clips",
    "sequential_megabytes_per_second", "random_clips_per_second", "random_latency_ms",
    "interval_low", "interval_high", "slower_low", "slower_high", "median_clips_per_second", "variation_percent",
    "range_percent", "drift_percent", "hours", "step_ms", "bound_clips_per_second", "au_percent", "shortest_step_ms",
    "step_limit_ms", "bottleneck_percent", "epochs_seconds", "validation_seconds", "last_loss", "times_slower",
    "gpu_utilisation_mean_percent", "bare_clips_per_second", "lightning_clips_per_second", "lightning_cost_percent",
    "cost_low", "cost_high", "bare_au_percent", "lightning_au_percent", "traverse_mean_seconds",
    "traverse_deviation_seconds", "train_mean_seconds", "train_deviation_seconds", "percent",
    "clips_per_second_without", "times_faster", "faster_low", "faster_high", "times_faster_than_first", "milliseconds",
    "start_ms", "end_ms", "prepare_seconds", "epoch_seconds", "against_prepare_seconds", "against_epoch_seconds",
    "break_even_epochs",
}  # fmt: skip
_TRUTHS = {"pin_memory", "rotational", "drift_seen", "disturbed"}  # of a run; of a result `disturbed` is a count


def write_table(folder: Path, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write `folder`/`name`.csv with the columns of that table; a row's missing keys and None become blanks."""
    with open(folder / f"{name}.csv", "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS[name])
        for row in rows:
            table.writerow(_written(row.get(column)) for column in COLUMNS[name])


def _written(value: Any) -> Any:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else value


def read_table(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the rows of `folder`/`name`.csv; numbers as int or float, blanks in number columns as None.

    Raises UserError where the file is absent or its columns are not those of this version.
    """
    path = folder / f"{name}.csv"
    if not path.is_file():
        raise UserError(f"{path} is not there. Tables are made by: python -m scripts.tables.make_tables --out {folder}")
    with open(path, encoding="utf-8", newline="") as file:
        table = csv.DictReader(file)
        if tuple(table.fieldnames or ()) != COLUMNS[name]:
            raise UserError(
                f"{path} has the columns {', '.join(table.fieldnames or ())}; expected are {', '.join(COLUMNS[name])}. "
                f"Delete the folder {folder} and run make_tables.py again."
            )
        return [{column: _typed(column, text) for column, text in row.items()} for row in table]


def _typed(column: str, text: str) -> Any:
    if column in _TRUTHS and text in ("true", "false"):
        return text == "true"
    if column in _INTEGERS and text:
        return int(text)
    if column in _FLOATS and text:
        return float(text)
    blank = column in _INTEGERS | _FLOATS | _TRUTHS
    return None if blank else text


def read_tables(folder: Path) -> dict[str, Any]:
    """Return all tables (lists of rows) and documents (`dataset`, `host`) of `folder` by name.

    Results have a `panel` beside their columns.
    """
    tables: dict[str, Any] = {name: read_table(folder, name) for name in COLUMNS}
    for row in (*tables["runs"], *tables["ranking"], *tables["best"]):
        row["panel"] = panel_of(row)
    for name in DOCUMENTS:
        path = folder / f"{name}.json"
        if not path.is_file():
            raise UserError(
                f"{path} is not there. Tables are made by: python -m scripts.tables.make_tables --out {folder}"
            )
        tables[name] = read_json(path)
    return tables


def panels(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the panels that occur in `rows`, sorted; results are only compared within one."""
    return [panel for _, panel in sorted({(panel_order(row), row["panel"]) for row in rows if row["panel"]})]


def panel_order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return where a result's panel stands among the others: by device, task, cache and step."""
    return row["device"], list(TASKS).index(row["task"]), CACHES.index(row["cache"]), row["step_ms"] or 0


def panel_of(row: Mapping[str, Any]) -> str:
    """Return the panel of a result, its device and the state of the page cache, such as ``CPU, cold cache``."""
    if not row["device"]:
        return ""
    parts = [row["device"].upper(), *([] if row["task"] == "traverse" else [TASKS[row["task"]]])]
    parts += [] if row["cache"] == "warm" else [f"{row['cache']} cache"]
    return ", ".join(parts + ([f"{row['step_ms']:g} ms step"] if row["step_ms"] else []))


def settings_text(row: Mapping[str, Any]) -> str:
    """Return a result's settings in words, e.g. ``batch 32, 2 workers, prefetch 2, gather=batch``."""
    parts = [] if row["batch_size"] is None else [f"batch {row['batch_size']}"]
    if row["workers"] is not None:
        parts.append("1 worker" if row["workers"] == 1 else f"{row['workers']} workers")
    if row["prefetch"] is not None:
        parts.append(f"prefetch {row['prefetch']}")
    if row["pin_memory"]:
        parts.append("pinned memory")
    options = json.loads(row["options"] or "{}")
    parts += [f"{name}={value}" for name, value in options.items()]
    return ", ".join(parts)


def number_text(value: float | None, digits: int = 3) -> str:
    """Return `value` with at least `digits` significant digits and no false precision: 24,103, 1.52, 0.00481."""
    if value is None:
        return ""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def bytes_text(value: float | None) -> str:
    """Return a number of bytes in decimal units with three digits, e.g. ``1.52 GB``."""
    if value is None:
        return ""
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{number_text(value)} {unit}" if unit != "B" else f"{value:.0f} B"
        value /= 1000
    return f"{number_text(value)} TB"


def duration_text(seconds: float | None) -> str:
    """Return a length of audio in the unit that suits it, e.g. ``1.33 hours``."""
    if seconds is None:
        return ""
    unit, size = next((u, n) for u, n in (("hours", 3600), ("minutes", 60), ("seconds", 1)) if seconds >= n or n == 1)
    return f"{number_text(seconds / size)} {unit}"
