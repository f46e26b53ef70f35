"""The batch timelines of all results as a file in the Chrome trace format, for ui.perfetto.dev and speedscope.

A result is a process of the trace, each of its own processes a thread. Format: "Trace Event Format", Google, 2016.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from scripts.common.groups import grouped

MAIN = "main"


def trace_events(spans: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the events of the rows of spans.csv: names first, then the spans, with times in microseconds."""
    names, events = [], []
    for process, rows in enumerate(grouped(spans, "loader", "tier", "slug").values(), start=1):
        first = rows[0]
        names.append(_name("process_name", process, 0, f"{first['loader']} on {first['tier']}, {first['slug']}"))
        tracks = sorted({row["track"] for row in rows}, key=lambda track: (track != MAIN, len(track), track))
        names += [_name("thread_name", process, number, track) for number, track in enumerate(tracks)]
        for row in rows:
            start, end = (round(1000 * row[column], 3) for column in ("start_ms", "end_ms"))
            event = {"name": row["phase"], "cat": "batch", "ph": "X", "ts": start, "dur": round(end - start, 3)}
            place = {"pid": process, "tid": tracks.index(row["track"]), "args": {"batch": row["batch"]}}
            events.append(event | place)
    return names + sorted(events, key=lambda event: (event["pid"], event["tid"], event["ts"], -event["dur"]))


def _name(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}


def trace_text(spans: Iterable[Mapping[str, Any]]) -> str:
    """Return the file trace.json of the rows of spans.csv."""
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": trace_events(spans)}, separators=(",", ":"))
