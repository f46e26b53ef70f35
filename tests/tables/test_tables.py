"""The tables and the terminal's ranking, from made runs whose answer is known."""

import csv
import json
import math
import subprocess

import pandas
import pytest

from scripts.common import plugins
from scripts.common.errors import UserError
from scripts.common.files import read_json, write_json
from scripts.common.plan_file import read_plan
from scripts.common.scenarios import scenarios
from scripts.common.text import bytes_text, duration_text, number_text
from scripts.report import terminal
from scripts.report.shown import shown_tables
from scripts.tables import chain, make_tables, summarize_loader
from scripts.tables.columns import COLUMNS, DOCUMENTS, settings_text
from tests.support.made_runs import (
    WARNING,
    Made,
    example,
    explained,
    make_results,
    record_path,
    run_record,
    session,
    tables_from,
    tables_of,
    tensors_record,
)
from tests.support.programs import program_line


def ranked(tables, name="ranking"):
    return [(row["rank"], row["loader"]) for row in tables[name]]


def test_speeds_ranges_and_percent_of_bound(tmp_path):
    made = [Made("b", "ram", [100.0, 130.0, 110.0]), Made("a", "ram", [1000.0, 900.0, 950.0])]
    tables = tables_of(tmp_path, made, bounds={("cpu", 32): [1900.0, 2000.0, 1800.0]})
    first, second = tables["ranking"]
    speed = (1000 * 900 * 950) ** (1 / 3)  # logarithms are averaged, as their differences are
    assert (first["rank"], first["loader"], first["items_per_second"]) == (1, "a", pytest.approx(speed))
    assert (first["lowest"], first["highest"]) == (900.0, 1000.0)
    assert first["percent_of_bound"] == pytest.approx(100 * speed / 1900)
    assert first["times_slower_than_best"] == 1.0
    assert (second["rank"], second["rank_high"]) == (2, 2)
    assert second["times_slower_than_best"] == pytest.approx(speed / (100 * 130 * 110) ** (1 / 3))
    assert first["first_batch_seconds"] == pytest.approx(0.6)
    [bound] = tables["bounds"]
    assert {key: value for key, value in bound.items() if value not in (None, "")} == {
        **{"bound": "in_memory", "device": "cpu", "batch_size": 32, "runs": 3},
        **{"items_per_second": 1900.0, "lowest": 1800.0, "highest": 2000.0},
    }
    assert (first["bound"], first["bound_items_per_second"]) == ("in_memory", 1900.0)


def test_the_bound_of_another_batch_size_or_device_does_not_apply(tmp_path):
    made = [Made("a", "ram", [100.0], batch_size=64), Made("a", "ram", [90.0], device="cuda")]
    tables = tables_of(tmp_path, made, bounds={("cpu", 32): [200.0]})
    assert [row["percent_of_bound"] for row in tables["ranking"]] == [None, None]
    assert [row["rank"] for row in tables["ranking"]] == [1, 1]  # each device has a ranking of its own


def test_a_planned_bound_without_a_file_has_no_speed(tmp_path):
    plan = read_plan(make_results(tmp_path, [Made("a", "ram", [1.0])], bounds={("cpu", 32): [2.0]}))
    record_path(tmp_path, plan["bounds"][0]).unlink()
    [row] = tables_from(tmp_path, plan)["bounds"]
    assert (row["runs"], row["items_per_second"]) == (0, None)


def intervals_of(tables, name="ranking"):
    return {row["loader"]: (row["rank"], row["rank_high"]) for row in tables[name]}


