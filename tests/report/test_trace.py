"""trace.json: the timelines in the Chrome trace format, as Perfetto and speedscope read it."""

import json

from scripts.report.trace import trace_events, trace_text

_NAMES = {"loader": "ring", "tier": "ram", "slug": "cpu-b32-w2"}
SPANS = [
    {**_NAMES, "track": "main", "batch": 0, "phase": "wait", "start_ms": 0.0, "end_ms": 4.0},
    {**_NAMES, "track": "worker 10", "batch": 1, "phase": "read", "start_ms": 0.5, "end_ms": 2.25},
    {**_NAMES, "track": "worker 2", "batch": 0, "phase": "read", "start_ms": 0.25, "end_ms": 3.0},
    {**_NAMES, "track": "main", "batch": 0, "phase": "transfer", "start_ms": 3.0, "end_ms": 4.0},
    {**_NAMES, "track": "main", "batch": 0, "phase": "step", "start_ms": 4.0, "end_ms": 5.0},
    {**_NAMES, "loader": "</script>", "track": "main", "batch": 0, "phase": "wait", "start_ms": 0.0, "end_ms": 1.0},
]


def test_each_result_is_a_process_and_each_of_its_processes_a_thread():
    events = trace_events(SPANS)
    named = {(one["name"], one["pid"], one["tid"]): one["args"]["name"] for one in events if one["ph"] == "M"}
    assert named == {
        ("process_name", 1, 0): "ring on ram, cpu-b32-w2",
        ("thread_name", 1, 0): "main",
        ("thread_name", 1, 1): "worker 2",
        ("thread_name", 1, 2): "worker 10",
        ("process_name", 2, 0): "</script> on ram, cpu-b32-w2",
        ("thread_name", 2, 0): "main",
    }


def test_spans_are_complete_events_in_microseconds_that_nest():
    spans = [one for one in trace_events(SPANS) if one["ph"] == "X"]
    assert len(spans) == len(SPANS)
    assert all({"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"} == set(one) for one in spans)
    first = [(one["name"], one["ts"], one["dur"]) for one in spans if (one["pid"], one["tid"]) == (1, 0)]
    assert first == [("wait", 0.0, 4000.0), ("transfer", 3000.0, 1000.0), ("step", 4000.0, 1000.0)]
    open_until = []  # a thread's events must nest, or viewers draw them wrong
    for one in (one for one in spans if (one["pid"], one["tid"]) == (1, 0)):
        open_until = [end for end in open_until if end > one["ts"]]
        assert all(one["ts"] + one["dur"] <= end for end in open_until)
        open_until.append(one["ts"] + one["dur"])


def test_the_file_is_the_json_object_format():
    found = json.loads(trace_text(SPANS))
    assert set(found) == {"displayTimeUnit", "traceEvents"} and len(found["traceEvents"]) == 12
    assert json.loads(trace_text([]))["traceEvents"] == []
