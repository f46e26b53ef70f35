"""The tables and the terminal's ranking, from made runs whose answer is known."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import make_tables
import print_ranking
import ranking
import run_records
import summarize_loader
from errors import UserError
from files import read_json, write_json
from made_runs import WARNING, Made, bound_record, example, make_results, run_record
from measure.stats import Spread, shared_ranks, spread
from tables import COLUMNS, bytes_text, duration_text, number_text, panels, read_table, read_tables, settings_text

SCRIPTS = Path(make_tables.__file__).parent


def tables_of(root: Path, made, **kwargs):
    plan = run_records.read_plan(make_results(root, made, **kwargs))
    make_tables.make_tables(plan, root, root / "tables")
    return read_tables(root / "tables")


def ranked(tables, name="ranking"):
    return [(row["rank"], row["loader"]) for row in tables[name]]


def test_spread_of_even_and_odd_counts():
    assert spread([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0, 3)
    assert spread([4.0, 1.0]) == Spread(2.5, 1.0, 4.0, 2)
    assert spread([]) is None


def test_ranks_are_shared_with_the_leader_of_the_group_not_with_the_neighbour():
    leader, overlaps = Spread(100, 95, 105, 5), Spread(96, 90, 99, 5)
    chained = Spread(91, 88, 94, 5)  # overlaps its neighbour, not the leader
    assert shared_ranks([leader, overlaps, chained, Spread(10, 9, 11, 5)]) == [1, 1, 3, 4]
    assert shared_ranks([]) == []


@pytest.mark.parametrize(("runs", "apart"), [(1, False), (2, False), (3, False), (4, True), (5, True)])
def test_few_runs_must_lie_far_apart(runs, apart):
    """Two ranges of length 10 with a gap of 8 between them."""
    ranks = shared_ranks([Spread(105, 100, 110, runs), Spread(87, 82, 92, runs)])
    assert ranks == ([1, 2] if apart else [1, 1])


@pytest.mark.parametrize(("runs", "at_most"), [(1, 0.0), (2, 0.02), (3, 0.02), (4, 0.01), (5, 0.02), (7, 0.01)])
def test_equal_loaders_are_rarely_told_apart(runs, at_most):
    """Pairs of results drawn from one distribution: the share that gets different ranks."""
    random = np.random.default_rng(5)
    told = 0
    for _ in range(4000):
        pair = sorted((spread(values) for values in random.normal(100, 5, (2, runs)).tolist()), reverse=True)
        told += shared_ranks(pair) == [1, 2]
    assert told / 4000 <= at_most


def test_medians_ranges_and_percent_of_bound(tmp_path):
    made = [Made("b", "ram", [100.0, 130.0, 110.0]), Made("a", "ram", [1000.0, 900.0, 950.0])]
    tables = tables_of(tmp_path, made, bounds={("cpu", 32): [1900.0, 2000.0, 1800.0]})
    first, second = tables["ranking"]
    assert (first["rank"], first["loader"], first["clips_per_second"]) == (1, "a", 950.0)
    assert (first["lowest"], first["highest"], first["percent_of_bound"]) == (900.0, 1000.0, 50.0)
    assert first["times_slower_than_best"] == 1.0
    assert second["rank"] == 2
    assert second["times_slower_than_best"] == pytest.approx(950 / 110)
    assert first["first_batch_seconds"] == pytest.approx(0.6)
    assert tables["bounds"] == [
        {
            **{"bound": "warm", "device": "cpu", "batch_size": 32, "runs": 3},
            **{"clips_per_second": 1900.0, "lowest": 1800.0, "highest": 2000.0},
        }
    ]


def test_the_bound_of_another_batch_size_or_device_does_not_apply(tmp_path):
    made = [Made("a", "ram", [100.0], batch_size=64), Made("a", "ram", [90.0], device="cuda")]
    tables = tables_of(tmp_path, made, bounds={("cpu", 32): [200.0]})
    assert [row["percent_of_bound"] for row in tables["ranking"]] == [None, None]
    assert [row["rank"] for row in tables["ranking"]] == [1, 1]  # each device has a ranking of its own


def test_no_bounds(tmp_path):
    tables = tables_of(tmp_path, [Made("a", "ram", [100.0])])
    assert tables["bounds"] == []
    assert tables["ranking"][0]["percent_of_bound"] is None


def test_a_planned_bound_without_a_file_has_no_speed(tmp_path):
    plan = run_records.read_plan(make_results(tmp_path, [Made("a", "ram", [1.0])], bounds={("cpu", 32): [2.0]}))
    (tmp_path / plan["bounds"][0]["path"]).unlink()
    make_tables.make_tables(plan, tmp_path, tmp_path / "tables")
    [row] = read_table(tmp_path / "tables", "bounds")
    assert (row["runs"], row["clips_per_second"]) == (0, None)


def test_ties_share_a_rank_and_the_next_is_skipped(tmp_path):
    made = [Made("a", "ram", [100.0, 110.0]), Made("b", "ram", [99.0, 105.0]), Made("c", "ram", [50.0, 51.0])]
    assert ranked(tables_of(tmp_path, made)) == [(1, "a"), (1, "b"), (3, "c")]


def test_one_failed_run_takes_the_speed_from_the_result(tmp_path):
    made = [Made("wrong", "ram", [900.0, "failed", 901.0]), Made("right", "ram", [10.0, 11.0, 12.0])]
    tables = tables_of(tmp_path, made)
    assert ranked(tables) == [(1, "right"), (None, "wrong")]
    row = tables["ranking"][1]
    assert (row["status"], row["runs"], row["failed"], row["clips_per_second"]) == ("failed", 2, 1, None)
    assert "3 clips altered, first 17" in row["reason"]
    assert row["percent_of_bound"] is row["first_batch_seconds"] is None
    assert [run["status"] for run in tables["runs"] if run["loader"] == "wrong"] == ["ok", "failed", "ok"]


def test_missing_and_skipped_runs_are_rows_with_reasons(tmp_path):
    made = [
        Made("absent", "ram", [None, None]),
        Made("partly", "ram", [10.0, None]),
        Made("dali", "ram", ["skipped", "skipped"], reason="not installed: dali"),
    ]
    no_gpu = {"loader": "partly", "tier": None, "settings": {"device": "cuda"}, "reason": "no GPU"}
    tables = tables_of(tmp_path, made, skipped=[no_gpu])
    assert ranked(tables) == [(1, "partly"), (None, "absent"), (None, "dali")]
    assert tables["ranking"][0]["reason"] == "1 of 2 planned runs are there"
    assert tables["runs"][0]["status"] == "missing"
    rows = {(row["loader"], row["status"]): row for row in tables["skipped"]}
    assert rows["dali", "skipped"]["reason"] == "not installed: dali"
    assert rows["dali", "skipped"]["repeats"] == 2
    assert rows["absent", "missing"]["repeats"] == 2
    assert rows["partly", "missing"]["repeats"] == 1
    assert (rows["partly", "skipped"]["slug"], rows["partly", "skipped"]["tier"]) == ("cuda", "")


def test_a_loader_that_the_plan_skips_altogether_is_in_the_ranking(tmp_path):
    gone = {"loader": "gone", "tier": None, "settings": {"device": "cuda"}, "reason": "no GPU"}
    tables = tables_of(tmp_path, [Made("a", "ram", [1.0])], skipped=[gone])
    assert ranked(tables, "best") == [(1, "a"), (None, "gone")]
    assert tables["best"][1]["reason"] == "no GPU"


def test_best_has_one_row_per_loader_and_tier_ranked_anew(tmp_path):
    made = [
        Made("a", "ram", [100.0] * 5, workers=0),
        Made("a", "ram", [300.0] * 5, workers=4),
        Made("a", "disk", [50.0] * 5, workers=0),
        Made("a", "disk", ["failed"] * 5, workers=4),
        Made("b", "ram", [200.0] * 5),
    ]
    best = tables_of(tmp_path, made)["best"]
    assert [(row["rank"], row["loader"], row["tier"], row["workers"]) for row in best] == [
        (1, "a", "ram", 4),
        (2, "b", "ram", 2),
        (3, "a", "disk", 0),
    ]


def test_all_failed(tmp_path):
    tables = tables_of(tmp_path, [Made("a", "ram", ["failed"]), Made("b", "ram", ["failed"])])
    assert ranked(tables, "best") == [(None, "a"), (None, "b")]


def test_runs_have_times_payload_and_options(tmp_path):
    run = tables_of(tmp_path, [Made("a", "ram", [100.0], options={"gather": "batch", "other": None})])["runs"][0]
    assert run["megabytes_per_second"] == pytest.approx(64.0)
    assert (run["epochs"], run["epoch_gap_seconds"], run["construct_seconds"]) == (2, 0.02, 0.1)
    assert json.loads(run["options"]) == {"gather": "batch"}
    assert run["pin_memory"] is False
    assert settings_text(run) == "batch 32, 2 workers, prefetch 2, gather=batch"


def test_other_tables(tmp_path):
    made = [Made("a", "ram", [1.0], warnings=[WARNING]), Made("a", "disk", [1.0], "wav")]
    tables = tables_of(tmp_path, made)
    assert [row["format"] for row in tables["formats"]] == ["memmap", "wav"]
    disk, ram = tables["tiers"]
    assert disk["sequential_megabytes_per_second"] == pytest.approx(2145.7)
    assert disk["random_clips_per_second"] == 2850.0
    assert disk["random_latency_ms"] == pytest.approx(0.35)
    assert (ram["rotational"], ram["reason"], ram["warnings"]) == (None, "fio is not installed", 1)
    assert [(row["loader"], row["tier"], row["code"]) for row in tables["warnings"]] == [
        ("a", "ram", "load"),
        ("", "ram", "not_profiled"),
    ]
    assert tables["dataset"]["rejected_reasons"][0] == {"reason": "shorter than 0.5 s", "clips": 2}
    assert tables["dataset"]["corpus"]["ids_hash"] == "0123456789abcdef"
    assert tables["host"]["hosts"][0]["runs"] == 2
    assert tables["host"]["versions"]["torch"] == ["2.11.0"]


def test_text_from_outside_survives_the_tables(tmp_path):
    reason = 'a "quoted" reason,\nwith a line break, NA and é'
    tables = tables_of(tmp_path, [Made("nan", "None", ["skipped"], reason=reason)])
    assert (tables["runs"][0]["loader"], tables["runs"][0]["tier"]) == ("nan", "None")
    assert tables["skipped"][0]["reason"] == reason


def test_older_runs_outside_the_plan_are_not_shown(tmp_path):
    path = make_results(tmp_path, [Made("a", "ram", [1.0]), Made("old", "ram", [2.0])])
    plan = run_records.read_plan(path)
    plan["runs"] = [entry for entry in plan["runs"] if entry["loader"] == "a"]
    make_tables.make_tables(plan, tmp_path, tmp_path / "tables")
    assert {row["loader"] for row in read_table(tmp_path / "tables", "runs")} == {"a"}


def test_the_folder_of_tables_is_whole_or_not_there(tmp_path):
    plan = run_records.read_plan(make_results(tmp_path, [Made("a", "ram", [1.0])]))
    plan["formats"] = [["broken"]]
    with pytest.raises(TypeError):
        make_tables.make_tables({**plan, "dataset": None}, tmp_path, tmp_path / "tables")
    assert not (tmp_path / "tables").exists()


def test_tables_are_made_anew_in_a_folder_that_snakemake_has_marked(tmp_path):
    plan = run_records.read_plan(make_results(tmp_path, [Made("a", "ram", [1.0])]))
    make_tables.make_tables(plan, tmp_path, tmp_path / "tables")
    (tmp_path / "tables" / ".snakemake_timestamp").touch()
    make_tables.make_tables(plan, tmp_path, tmp_path / "tables")
    assert read_table(tmp_path / "tables", "runs")


def test_a_folder_with_other_files_is_not_replaced(tmp_path):
    plan = run_records.read_plan(make_results(tmp_path, [Made("a", "ram", [1.0])]))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("precious")
    with pytest.raises(UserError, match=r"thesis\.tex"):
        make_tables.make_tables(plan, tmp_path, tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.tex").exists()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"clips_per_second": -1}, "clips_per_second"),
        ({"typo": 1}, "typo"),
        ({"status": "fine"}, "fine"),
        ({"times": None}, "times"),
        ({"clips_per_second": None}, "clips_per_second"),
        ({"record": "other"}, "record"),
        ({"loader": "another"}, "the plan expects"),
    ],
)
def test_a_broken_record_is_named(tmp_path, change, expected):
    plan = run_records.read_plan(make_results(tmp_path, [Made("a", "ram", [1.0])]))
    path = tmp_path / plan["runs"][0]["path"]
    write_json(path, read_json(path) | change)
    with pytest.raises(UserError, match=expected) as error:
        make_tables.make_tables(plan, tmp_path, tmp_path / "tables")
    assert str(path) in str(error.value)
    assert "Delete" in str(error.value)


def test_a_record_cut_short_is_named(tmp_path):
    plan = run_records.read_plan(make_results(tmp_path, [Made("a", "ram", [1.0])]))
    path = tmp_path / plan["runs"][0]["path"]
    path.write_text(path.read_text()[:100])
    with pytest.raises(UserError, match="found no JSON"):
        make_tables.make_tables(plan, tmp_path, tmp_path / "tables")


def test_made_records_keep_the_whole_schema():
    schema = read_json(run_records.SCHEMA)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    made = Made("a", "ram", [1.0, "failed", "skipped"], warnings=[WARNING], options={"gather": "batch"})
    for record in [*(run_record(made, repeat) for repeat in range(3)), bound_record("cpu", 32, 0, 5.0)]:
        validator.validate(record)
        with pytest.raises(jsonschema.ValidationError):
            validator.validate({**record, "unknown": 1})


def test_summary_of_one_loader(tmp_path):
    path = make_results(tmp_path, [Made("a", "ram", [1.0, 3.0]), Made("b", "ram", [9.0, "failed"])])
    run_records.read_plan(path)
    command = ["--plan", path, "--loader", "b", "--root", tmp_path, "--out", tmp_path / "b.json"]
    assert run("summarize_loader.py", *command).returncode == 0
    summary = read_json(tmp_path / "b.json")
    assert summary["loader"] == "b"
    assert [one["status"] for one in summary["summary"]] == ["failed"]
    assert [one["status"] for one in summary["runs"]] == ["ok", "failed"]


def test_summary_needs_no_other_loaders_runs(tmp_path):
    path = make_results(tmp_path, [Made("a", "ram", [1.0, 3.0]), Made("b", "ram", [None, None])])
    [result] = summarize_loader.summarize(run_records.read_plan(path), "a", tmp_path)["summary"]
    assert (result["clips_per_second"], result["lowest"], result["highest"], result["runs"]) == (2.0, 1.0, 3.0, 2)
    with pytest.raises(UserError, match="Did you mean 'a'"):
        summarize_loader.summarize(run_records.read_plan(path), "aa", tmp_path)


def test_about_comes_from_the_plug_in(monkeypatch):
    assert ranking.about("no such loader") == ""
    monkeypatch.setattr(ranking.plugins, "names", lambda _: ["os"])
    monkeypatch.setattr(ranking.plugins, "load", lambda *_: run_records)
    assert ranking.about("os").startswith("Reads the plan and the records")


def run(program, *arguments, **kwargs):
    command = [sys.executable, SCRIPTS / program, *arguments]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **kwargs)


def test_programs_by_hand_and_their_errors(tmp_path):
    path = make_results(tmp_path, [Made("a", "ram", [1.0])])
    assert run("make_tables.py", "--plan", path, "--root", tmp_path, "--out", tmp_path / "t").returncode == 0
    assert sorted(one.name for one in (tmp_path / "t").iterdir()) == sorted(
        [*(f"{name}.csv" for name in COLUMNS), "dataset.json", "host.json"]
    )
    with open(tmp_path / "t" / "ranking.csv", newline="") as file:
        assert tuple(next(csv.reader(file))) == COLUMNS["ranking"]
    failed = run("make_tables.py", "--plan", tmp_path / "none.json", "--out", tmp_path / "u")
    assert failed.returncode == 2
    assert failed.stderr.startswith("error: ")
    assert "Traceback" not in failed.stderr
    assert not (tmp_path / "u").exists()


def test_the_printed_ranking_fits_and_is_plain_when_piped(tmp_path):
    made, bounds = example()
    long = "a_loader_with_a_name_that_is_much_too_long_for_a_column"
    made.append(Made(long, "a_tier_with_a_long_name", [234566.789, 234567.8, 234568.9], options={"gather": "batch"}))
    made.append(Made("bad", "ram", ["skipped"] * 3, reason="\033[31mred\033[0m and\na line break " * 9))
    tables_of(tmp_path, made, bounds=bounds)
    printed = run("print_ranking.py", "--tables", tmp_path / "tables", "--reports", "report/index.html", "x.html")
    assert printed.returncode == 0, printed.stderr
    assert max(map(len, printed.stdout.splitlines())) <= print_ranking.WIDTH
    assert "\033" not in printed.stdout
    assert "2= numpy_memmap " in printed.stdout
    assert "failed:\n  webdataset on disk" in printed.stdout
    assert printed.stdout.rstrip().endswith("Report: report/index.html\nReport: x.html")


def test_colour_marks_the_first_rank_and_the_failed(tmp_path):
    tables = tables_of(tmp_path, [Made("a", "ram", [1.0]), Made("b", "ram", ["failed"])])
    text = "\n".join(print_ranking.ranking_lines(tables, colour=True))
    assert "\033[1m" in text
    assert "\033[31m" in text
    assert "\033" not in "\n".join(print_ranking.ranking_lines(tables, colour=False))


def test_numbers_have_no_false_precision():
    assert [number_text(value) for value in (24103.4, 152.31, 1.5249, 0.0048123, 0, None)] == [
        "24,103",
        "152",
        "1.52",
        "0.00481",
        "0",
        "",
    ]
    assert [bytes_text(value) for value in (12, 1500, 328_000_000, 2.5e13)] == ["12 B", "1.50 kB", "328 MB", "25.0 TB"]
    assert [duration_text(value) for value in (0.5, 80.0, 4800.0)] == ["0.500 seconds", "1.33 minutes", "1.33 hours"]


def test_cold_results_are_ranked_apart_and_not_by_the_warm_bound(tmp_path):
    made = [
        Made("a", "disk", [100.0, 101.0, 102.0]),
        Made("b", "disk", [50.0, 51.0, 52.0]),
        Made("a", "disk", [10.0, 10.1, 10.2], cache="cold"),
        Made("b", "disk", [20.0, 20.1, 20.2], cache="cold"),
    ]
    tables = tables_of(tmp_path, made, bounds={("cpu", 32): [200.0] * 3})
    rows = [(row["loader"], row["cache"], row["rank"], row["percent_of_bound"]) for row in tables["best"]]
    assert rows == [("a", "warm", 1, 50.5), ("b", "warm", 2, 25.5), ("b", "cold", 1, None), ("a", "cold", 2, None)]
    assert {row["times_slower_than_best"] for row in tables["best"] if row["rank"] == 1} == {1.0}
    assert panels(tables["best"]) == ["CPU", "CPU, cold cache"]
    lines = print_ranking.ranking_lines(tables, colour=False)
    assert [line for line in lines if line.startswith("CPU")] == [
        "CPU, data set demo",
        "CPU, cold cache, data set demo",
    ]


def test_what_a_cold_run_used_stands_beside_no_speed(tmp_path):
    """Its record counts the construction of each epoch's loader too."""
    tables = tables_of(tmp_path, [Made("a", "disk", [100.0], cache="cold"), Made("a", "disk", [100.0])])
    assert [(row["cache"], row["cpu_seconds_per_1000_clips"]) for row in tables["ranking"]] == [
        ("warm", 15.0),
        ("cold", None),
    ]
    assert [row["read_bytes"] for row in tables["runs"]] == [None, 4096]


def test_a_missing_cold_run_is_missed_as_such(tmp_path):
    tables = tables_of(tmp_path, [Made("a", "disk", [None], cache="cold"), Made("a", "disk", [1.0])])
    assert [(row["cache"], row["status"]) for row in tables["ranking"]] == [("warm", "ok"), ("cold", "missing")]


def test_cpu_time_is_the_median_over_runs(tmp_path):
    tables = tables_of(tmp_path, [Made("a", "ram", [100.0, 200.0, 300.0]), Made("b", "ram", ["failed"] * 3)])
    assert [row["cpu_seconds_per_1000_clips"] for row in tables["ranking"]] == [7.5, None]
    assert [row["cpu_seconds_per_1000_clips"] for row in tables["runs"]][:3] == [15.0, 7.5, 5.0]
    assert {row["minor_faults"] for row in tables["runs"] if row["status"] == "ok"} == {900}