def test_a_rank_is_an_interval_of_what_is_surely_faster_and_surely_slower(tmp_path):
    """b is not distinguishable from a, nor from c, which a is significantly faster than."""
    made = [
        Made("a", "ram", [100.0, 102.0, 104.0, 101.0, 103.0]),
        Made("b", "ram", [99.0, 98.0, 100.0, 100.5, 97.0]),
        Made("c", "ram", [93.0, 95.0, 96.0, 93.5, 96.5]),
        Made("d", "ram", [50.0, 51.5, 52.0, 50.0, 52.0]),
    ]
    tables = tables_of(tmp_path, made)
    assert intervals_of(tables) == {"a": (1, 2), "b": (1, 3), "c": (2, 3), "d": (4, 4)}
    assert intervals_of(tables, "best") == intervals_of(tables)


def test_single_runs_have_no_rank_and_take_none_from_the_others(tmp_path):
    made = [
        Made("once", "ram", [900.0]),
        Made("a", "ram", [100.0, 101.0, 102.0]),
        Made("b", "ram", [50.0, 51.0, 50.5]),
    ]
    tables = tables_of(tmp_path, made)
    assert intervals_of(tables) == {"once": (None, None), "a": (1, 2), "b": (2, 3)}
    assert tables["ranking"][0]["loader"] == "once"
    names = ("interval_low", "interval_high", "slower_low", "slower_high")
    assert [tables["ranking"][0][name] for name in names] == [None] * 4
    alone = tables_of(tmp_path / "alone", [Made("a", "ram", [1.0], workers=0)])
    assert intervals_of(alone) == {"a": (1, 1)}, "nothing to be held against"


def test_a_setting_that_left_after_its_first_run_does_not_stand_for_its_loader(tmp_path):
    """It was nearly as fast as the one that stayed in a fast round, and as of the mean round a little faster."""
    made = [
        Made("a", "ram", [100.0, 90.0, 91.0], workers=0),
        Made("a", "ram", [99.9, None, None], workers=2),
        Made("b", "ram", [50.0, 50.5, 51.0], workers=0),
    ]
    tables = tables_of(tmp_path, made)
    assert [(row["loader"], row["runs"]) for row in tables["best"]] == [("a", 3), ("b", 3)]
    assert tables["ranking"][0]["runs"] == 1, "else nothing is tried"


def test_a_speed_is_the_same_among_all_results_and_among_the_best(tmp_path):
    """What the other settings showed of a round in which a result was not run is known of it in both tables."""
    made = [
        Made("a", "ram", [100.0, 204.0, 49.0, 118.0], workers=0),
        Made("a", "ram", [94.0, 160.0, 52.0, 110.0], workers=2),
        Made("b", "ram", [50.0, 108.0, None, None], workers=0),
        Made("b", "ram", [31.0, 55.0, None, None], workers=2),
    ]
    tables = tables_of(tmp_path, made)
    names = ("slug", "items_per_second", "interval_low", "interval_high", "percent_of_bound")
    among_all = {row["loader"]: [row[name] for name in names] for row in reversed(tables["ranking"])}
    assert {row["loader"]: [row[name] for name in names] for row in tables["best"]} == among_all


def test_what_left_early_stands_as_of_the_mean_round(tmp_path, monkeypatch):
    """b was run only while the machine was slow, a twice as fast all the time. AU is of the speeds shown."""
    given = []
    monkeypatch.setattr(chain, "with_step_au", lambda rows, _plan: given.extend(rows) or given)
    made = [
        Made("a", "ram", [100.0, 101.0, 102.0, 400.0, 401.0, 402.0]),
        Made("b", "ram", [50.2, 50.3, 51.1, None, None, None]),
    ]
    tables = tables_of(tmp_path, made)
    first, second = tables["ranking"]
    assert (second["loader"], second["runs"], second["lowest"], second["highest"]) == ("b", 3, 50.2, 51.1)
    assert second["times_slower_than_best"] == pytest.approx(2, rel=0.01)
    assert first["items_per_second"] / second["items_per_second"] == pytest.approx(2, rel=0.01)
    assert second["status"] == "ok" and second["reason"] == ""
    speeds = {row["loader"]: row["items_per_second"] for row in given}
    assert speeds == pytest.approx({row["loader"]: row["items_per_second"] for row in tables["ranking"]})


