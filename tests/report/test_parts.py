"""The report's charts, its files to download and the programs in it: what they are made of."""

import base64
import gzip
import json
import re
from html import unescape

import pytest
from matplotlib import pyplot as plt

from scripts.report import charts, downloads, draw_figures, names, render_report
from scripts.tables.columns import read_tables
from tests.support.made_runs import Made
from tests.support.report_pages import links, report_of, row_of, rows_in, section


def test_figures_come_with_their_numbers(measured):
    files = links(measured[2])
    assert {f"{name}.csv" for name, chart in charts.every().items() if chart.rows(measured[0])} < files.keys()
    assert len(rows_in(files["runs.csv"])) == len(measured[0]["runs"])
    assert len(rows_in(files["ranking.csv"])) == len(measured[0]["ranking"])


def test_raw_records_come_along_without_names(tmp_path, monkeypatch):
    monkeypatch.setattr(names.getpass, "getuser", lambda: "wilhelmina")
    warning = {"code": "x", "seen": "read /scratch/wilhelmina/a of /home/wilhelmina", "cause": "", "hint": ""}
    html = report_of(tmp_path, [Made("a", "ram", [1.0, 2.0], warnings=[warning])])[2]
    content = gzip.decompress(base64.b64decode(links(html)["records.jsonl.gz"].split(",")[1])).decode()
    records = [json.loads(line) for line in content.splitlines()]
    assert [record["items_per_second"] for record in records] == [1.0, 2.0]
    assert records[0]["warnings"][0]["seen"] == "read /scratch/USER/a of ~"
    assert "wilhelmina" not in content + html
    monkeypatch.setattr(downloads, "MOST", 100)
    html = render_report.render(read_tables(tmp_path / "tables"), tmp_path / "figures", tmp_path / "tables")
    assert "records.jsonl.gz" not in links(html)
    assert "records.jsonl.gz : every raw record" in section(html, "downloads")
    assert "too large to be in here" in section(html, "downloads")


def test_text_in_backticks_is_code_and_nothing_more():
    assert render_report.coded("set `a: <b>` & go") == "set <code>a: &lt;b&gt;</code> &amp; go"
    assert render_report.coded("one ` <alone>") == "one ` &lt;alone&gt;"


def ladder_step(step, speed, times=None, low=None, high=None, status="ok"):
    common = {"step": step, "change": f"change {step}", "loader": "a", "tier": "ram", "slug": "s", "runs": 3}
    common |= {"interval_low": speed, "interval_high": speed, "status": status, "reason": ""}
    return {
        **common,
        **{"items_per_second": speed, "times_faster": times, "faster_low": low, "faster_high": high},
        "times_faster_than_first": speed and speed / 10,
    }


def test_rungs_of_the_ladder_begin_where_the_last_one_ended(measured):
    ladder = [
        ladder_step(1, 10.0),
        ladder_step(2, 40.0, 4.0, 3.8, 4.2),
        ladder_step(3, None, status="skipped"),
        ladder_step(4, 30.0, 0.75, 0.7, 0.8),
        ladder_step(5, 31.0, 1.03, 0.9, 1.1),
    ]
    rows = charts.load("ladder").rows({"ladder": ladder})
    assert [row["before"] for row in rows] == [None, 10.0, 40.0, 40.0, 30.0]
    assert [row["gain"] for row in rows] == ["first", "faster", "no speed", "slower", "not distinguishable"]
    html = render_report.render({**measured[0], "ladder": ladder}, measured[1])
    assert row_of(html, "ladder", "change 2") == "2 change 2 a ram 40.0 4.00 3.80 to 4.20 4.00 s 3"
    assert "skipped" in row_of(html, "ladder", "change 3")
    assert "ladder.csv" in links(html)


def test_spans_are_of_the_two_results_that_are_drawn(measured):
    best = [row for row in measured[0]["best"] if row["scenario"] == "CPU"]
    spans = [
        {**{name: row[name] for name in ("loader", "tier", "slug")}, "track": track, "batch": 0, "phase": "read"}
        | {"start_ms": 1.0, "end_ms": 3.5}
        for row in reversed(best)
        for track in ("main", "worker 1")
    ]
    rows = charts.load("timeline").rows({**measured[0], "spans": spans})
    assert list(dict.fromkeys((row["loader"], row["tier"], row["why"]) for row in rows)) == [
        ("lazy_memmap", "disk", "To use"),
        ("torchaudio", "ram", "Your current loader"),
    ]
    assert {(row["track"], row["track_number"]) for row in rows} == {("main", 0), ("worker 1", 2)}
    assert {row["milliseconds"] for row in rows} == {2.5} and {row["runs"] for row in rows} == {len(best)}


@pytest.mark.parametrize(("factor", "unit"), [(0.001, "seconds"), (1, "minutes"), (1000, "hours")])
def test_the_figure_of_break_even_has_one_unit(measured, factor, unit):
    costs = {"prepare_seconds": 1.0, "epoch_seconds": 2.0}
    rows = [{**row, **{name: value * factor for name, value in costs.items()}} for row in measured[0]["break_even"]]
    tables = {**measured[0], "break_even": rows}
    seconds = {"seconds": 1, "minutes": 60, "hours": 3600}[unit]
    with draw_figures.style():
        figure = draw_figures.picture(charts.load("break_even"), tables)
        assert figure.axes[0].get_ylabel().startswith(f"{unit}, conversion included")
        line = figure.axes[0].lines[0]
        assert line.get_ydata()[0] == pytest.approx(3.0 * factor / seconds)
        plt.close(figure)


def test_programs_to_paste_are_those_of_the_verdicts(measured):
    html = measured[2]
    first = unescape(re.search(r'<code id="program-first">(.*?)</code>', html, re.S)[1])
    place, header = first.splitlines()[:2]
    assert place == "# Measured on tier disk, /mnt/disk: copy the folder that `data` names there, and name the copy."
    assert header.startswith("# lazy_memmap:")
    assert "results/formats/demo/" in first
    compile(first, "program", "exec")


@pytest.mark.parametrize(
    ("epochs", "text"), [(0.2, "1 epoch"), (3.0, "3 epochs"), (3.1, "4 epochs"), (1200.5, "1,201 epochs")]
)
def test_epochs_are_whole(epochs, text):
    assert render_report.epochs_text(epochs) == text
