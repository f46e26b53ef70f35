"""Rows of spans.csv: what each process of a run did with its first batches, and when."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_RESULT = ("loader", "tier", "slug")


def rows(rows_and_records: Iterable[tuple[Mapping[str, Any], Mapping[str, Any] | None]]) -> Iterator[dict[str, Any]]:
    """Yield the spans of each result in which they were noted, in ms; from (row of runs.csv, record).

    Of several runs of a result those of the first one are taken: they are one run's, and not to be mixed.
    """
    seen = set()
    for row, record in rows_and_records:
        result = {key: row[key] for key in _RESULT}
        spans = (record or {}).get("spans")
        if not spans or row["status"] != "ok" or tuple(result.values()) in seen:
            continue
        seen.add(tuple(result.values()))
        for span in spans:
            times = {f"{end}_ms": round(1000 * span[f"{end}_seconds"], 3) for end in ("start", "end")}
            yield {**result, **{key: span[key] for key in ("lane", "batch", "phase")}, **times}