def test_one_failed_run_takes_the_speed_from_the_result(tmp_path):
    made = [Made("wrong", "ram", [900.0, "failed", 901.0]), Made("right", "ram", [10.0, 11.0, 12.0])]
    tables = tables_of(tmp_path, made)
    assert ranked(tables) == [(1, "right"), (None, "wrong")]
    row = tables["ranking"][1]
    assert (row["status"], row["runs"], row["failed"], row["items_per_second"]) == ("failed", 2, 1, None)
    assert "3 items altered, first 17" in row["reason"]
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
    assert tables["ranking"][0]["reason"] == "", "a result is run as often as the race lets it"
    assert [(run["loader"], run["status"]) for run in tables["runs"]] == [
        *(("absent", "missing"), ("partly", "ok"), ("dali", "skipped"), ("dali", "skipped"))
    ]
    rows = {(row["loader"], row["status"]): row for row in tables["skipped"]}
    assert rows["dali", "skipped"]["reason"] == "not installed: dali"
    assert rows["dali", "skipped"]["repeats"] == 2
    assert rows["absent", "missing"]["repeats"] == 1
    assert ("partly", "missing") not in rows
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
    assert disk["random_items_per_second"] == 2850.0
    assert disk["random_latency_ms"] == pytest.approx(0.35)
    assert (ram["rotational"], ram["reason"], ram["warnings"]) == (None, "fio is not installed", 1)
    assert [(row["loader"], row["tier"], row["code"]) for row in tables["warnings"]] == [
        ("a", "ram", "load"),
        ("", "ram", "not_profiled"),
    ]
    assert tables["dataset"]["rejected_reasons"][0] == {"reason": "shorter than 0.5 s", "items": 2}
    assert tables["dataset"]["corpus"]["ids_hash"] == "0123456789abcdef"
    assert tables["host"]["hosts"][0]["runs"] == 2
    assert tables["host"]["versions"]["torch"] == ["2.11.0"]


def test_text_from_outside_survives_the_tables(tmp_path):
    reason = 'a "quoted" reason,\nwith a line break, NA and é'
    tables = tables_of(tmp_path, [Made("nan", "None", ["skipped"], reason=reason)])
    assert (tables["runs"][0]["loader"], tables["runs"][0]["tier"]) == ("nan", "None")
    assert tables["skipped"][0]["reason"] == reason


def test_the_folder_of_tables_is_whole_or_not_there(tmp_path):
    plan = read_plan(make_results(tmp_path, [Made("a", "ram", [1.0])]))
    plan["formats"] = [["broken"]]
    with pytest.raises(TypeError):
        make_tables.make_tables({**plan, "dataset": None}, tmp_path, tmp_path / "tables")
    assert not (tmp_path / "tables").exists()


def test_tables_are_made_anew_in_a_folder_that_snakemake_has_marked(tmp_path):
    plan = read_plan(make_results(tmp_path, [Made("a", "ram", [1.0])]))
    tables_from(tmp_path, plan)
    (tmp_path / "tables" / ".snakemake_timestamp").touch()
    assert tables_from(tmp_path, plan)["runs"]


def test_a_folder_with_other_files_is_not_replaced(tmp_path):
    plan = read_plan(make_results(tmp_path, [Made("a", "ram", [1.0])]))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("precious")
    with pytest.raises(UserError, match=r"thesis\.tex"):
        make_tables.make_tables(plan, tmp_path, tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.tex").exists()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"items_per_second": -1}, "items_per_second"),
        ({"typo": 1}, "typo"),
        ({"status": "fine"}, "fine"),
        ({"times": None}, "times"),
        ({"items_per_second": None}, "items_per_second"),
        ({"record": "other"}, "record"),
        ({"loader": "another"}, "the plan expects"),
    ],
)
def test_a_broken_record_is_named(tmp_path, change, expected):
    plan = read_plan(make_results(tmp_path, [Made("a", "ram", [1.0])]))
    path = record_path(tmp_path, plan["results"][0])
    write_json(path, read_json(path) | change)
    with pytest.raises(UserError, match=expected) as error:
        tables_from(tmp_path, plan)
    assert str(path) in str(error.value)
    assert "Move the file away" in str(error.value)


