"""Rows of spans.csv: what each process of a run did with its first batches, and when."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from scripts.common.groups import RESULT, first_of, names_of


def rows(rows_and_records: Iterable[tuple[Mapping[str, Any], Mapping[str, Any] | None]]) -> Iterator[dict[str, Any]]:
    """Yield the spans of each result in which they were noted, in ms; from (row of runs.csv, record).

    Of several runs of a result those of the first one are taken: they are one run's, and not to be mixed.
    """
    noted = ({**row, "spans": record["spans"]} for row, record in rows_and_records if record and record.get("spans"))
    for first in first_of((row for row in noted if row["status"] == "ok"), *RESULT).values():
        for span in first["spans"]:
            times = {f"{end}_ms": round(1000 * span[f"{end}_seconds"], 3) for end in ("start", "end")}
            yield names_of(first) | {key: span[key] for key in ("track", "batch", "phase")} | times
