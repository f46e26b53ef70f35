"""Files that are inside the report: tables as CSV, and the raw records, each as an address that needs no script."""

import base64
import csv
import gzip
import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scripts.report.config import config_text
from scripts.report.names import anonymous
from scripts.report.trace import trace_text
from scripts.tables.columns import COLUMNS, RECORDS

MOST = 1_100_000  # bytes of a file that is embedded, a third less than it takes in the page
ABOUT = {
    "ranking": "every result, with its interval, its bound and what it takes",
    "runs": "every run",
}


def csv_address(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as a CSV file in a data address; the columns are all that occur, blank where a row has none."""
    return _address("text/csv;charset=utf-8", _csv(list(rows)))


def _csv(rows: list[Mapping[str, Any]], columns: Iterable[str] | None = None) -> bytes:
    names = list(columns or dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, names, extrasaction="ignore")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue().encode()


def _address(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def downloads(tables: Mapping[str, Any], folder: Path | None) -> list[dict[str, Any]]:
    """Return what the report offers: `name`, `about`, `bytes` and `address`, which is None for what is too large.

    `tables` are without names already; `folder` holds the records as make_tables.py wrote them.
    """
    files = [
        _file(f"{name}.csv", about, "text/csv;charset=utf-8", _csv(tables[name], COLUMNS[name]))
        for name, about in ABOUT.items()
    ]
    config = config_text(tables["dataset"]["config"]).encode()
    files.append(_file("config.yaml", "the whole config, as it was resolved", "application/yaml", config))
    if tables["spans"]:
        about = "the timelines of the first batches, for ui.perfetto.dev or speedscope"
        files.append(_file("trace.json", about, "application/json", trace_text(tables["spans"]).encode()))
    path = folder / RECORDS if folder else None
    if path and path.is_file():
        about = "every raw record of runs, bounds and tensors, as docs/run.schema.json describes it"
        content = _anonymous_records(path) if path.stat().st_size <= MOST else None
        files.append(_file(RECORDS, about, "application/gzip", content))
    return files


def companion(path: Path) -> dict[str, Any]:
    """Return a file of feedrate that a program in the report imports, as `downloads` has its files."""
    return _file(path.name, "what a program above imports: put it beside it", "text/x-python", path.read_bytes())


def _file(name: str, about: str, kind: str, content: bytes | None) -> dict[str, Any]:
    if content is None or len(content) > MOST:
        return {"name": name, "about": f"{about}; too large to be in here", "bytes": None, "address": None}
    return {"name": name, "about": about, "bytes": len(content), "address": _address(kind, content)}


def _anonymous_records(path: Path) -> bytes:
    """Return the compressed records without names; the same records give the same bytes."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        text = "".join(
            json.dumps(anonymous(json.loads(line)), ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines
        )
    return gzip.compress(text.encode(), mtime=0)