def test_a_record_cut_short_is_named(tmp_path):
    plan = read_plan(make_results(tmp_path, [Made("a", "ram", [1.0])]))
    path = record_path(tmp_path, plan["results"][0])
    path.write_text(path.read_text()[:100])
    with pytest.raises(UserError, match=r"\.json"):
        tables_from(tmp_path, plan)


def test_one_line_of_pandas_reads_a_summary(tmp_path):
    """A row a run, with the values of its result."""
    made = [Made("dali_npy", "ram", [1.0, 3.0, 2.0]), Made("dali_npy", "disk", [None, "skipped", "skipped"])]
    no_gpu = {"loader": "dali_npy", "tier": None, "settings": {"device": "cuda"}, "reason": "no GPU"}
    path = make_results(tmp_path, made, skipped=[no_gpu])
    command = ["--plan", path, "--loader", "dali_npy", "--root", tmp_path, "--out", tmp_path / "dali_npy.json"]
    assert run("summarize_loader.py", *command).returncode == 0
    frame = pandas.read_json(tmp_path / "dali_npy.json")
    assert list(frame["status"]) == ["ok"] * 3 + ["skipped"] * 3
    ram = frame[frame["tier"] == "ram"]
    assert list(ram["items_per_second"]) == [1.0, 3.0, 2.0]
    assert list(ram["result_items_per_second"]) == pytest.approx([6 ** (1 / 3)] * 3)
    assert list(ram["repeat"]) == [0, 1, 2]
    assert set(ram["result_runs"]) == {3}
    for row in frame.iloc[:-1].itertuples():
        assert read_json(tmp_path / row.path)["repeat"] == row.repeat
    assert frame["reason"].iloc[-1] == "no GPU"


def test_summary_needs_no_other_loaders_runs(tmp_path):
    path = make_results(tmp_path, [Made("a", "ram", [1.0, 3.0]), Made("b", "ram", [None, None])])
    rows = summarize_loader.summarize(read_plan(path), "a", tmp_path)
    names = ("result_items_per_second", "result_lowest", "result_highest", "result_runs")
    assert [tuple(row[name] for name in names) for row in rows] == [(pytest.approx(math.sqrt(3)), 1.0, 3.0, 2)] * 2
    with pytest.raises(UserError, match="Did you mean 'a'"):
        summarize_loader.summarize(read_plan(path), "aa", tmp_path)


def test_a_summary_counts_the_runs_that_the_ranking_counts(tmp_path):
    """The limit of what is left out is one of all results of a scenario: that of the most disturbed one."""
    made = [
        Made("a", "ram", [100.0] * 4, others=[22.0, 23.0, 24.0, 25.0]),
        Made("b", "ram", [90.0] * 4, others=[5.0, 10.0, 20.0, 30.0]),
    ]
    plan = read_plan(make_results(tmp_path, made))
    ranked = {row["loader"]: row for row in tables_from(tmp_path, plan)["ranking"]}
    for loader, row in ranked.items():
        for found in summarize_loader.summarize(plan, loader, tmp_path):
            assert found["result_runs"] == row["runs"], loader
            assert found["result_items_per_second"] == pytest.approx(row["items_per_second"]), loader
    assert ranked["b"]["runs"] == 4


