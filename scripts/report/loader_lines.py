"""The results of one loader in a line each: what `snakemake results/NAME.json` ends with."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from scripts.common.text import number_text
from scripts.common.vocabulary import BOTTLENECKS


def loader_lines(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a line for each result, the fastest first, and for each reason why there is none.

    `rows` are those of results/NAME.json (`scripts/tables/summarize_loader.py`): one a run.
    """
    results = {(row["tier"], row.get("slug")): row for row in rows}.values()
    fastest = sorted(results, key=lambda row: row.get("result_items_per_second") or 0.0, reverse=True)
    return list(dict.fromkeys(map(_line, fastest)))


def _line(row: Mapping[str, Any]) -> str:
    name = f"{row['loader']} on {row['tier']} ({row['slug']})" if row.get("slug") else row["loader"]
    speed = row.get("result_items_per_second")
    if not speed:
        return f"{name}: {row.get('result_status') or row['status']}, {row.get('result_reason') or row['reason']}"
    return f"{name}: {number_text(speed)} items/s ({', '.join(_beside(row))})"


def _beside(row: Mapping[str, Any]) -> Iterator[str]:
    if row["result_interval_low"]:
        yield f"{number_text(row['result_interval_low'])} to {number_text(row['result_interval_high'])}"
    yield f"{row['result_runs']} run{'s' if row['result_runs'] > 1 else ''}"
    if row["result_bottleneck"]:
        at = f", {row['result_item_line']}" if row["result_bottleneck"] == "item" else ""
        yield f"bottleneck: {BOTTLENECKS[row['result_bottleneck']].word}{at}"
    if row.get("result_item_ms"):
        yield f"an item's {number_text(row['result_item_ms'], 2)} ms: {row['result_item_parts']}"
