"""A session against an earlier one: what is slower, faster, the same, new or gone, and when CI has to fail."""

import shutil
import subprocess

import pytest

from scripts.common.errors import UserError
from scripts.common.files import PROJECT, read_json, write_json
from scripts.kinds.image import Kind
from scripts.report import render_report, terminal
from scripts.report.changes import ERROR, _ratio, changes, comparison_lines, worse
from scripts.report.others import read_baseline
from scripts.tables.columns import read_tables
from tests.support.made_runs import Made
from tests.support.programs import verb_line
from tests.support.report_pages import tables_of

NOISE = (1.0, 1.01, 0.99, 1.005, 0.995)
SPEEDS = {"steady": 1000.0, "slow": 500.0, "fast": 300.0, "gone": 100.0}
LATER = {"steady": 1001.0, "slow": 450.0, "fast": 360.0, "new": 200.0}


def session(root, speeds, **more):
    made = [
        Made(name, "ram", speed if isinstance(speed, list) else [speed * factor for factor in NOISE])
        for name, speed in speeds.items()
    ]
    return tables_of(root, made, **more)


def found(tables, baseline):
    return {one.loader: one for one in changes(tables, baseline)}


def test_what_changed_is_said_of_each_result(tmp_path):
    said = found(session(tmp_path / "now", LATER), session(tmp_path / "then", SPEEDS))
    kinds = {"steady": "same", "slow": "slower", "fast": "faster", "new": "new", "gone": "gone"}
    assert {name: one.kind for name, one in said.items()} == kinds
    assert said["slow"].percent == pytest.approx(-10) and said["slow"].low < -10 < said["slow"].high < -7
    assert said["fast"].percent == pytest.approx(20) and said["steady"].low < 0.1 < said["steady"].high


def test_a_machine_that_slowed_down_is_no_change_of_a_loader(tmp_path):
    now, then = session(tmp_path / "now", LATER), session(tmp_path / "then", SPEEDS)
    for tables, ceiling in ((now, 900.0), (then, 1000.0)):  # by as much as `slow` is slower
        for run in tables["runs"]:
            run["ceiling_items_per_second"] = ceiling
    said = found(now, then)
    assert {name: said[name].kind for name in ("steady", "slow", "fast")} == {
        "steady": "same",
        "slow": "same",
        "fast": "faster",
    }


def test_a_result_that_lost_its_speed_and_one_of_few_runs(tmp_path):
    now = session(tmp_path / "now", {"steady": [1000.0, "failed", 990.0], "slow": [450.0, 451.0]})
    said = found(now, session(tmp_path / "then", SPEEDS))
    assert {name: one.kind for name, one in said.items()} == {
        "steady": "failed",
        "slow": "few",
        "fast": "gone",
        "gone": "gone",
    }
    assert [one.loader for one in worse(said.values(), 50.0)] == ["steady"]


def test_what_was_not_measured_now_has_not_failed(tmp_path):
    now = session(tmp_path / "now", {"steady": 1000.0, "slow": ["skipped"]})
    said = found(now, session(tmp_path / "then", SPEEDS))
    assert said["slow"].kind == "not measured"
    assert worse([said["slow"]], 50.0) == []


def test_too_much_is_what_is_surely_slower_by_more(tmp_path):
    said = found(session(tmp_path / "now", LATER), session(tmp_path / "then", SPEEDS)).values()
    assert [one.loader for one in worse(said, 5.0)] == ["slow"]
    assert worse(said, 9.9) == [] and worse(said, 50.0) == []


def test_equal_sessions_are_rarely_set_apart():
    import numpy as np

    chance, wrong = np.random.default_rng(1), 0
    for _ in range(400):
        pairs = [[list(chance.normal(0, 0.1, 6)) for _ in range(2)] for _ in range(10)]
        wrong += any(low > 0 or high < 0 for _, low, high in (_ratio(*pair, ERROR / 10) for pair in pairs))
    assert wrong <= 32  # 5 % of 400, and what chance adds to that in one of 100 cases