def test_what_was_measured_is_what_is_said(tmp_path, monkeypatch):
    """Tables come from the records, whatever the loader's file has become since."""
    path = make_results(tmp_path, [Made("webdataset", "ram", [1.0, 3.0], "webdataset")])
    module = plugins.load("loaders", "webdataset")
    said = (plugins.describe(module), module.ORDER)
    for name, value in {"__doc__": "Another.", "ORDER": "other", "OPTIONS": {}}.items():
        monkeypatch.setattr(module, name, value)
    tables = tables_from(tmp_path, read_plan(path))
    for row in (*tables["ranking"], *tables["best"]):
        assert (row["about"], row["declared"]["order"]) == said
        assert "wds.DataPipeline(" in row["declared"]["program"]
        assert row["declared"]["options"] == {"decoder": "wave", "shuffle_buffer": 1000}
        assert row["declared"]["versions"] == {"torch": "2.11.0"}


def test_a_result_is_what_its_last_run_noted_and_one_without_notes_what_the_plan_says(tmp_path):
    made = [Made("a", "ram", [1.0, 3.0]), Made("b", "ram", [1.0, 2.0]), Made("c", "ram", [None, None])]
    path = make_results(tmp_path, made)
    a, b, _ = read_plan(path)["results"]
    noted = run_record(made[0], 1)["declared"]
    later = record_path(tmp_path, a, 1)
    write_json(later, read_json(later) | {"declared": noted | {"about": "Later."}})
    common = record_path(tmp_path, b).with_name("result.json")
    write_json(common, {key: value for key, value in read_json(common).items() if key != "declared"})
    rows = {row["loader"]: row for row in tables_from(tmp_path, read_plan(path))["ranking"]}
    assert rows["a"]["about"] == "Later."
    assert rows["b"]["about"] == rows["c"]["about"] == "A loader made up by a test."
    assert rows["a"]["declared"]["program"] and "program" not in rows["b"]["declared"]


def run(program, *arguments, **kwargs):
    command = [*program_line(program), *arguments]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **kwargs)


def test_programs_by_hand_and_their_errors(tmp_path):
    path = make_results(tmp_path, [Made("a", "ram", [1.0])])
    assert run("make_tables.py", "--plan", path, "--root", tmp_path, "--out", tmp_path / "t").returncode == 0
    assert sorted(one.name for one in (tmp_path / "t").iterdir()) == sorted(
        [*(f"{name}.csv" for name in COLUMNS), *(f"{name}.json" for name in DOCUMENTS), "records.jsonl.gz"]
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
    lines = [line for line in printed.stdout.splitlines() if not line.startswith("All settings: feedrate ")]
    assert max(map(len, lines)) <= terminal.WIDTH
    assert "\033" not in printed.stdout
    ranks = {line.split()[1]: line.split()[0] for line in printed.stdout.splitlines() if " ram " in line}
    assert (ranks["numpy_memmap"], ranks["lazy_memmap"]) == ("2-3", "2-3"), printed.stdout
    assert "bad" not in ranks and "bad" in printed.stdout, "what could not run is named below the table"
    assert printed.stdout.rstrip().endswith("Report: report/index.html\nReport: x.html")


def test_colour_marks_the_first_rank_and_the_failed(tmp_path):
    tables = tables_of(tmp_path, [Made("a", "ram", [1.0]), Made("b", "ram", ["failed"])])
    text = "\n".join(terminal.ranking_lines(tables, colour=True))
    assert "\033[1m" in text
    assert "\033[31m" in text
    assert "\033" not in "\n".join(terminal.ranking_lines(tables, colour=False))


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
        Made("a", "ram", [100.0, 101.0, 102.0]),
        Made("b", "ram", [50.0, 51.0, 52.0]),
        Made("a", "ram", [10.0, 10.1, 10.2], cache="cold"),  # fio did not measure that tier
        Made("b", "ram", [20.0, 20.1, 20.2], cache="cold"),
    ]
    tables = tables_of(tmp_path, made, bounds={("cpu", 32): [200.0] * 3})
    rows = [(row["loader"], row["cache"], row["rank"], row["percent_of_bound"]) for row in tables["best"]]
    half, quarter = pytest.approx(50.5, abs=0.01), pytest.approx(25.5, abs=0.01)
    assert rows == [("a", "warm", 1, half), ("b", "warm", 2, quarter), ("b", "cold", 1, None), ("a", "cold", 2, None)]
    assert {row["times_slower_than_best"] for row in tables["best"] if row["rank"] == 1} == {1.0}
    assert scenarios(tables["best"]) == ["CPU", "CPU, cold cache"]
    lines = terminal.ranking_lines(tables, colour=False)
    assert [line for line in lines if line.startswith("CPU")] == [
        "CPU, data set demo, files in memory (warm page cache)",
        "CPU, cold cache, data set demo",
    ]


