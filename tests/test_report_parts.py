"""The report's charts, its files to download and the programs in it: what they are made of."""

import base64
import gzip
import json
import re
from html import unescape

import pytest

import render_report
import report_charts
import report_downloads
import report_names
import report_rows
from made_runs import Made, campaign
from report_pages import links, report_of, row_of, rows_in, section
from tables import read_tables


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Tables, figures folder and report of an experiment in which everything there is was measured three times."""
    return report_of(tmp_path_factory.mktemp("campaign"), **campaign(3))


def test_figures_come_with_their_numbers(measured):
    files = links(measured[2])
    charts = [name for name in report_charts.CHARTS if f"{name}.csv" in files]
    assert {"throughput", "scaling", "latency", "cold", "roofline", "memory", "training", "break_even"} <= set(charts)
    throughput = rows_in(files["throughput.csv"])
    speeds = [row["clips_per_second"] for row in throughput if row["loader"] == "dali_npy" and row["repeat"]]
    assert speeds == [
        str(run["clips_per_second"])
        for row in measured[0]["best"]
        if row["loader"] == "dali_npy" and row["task"] not in ("train", "lightning")
        for run in measured[0]["runs"]
        if report_rows.key(run) == report_rows.key(row)
    ]
    assert len(rows_in(files["runs.csv"])) == len(measured[0]["runs"])
    assert len(rows_in(files["ranking.csv"])) == len(measured[0]["ranking"])
    assert rows_in(files["break_even.csv"])[0].keys() == measured[0]["break_even"][0].keys()


def test_raw_records_come_along_without_names(tmp_path, monkeypatch):
    monkeypatch.setattr(report_names.getpass, "getuser", lambda: "wilhelmina")
    warning = {"code": "x", "seen": "read /scratch/wilhelmina/a of /home/wilhelmina", "cause": "", "hint": ""}
    html = report_of(tmp_path, [Made("a", "ram", [1.0, 2.0], warnings=[warning])])[2]
    content = gzip.decompress(base64.b64decode(links(html)["records.jsonl.gz"].split(",")[1])).decode()
    records = [json.loads(line) for line in content.splitlines()]
    assert [record["clips_per_second"] for record in records] == [1.0, 2.0]
    assert records[0]["warnings"][0]["seen"] == "read /scratch/USER/a of ~"
    assert "wilhelmina" not in content + html
    monkeypatch.setattr(report_downloads, "MOST", 100)
    html = render_report.render(read_tables(tmp_path / "tables"), tmp_path / "figures", tmp_path / "tables")
    assert "records.jsonl.gz" not in links(html)
    assert "records.jsonl.gz : every raw record" in section(html, "downloads")
    assert "too large to lie in here" in section(html, "downloads")


@pytest.mark.parametrize("text", ["</script><b>", "<!--", "a & b \u2028", 'quote " and \\'])
def test_text_cannot_end_the_data_of_a_chart(text):
    embedded = report_charts.embedded({"a": text})
    assert not set("<>&\u2028") & set(embedded)
    assert json.loads(embedded) == {"a": text}


def test_text_in_backticks_is_code_and_nothing_more():
    assert render_report.coded("set `a: <b>` & go") == "set <code>a: &lt;b&gt;</code> &amp; go"
    assert render_report.coded("one ` <alone>") == "one ` &lt;alone&gt;"


def rung(step, speed, times=None, low=None, high=None, status="ok"):
    common = {"step": step, "change": f"change {step}", "loader": "a", "tier": "ram", "slug": "s", "runs": 3}
    common |= {"interval_low": speed, "interval_high": speed, "status": status, "reason": ""}
    return {
        **common,
        **{"clips_per_second": speed, "times_faster": times, "faster_low": low, "faster_high": high},
        "times_faster_than_first": speed and speed / 10,
    }


def test_rungs_of_the_ladder_begin_where_the_last_one_ended(measured):
    ladder = [
        rung(1, 10.0),
        rung(2, 40.0, 4.0, 3.8, 4.2),
        rung(3, None, status="skipped"),
        rung(4, 30.0, 0.75, 0.7, 0.8),
        rung(5, 31.0, 1.03, 0.9, 1.1),
    ]
    rows = report_rows.ladder({"ladder": ladder})
    assert [row["before"] for row in rows] == [None, 10.0, 40.0, 40.0, 30.0]
    assert [row["told"] for row in rows] == ["first", "faster", "no speed", "slower", "not told apart"]
    html = render_report.render({**measured[0], "ladder": ladder}, measured[1])
    assert row_of(html, "ladder", "change 2") == "2 change 2 a ram 40.0 4.00 3.80 to 4.20 4.00 s 3"
    assert "skipped" in row_of(html, "ladder", "change 3")
    assert "ladder.csv" in links(html)


def test_a_ladder_without_any_speed_is_a_table_alone(measured):
    html = render_report.render({**measured[0], "ladder": [rung(1, None, status="failed")]}, measured[1])
    assert "failed" in row_of(html, "ladder", "change 1")
    assert "ladder.csv" not in links(html)


def test_cold_rows_say_their_share_of_the_warm_speed(measured):
    rows = [row for row in report_rows.cold(measured[0]) if (row["loader"], row["tier"]) == ("dali_npy", "disk")]
    assert [row["cache"] for row in rows] == ["warm", "cold", "limited"]
    assert [round(row["of_warm_percent"]) for row in rows] == [100, 28, 54]


def test_spans_are_of_the_best_results_as_far_as_there_is_room(measured, monkeypatch):
    best = measured[0]["best"]
    spans = [
        {**{name: row[name] for name in ("loader", "tier", "slug")}, "lane": lane, "batch": 0, "phase": "read"}
        | {"start_ms": 1.0, "end_ms": 3.5}
        for row in best[:3]
        for lane in ("main", "worker 1")
    ]
    monkeypatch.setattr(report_rows, "SPANS", 5)
    tables = {**measured[0], "spans": list(reversed(spans))}
    rows = report_rows.timeline(tables)
    assert {row["run"] for row in rows} == {f"{row['loader']}, {row['tier']}, {row['slug']}" for row in best[:2]}
    assert {(row["lane"], row["lane_number"]) for row in rows} == {("main", 0), ("worker 1", 2)}
    assert {row["milliseconds"] for row in rows} == {2.5}
    html = render_report.render(tables, measured[1])
    assert "Only the best 2 of 3 runs are here" in section(html, "timeline")


def test_programs_to_paste_are_those_of_the_verdicts(measured):
    html = measured[2]
    first = unescape(re.search(r'<code id="program-first">(.*?)</code>', html, re.S)[1])
    assert first.startswith("# numpy_memmap:")
    assert "results/formats/demo/memmap/train" in first
    compile(first, "program", "exec")


@pytest.mark.parametrize(
    ("epochs", "text"), [(0.2, "1 epoch"), (3.0, "3 epochs"), (3.1, "4 epochs"), (1200.5, "1,201 epochs")]
)
def test_epochs_are_whole(epochs, text):
    assert render_report.epochs_text(epochs) == text