def test_sessions_that_do_not_compare_are_refused(tmp_path):
    now, then = session(tmp_path / "now", LATER), session(tmp_path / "then", SPEEDS)
    then["host"]["protocols"] = [2, 3]
    with pytest.raises(UserError, match=r"protocol 2 and 3, .* 1"):
        changes(now, then)
    then = session(tmp_path / "then", SPEEDS)
    then["dataset"]["dataset"] = "mine"
    with pytest.raises(UserError, match=r" mine .* demo"):
        changes(now, then)


def test_items_of_another_kind_do_not_compare_though_they_are_as_many(tmp_path):
    now, then = session(tmp_path / "now", LATER), session(tmp_path / "then", SPEEDS)
    then["dataset"]["corpus"] = {**then["dataset"]["corpus"], "sample_rate": 48_000}
    with pytest.raises(UserError, match="48000 Hz"):
        changes(now, then)


def test_a_session_is_not_compared_with_a_copy_of_its_own_runs(tmp_path):
    now = session(tmp_path / "now", LATER)
    shutil.copytree(tmp_path / "now" / "tables", tmp_path / "saved")
    with pytest.raises(UserError, match="results/runs/demo"):
        changes(now, read_tables(tmp_path / "saved"))


def test_files_encoded_otherwise_do_not_compare_though_they_are_as_many(tmp_path):
    sessions = []
    for quality in (90, 50):
        tables = session(tmp_path / str(quality), SPEEDS)
        options = {"encoding": "jpeg", "quality": quality}
        of_images = {"sample": Kind((224, 224)).sample.as_json(), "options": options}
        tables["dataset"]["corpus"] = {**tables["dataset"]["corpus"], **of_images}
        sessions.append(tables)
    with pytest.raises(UserError, match=r"quality 50, .* quality 90"):
        changes(*sessions)


def test_another_machine_is_said(tmp_path):
    now, then = session(tmp_path / "now", LATER), session(tmp_path / "then", SPEEDS)
    same = list(comparison_lines(now, then))
    then["host"]["hosts"][0]["host"] |= {"cpu": "Old CPU", "cores_allowed": 2}
    [said] = set(comparison_lines(now, then)) - set(same)
    assert "Old CPU, 2 cores" in said


def test_the_program_fails_for_ci_where_a_limit_is_passed(tmp_path):
    session(tmp_path / "now", LATER)
    session(tmp_path / "then", SPEEDS)
    options = ["--tables", tmp_path / "now" / "tables", "--baseline", tmp_path / "then" / "tables"]
    program = [*verb_line("compare"), *map(str, options), "--limit", "5"]
    result = subprocess.run(program, cwd=PROJECT, capture_output=True, text=True)
    assert result.returncode == 1 and "slow on ram" in result.stdout and "slow on ram" in result.stderr
    host = tmp_path / "then" / "tables" / "host.json"
    write_json(host, {**read_json(host), "protocols": [99]})
    result = subprocess.run(program, cwd=PROJECT, capture_output=True, text=True)
    assert result.returncode == 2 and "protocol 99" in result.stderr
    header, rows = (tmp_path / "then" / "tables" / "ranking.csv").read_text().split("\n", 1)
    (tmp_path / "then" / "tables" / "ranking.csv").write_text(f"{header},of_an_older_version\n{rows}")
    with pytest.raises(UserError, match="cannot read"):
        read_baseline(tmp_path / "then" / "tables")


def test_it_is_said_where_the_config_names_a_baseline(tmp_path):
    session(tmp_path / "then", SPEEDS)
    now = session(tmp_path / "now", LATER)
    assert terminal.baseline_lines(now) == [] and render_report._changes(now) is None
    now["dataset"]["report"] = {**now["dataset"]["report"], "baseline": str(tmp_path / "then" / "tables")}
    lines = terminal.baseline_lines(now)
    assert any("slow on ram" in line and "10.0 % (8.6 to 11)" in line for line in lines)