def test_what_a_cold_run_used_stands_beside_no_speed(tmp_path):
    """Its record counts the construction of each epoch's loader too."""
    tables = tables_of(tmp_path, [Made("a", "disk", [100.0], cache="cold"), Made("a", "disk", [100.0])])
    assert [(row["cache"], row["cpu_seconds_per_1000_items"]) for row in tables["ranking"]] == [
        ("warm", 15.0),
        ("cold", None),
    ]
    assert [row["read_bytes"] for row in tables["runs"]] == [None, 4096]


def test_cpu_time_is_the_median_over_runs(tmp_path):
    tables = tables_of(tmp_path, [Made("a", "ram", [100.0, 200.0, 300.0]), Made("b", "ram", ["failed"] * 3)])
    assert [row["cpu_seconds_per_1000_items"] for row in tables["ranking"]] == [7.5, None]
    assert [row["cpu_seconds_per_1000_items"] for row in tables["runs"]][:3] == [15.0, 7.5, 5.0]
    assert {row["minor_faults"] for row in tables["runs"] if row["status"] == "ok"} == {900}


def test_outliers_and_disturbances_are_counted(tmp_path):
    disturbed = {**WARNING, "code": "stolen-time"}
    made = [
        Made("b", "ram", [50.0, 50.5, 51.0, 51.5, 30.0], warnings=[disturbed, disturbed]),
        Made("c", "ram", [40.0, 41.0, 42.0, None], warnings=[WARNING]),
        Made("e", "ram", [5.0, "failed"], warnings=[disturbed]),
        Made("f", "ram", [None, None]),
    ]
    tables = tables_of(tmp_path, made)
    rows = {row["loader"]: (row["outliers"], row["disturbed"]) for row in tables["ranking"]}
    assert rows == {"b": (1, 5), "c": (None, 0), "e": (None, 1), "f": (None, 0)}
    seen = {row["loader"]: row["disturbed"] for row in tables["runs"]}
    assert seen == {"b": True, "c": False, "e": True, "f": None}, "what was never run is neither disturbed nor not"


def test_runs_from_which_others_took_the_machine_are_left_out(tmp_path):
    made = [
        Made("a", "ram", [100.0, 101.0, 102.0, 33.0], others=[0.0, 2.0, 0.0, 50.0]),
        Made("b", "ram", [25.0, 8.0, 25.5, 25.7], others=[1.0, 48.0, 0.0, 0.0]),
    ]
    tables = tables_of(tmp_path, made)
    rows = {row["loader"]: row for row in tables["ranking"]}
    assert [(rows[name]["runs"], rows[name]["left_out"], rows[name]["lowest"]) for name in "ab"] == [
        (3, 1, 100.0),
        (3, 1, 25.0),
    ]
    assert (rows["a"]["rank"], rows["b"]["rank"]) == (1, 2) and 2 < rows["b"]["slower_low"] <= 4
    assert [row["disturbed_percent"] for row in tables["runs"] if row["loader"] == "a"] == [0.0, 2.0, 0.0, 50.0]
    assert [row["counts"] for row in tables["runs"] if row["loader"] == "b"] == [True, False, True, True]


def test_results_of_which_no_round_counts_for_both_are_shown_as_they_ran(tmp_path):
    made = [
        Made("a", "ram", [109.0, 30.0], others=[0.0, 50.0]),
        Made("b", "ram", [500.0, 1471.0], others=[50.0, 0.0]),
    ]
    tables = tables_of(tmp_path, made)
    rows = {row["loader"]: row for row in tables["ranking"]}
    assert [rows[name]["items_per_second"] for name in "ab"] == pytest.approx([109, 1471])
    assert [rows[name]["highest"] for name in "ab"] == [109.0, 1471.0]
    assert rows["a"]["slower_low"] is None and rows["a"]["rank"] is None
    answer = tables["verdict"]["answers"][0]
    assert answer["form"] == "noisy" and answer["at_most_times"] is None and answer["slower"] is None


def test_a_result_that_something_outside_works_for_is_told_and_keeps_its_runs(tmp_path):
    quiet = {"others": [0.0, 2.0, 1.0]}
    made = [Made(name, "ram", [100.0, 101.0, 102.0], **quiet) for name in "ab"]
    made.append(Made("served", "ram", [50.0, 51.0, 52.0], others=[40.0, 48.0, 52.0]))
    rows = {row["loader"]: row for row in tables_of(tmp_path, made)["ranking"]}
    found = {name: (row["works_outside"], row["runs"]) for name, row in rows.items()}
    assert found == {"a": (False, 3), "b": (False, 3), "served": (True, 3)}


def test_the_bound_tells_the_noise_of_the_machine(tmp_path):
    bounds = {("cpu", 32): [100.0, 110.0, 90.0, 100.0], ("cpu", 64): [100.0]}
    tables = tables_of(tmp_path, [Made("a", "ram", [1.0])], bounds=bounds)
    noise = {row["batch_size"]: row for row in tables["noise"]}
    assert (noise[32]["control_runs"], noise[32]["drift_seen"], noise[32]["range_percent"]) == (4, False, 20.0)
    assert (noise[64]["control_runs"], noise[64]["drift_seen"], noise[64]["variation_percent"]) == (1, None, None)
    assert [(row["code"], row["slug"]) for row in tables["warnings"] if not row["loader"] and not row["tier"]] == [
        ("noisy-machine", "control run cpu batch 32")
    ]


def test_panels_stand_by_device_task_cache_and_step(tmp_path):
    asked = [
        {"task": "lightning"}, {"cache": "limited"}, {"step_ms": 20.0}, {"task": "train"}, {"device": "cuda"},
        {"cache": "cold", "step_ms": 5.0}, {"task": "iterate"}, {"cache": "cold"}, {}, {"step_ms": 5.0},
    ]  # fmt: skip
    tables = tables_of(tmp_path, [Made("a", "disk", [10.0], **one) for one in asked])
    assert scenarios(tables["best"]) == [
        *("CPU", "CPU, 5 ms step", "CPU, 20 ms step", "CPU, cold cache", "CPU, cold cache, 5 ms step"),
        *("CPU, limited cache", "CPU, plain loop", "CPU, training", "CPU, training by Lightning", "CUDA"),
    ]
    assert {row["rank"] for row in tables["best"]} == {1}


def test_what_the_bottleneck_of_a_result_is(tmp_path):
    parts = explained(100.0, 2000.0, read=400.0, transfer=110.0, everything=1500.0)
    made = [
        Made("a", "ram", [100.0] * 3, trials=parts),
        Made("b", "ram", [90.0] * 3, au=91.0, task="train"),
        Made("b", "ram", [80.0] * 3, au=60.0, task="lightning"),
        Made("b", "ram", [70.0] * 3, au=30.0, step_ms=20.0),
        Made("b", "ram", [60.0] * 3),
        Made("c", "ram", ["failed"] * 3, trials=parts),
    ]
    tables = tables_of(tmp_path, made)
    rows = {(row["loader"], row["scenario"]): row for row in tables["ranking"]}
    first = rows["a", "CPU"]
    assert (first["bottleneck"], first["bottleneck_percent"]) == ("read", pytest.approx(75))
    assert "75 % (400 items/s" in first["evidence"]
    held = {
        scenario: (row["bottleneck"], row["bottleneck_percent"])
        for (name, scenario), row in rows.items()
        if name == "b"
    }
    assert held["CPU, training"] == ("compute", 91)
    assert held["CPU, training by Lightning"] == ("waiting", 40)
    assert held["CPU, 20 ms step"] == ("waiting", 70)
    assert held["CPU"] == ("", None)
    assert rows["c", "CPU"]["bottleneck"] == ""
    found = [(row["loader"], row["part"], row["items_per_second_without"]) for row in tables["parts"]]
    assert found == [("a", "read", 400.0), ("a", "transfer", 110.0), ("a", "consumer", None), ("a", "framework", None)]
    assert tables["parts"][1]["percent"] == pytest.approx(100 * (1 - 100 / 110))


def test_the_minimum_step_is_computed_from_trials_and_blank_without(tmp_path):
    made = [Made("a", "ram", [6400.0] * 3, wait=2.0), Made("b", "ram", [320.0] * 3, wait=1.0), Made("d", "ram", [6.0])]
    found = [row["minimum_step_ms"] for row in tables_of(tmp_path, made)["ranking"]]
    assert found == [pytest.approx(18.0), pytest.approx(90.0, rel=0.01), None]


def test_tensors_and_what_disturbed_them(tmp_path):
    tensors = [
        tensors_record(0, {"torch": 300.0, "numpy": 100.0}, warnings=[WARNING]),
        tensors_record(1, {"torch": 500.0}),
    ]
    tables = tables_of(tmp_path, [Made("a", "ram", [9.0])], tensors=tensors)
    found = [(row["method"], row["runs"], row["items_per_second"], row["times_slower"]) for row in tables["tensors"]]
    assert found == [("torch", 2, 400, 1), ("numpy", 1, 100, 4)]
    assert ("tensors cpu batch 32", "load") in {(row["slug"], row["code"]) for row in tables["warnings"]}


def test_emulated_storage_is_marked_in_the_tables_and_called_so_in_reports(tmp_path):
    experiment = session(3)
    failing = Made("bad", "slow", ["failed"] * 3, cache="cold", warnings=[WARNING])
    tables = tables_of(tmp_path, [*experiment.pop("made"), failing], **experiment)
    for name in ("runs", "ranking", "best", "tiers"):
        assert {row["tier"] for row in tables[name] if row["emulated"]} == {"slow"}, name
    shown = shown_tables(tmp_path / "tables")
    for name in ("runs", "ranking", "best", "tiers", "bounds", "parts", "skipped", "warnings"):
        assert "slow" in {row["tier"] for row in tables[name]}, name
        assert {row["tier"] for row in shown[name]} & {"slow", "slow (emulated)"} == {"slow (emulated)"}, name
    summary = summarize_loader.summarize(read_plan(tmp_path / "results/runs/demo/plan.json"), "dali_npy", tmp_path)
    assert {row["tier"] for row in summary if row["emulated"]} == {"slow"}


def test_a_gain_is_the_ratio_within_the_rounds_that_both_have(tmp_path):
    """The machine is four times faster in rounds in which the lower step was not run any more."""
    made = [
        Made("a", "ram", [100.0, 101.0, 99.0, None, None]),
        Made("b", "ram", [200.0, 204.0, 197.0, 800.0, 801.0]),
    ]
    step = {"tier": "ram", "slug": made[0].slug, "reason": None}
    steps = [{"change": loader, "loader": loader, **step} for loader in "ab"]
    _, second = tables_of(tmp_path, made, ladder=steps)["ladder"]
    assert second["faster_low"] < second["times_faster"] < second["faster_high"]
    assert second["times_faster"] == pytest.approx(2, rel=0.01)
