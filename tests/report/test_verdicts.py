"""What the report says to do, from made runs whose answer is known, the sad cases among them."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.common import plugins
from scripts.common.plan_file import read_plan
from scripts.report import print_ranking, snippets, terminal, verdict_texts
from scripts.report.commands import lengthened
from scripts.report.model import Answer
from scripts.report.verdicts import _sustains, main_panel, verdicts
from scripts.tables import make_tables
from scripts.tables.columns import read_tables
from tests.support.made_runs import DISTURBED, WARNING, Made, explained, make_results, session
from tests.support.made_verdicts import clear, close, noisy, other, runs, single, tables_of

GOALS = ["fastest", "fastest_cold", "least_memory", "simplest", "cheapest"]
HOSTILE = "<script>alert(1)</script>\"'\n\033[31m$x$ & {{ 7 * 7 }}"


def by_goal(tables):
    return {verdict["goal"]: verdict for verdict in verdicts(tables)}


def named(verdict):
    """Return the recommended (loader, tier) and those that tie with it."""
    row = verdict["row"]
    return row and (row["loader"], row["tier"]), [(one["loader"], one["tier"]) for one in verdict["ties"]]


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """The verdicts of an experiment in which everything there is was measured ten times."""
    experiment = session()
    return by_goal(tables_of(tmp_path_factory.mktemp("session"), experiment.pop("made"), "torchaudio", **experiment))


def test_each_goal_has_its_answer(everything):
    assert list(everything) == GOALS
    assert {goal: named(verdict) for goal, verdict in everything.items()} == {
        "fastest": (("numpy_memmap", "ram"), [("lazy_memmap", "ram")]),
        "fastest_cold": (("dali_npy", "disk"), [("lazy_memmap", "disk"), ("numpy_memmap", "disk")]),
        "least_memory": (("numpy_memmap", "disk"), [("lazy_memmap", "disk")]),
        "simplest": (("numpy_memmap", "disk"), [("lazy_memmap", "disk")]),  # without workers
        "cheapest": (("numpy_memmap", "ram"), []),
    }
    assert all(verdict["lacking"] == "" for verdict in everything.values())
    assert [everything[goal]["form"] for goal in GOALS] == ["equal", "equal", "use", "use", "use"]


def test_a_gain_is_its_interval(everything):
    against = everything["fastest"]["against"]
    assert (against["row"]["loader"], against["row"]["tier"]) == ("torchaudio", "ram")
    assert against["times_faster"] == pytest.approx(24000 / 310, rel=1e-3)
    assert against["faster_low"] < against["times_faster"] < against["faster_high"]
    cold = everything["fastest_cold"]["against"]
    assert (cold["row"]["cache"], cold["row"]["tier"]) == ("cold", "disk")
    assert cold["times_faster"] == pytest.approx(2430 / 279, rel=1e-3)


def test_what_one_has_now_may_be_the_answer_a_tie_slower_or_without_a_speed(tmp_path):
    made = [
        Made("a", "disk", runs(100.0)),
        Made("b", "disk", other(99.95)),
        Made("c", "disk", other(50.0), "npy"),
        Made("d", "disk", ["failed"] * 5),
    ]
    formats = {"memmap": (9.0, 1, 1), "npy": (1.0, 1, 1)}

    def against(now, goal="fastest"):
        return by_goal(tables_of(tmp_path / f"{now}-{goal}", made, now, formats=formats))[goal]

    same = against("a")["against"]
    assert (same["times_faster"], same["faster_low"]) == (1.0, None)
    tie = against("b")["against"]
    assert tie["faster_low"] < 1 < tie["faster_high"]
    slower = against("a", "cheapest")
    assert slower["row"]["loader"] == "c"
    assert slower["against"]["faster_high"] < 1
    for now in ("d", "elsewhere"):
        verdict = against(now)
        assert verdict["against"] is None
        assert now in verdict["caveat"]
    assert against(None)["against"] is None


def chosen(tmp_path, made, now=None):
    """Return the verdict for the fastest."""
    return by_goal(tables_of(tmp_path, made, now))["fastest"]


@pytest.mark.parametrize(("now", "slowest"), [(None, "d"), ("c", "c"), ("a", "d")])
def test_where_it_is_too_noisy_there_is_no_winner_but_what_is_certain(tmp_path, now, slowest):
    verdict = chosen(tmp_path, noisy(), now)
    assert verdict["form"] == "noisy" and 1 < verdict["longer"] < math.inf
    assert {verdict["row"]["loader"], verdict["ties"][0]["loader"]} == {"a", "b"} and len(verdict["ties"]) == 1
    assert verdict["behind"] > 1.25 and f"{slowest} on disk" in verdict["certain"]
    least = float(verdict["certain"].split("at least ")[1].split()[0].replace(",", ""))
    ratio = {"c": 250, "d": 620}[slowest]
    assert 10 < least < ratio, "the lower end of an interval, not a ratio of means"


def test_single_runs_distinguish_nothing(tmp_path):
    verdict = chosen(tmp_path, single(), "b")
    assert named(verdict)[1] != [] and verdict["form"] == "noisy" and verdict["certain"] == ""
    assert verdict["lacking"] == "" and verdict["against"]["faster_low"] is None, "b has a speed, and no rank"


def test_a_single_loader_is_to_be_used_and_without_any_speed_there_is_nothing_to_choose(tmp_path):
    verdict = chosen(tmp_path / "one", clear()[:1])
    assert (verdict["form"], verdict["certain"]) == ("use", "")
    none = by_goal(tables_of(tmp_path / "none", [Made("a", "disk", ["failed"] * 3)]))["fastest"]
    assert (none["row"], none["form"], none["behind"], none["certain"]) == (None, "use", None, "")


@pytest.mark.parametrize(
    "expense",
    [
        {"step_au_percent": 82.0},
        {"tier": "ram"},
        {"declared": "preloads"},
        {"batch_lifetime": "next"},
        {"workers": 3},
        {"cpu_seconds_per_1000_items": 1e6},
        {"pss_peak_bytes": 10**12},
    ],
)
def test_among_equals_the_cheapest_is_first(tmp_path, expense):
    made = [Made("dear", expense.get("tier", "disk"), runs(100.0)), Made("cheap", "disk", other(99.95))]
    tables = tables_of(tmp_path, made)
    for row in tables["best"]:
        row |= {"batch_lifetime": "lasting", "step_au_from": "tried", "step_au_percent": 95.0}
        row["cpu_seconds_per_1000_items"] = 1.0
        if row["loader"] == "dear":
            kept = {key: value for key, value in expense.items() if key not in ("declared", "tier")}
            row |= kept | ({"declared": {**row["declared"], "preloads": True}} if "declared" in expense else {})
    verdict = by_goal(tables)["fastest"]
    assert [verdict["row"]["loader"], *(row["loader"] for row in verdict["ties"])] == ["cheap", "dear"]


def test_what_feeds_the_step_that_was_asked_for_is_named_before_what_is_cheaper(tmp_path):
    for step_ms, first in ((20, "ahead"), (None, "waits")):
        made = [Made("waits", "disk", runs(100.0), workers=0), Made("ahead", "disk", other(99.95), workers=2)]
        tables = tables_of(tmp_path / str(step_ms), made, step_ms=step_ms)
        for row in tables["best"]:
            row |= {"step_au_from": "tried", "step_au_percent": 95.0 if row["loader"] == "ahead" else 82.0}
        assert by_goal(tables)["fastest"]["row"]["loader"] == first


def of_the_step(tmp_path, made, **au):
    """The verdict for the fastest, where trials found these AU at the user's step of 20 ms; 10 of all others."""
    tables = tables_of(tmp_path, made, step_ms=20)
    for row in tables["best"]:
        row |= {"step_au_from": "tried", "step_au_percent": au.get(row["loader"], 10.0)}
    return by_goal(tables)["fastest"]


@pytest.mark.parametrize(("au", "named"), [
    ({"a": 85.0, "b": 82.0, "c": 95.0}, ["b on disk", "82 %", "c on disk"]),
    ({"a": 85.0, "b": 82.0}, ["b on disk", "82 %"]),
    ({"a": 82.0, "b": 95.0}, []),
])  # fmt: skip
def test_what_is_to_be_used_says_that_it_does_not_feed_the_step_and_what_does(tmp_path, au, named):
    verdict = of_the_step(tmp_path, close(), **au)
    assert verdict["row"]["loader"] == "b" and verdict["form"] == "use"
    cautions = [one.text for one in verdict["cautions"] if one.code == "starves"]
    assert len(cautions) == bool(named) and all(part in cautions[0] for part in named)


def test_a_loader_that_holds_everything_is_named_on_a_disk(tmp_path):
    made = [Made("holds", "ram", runs(100.0)), Made("holds", "disk", other(99.95)), Made("slow", "disk", runs(50.0))]
    tables = tables_of(tmp_path, made)
    for row in tables["best"]:
        row["declared"] = {**row["declared"], "preloads": row["loader"] == "holds"}
    assert named(by_goal(tables)["fastest"])[0] == ("holds", "disk"), "a copy in RAM would be its second one"


def test_what_counts_most_of_an_expense_comes_first(tmp_path):
    tables = tables_of(tmp_path, [Made("copied", "ram", runs(100.0), workers=0), Made("slow", "disk", other(99.95))])
    assert by_goal(tables)["fastest"]["row"]["loader"] == "slow", "two workers are cheaper than a copy in RAM"


def test_few_and_disturbed_runs_are_said(tmp_path):
    made = [
        Made("a", "disk", [100.0, 101.0, 102.0], warnings=[DISTURBED, WARNING]),
        Made("b", "disk", [9.0, None, 9.0]),
    ]
    few = by_goal(tables_of(tmp_path / "few", made))["fastest"]
    partly = by_goal(tables_of(tmp_path / "partly", made[1:]))["fastest"]
    enough = by_goal(tables_of(tmp_path / "enough", [Made("a", "disk", runs(1.0)), Made("b", "disk", runs(2.0))]))
    assert [len(one["cautions"]) for one in (few, partly, enough["fastest"])] == [3, 1, 0]


def test_each_device_has_its_own_answers(tmp_path):
    made = [Made("a", "disk", runs(100.0)), Made("b", "disk", runs(50.0))]
    made += [Made("a", "disk", runs(10.0), device="cuda"), Made("b", "disk", runs(20.0), device="cuda")]
    found = verdicts(tables_of(tmp_path, made))
    assert [(one["goal"], one["device"]) for one in found] == [(goal, dev) for goal in GOALS for dev in ("cpu", "cuda")]
    assert [named(one)[0][0] for one in found[:2]] == ["a", "b"]


def test_where_nothing_traverses_the_first_panel_counts_and_is_named(tmp_path):
    made = [Made("a", "disk", runs(100.0), task="iterate"), Made("b", "disk", runs(9.0), task="iterate")]
    made += [Made("b", "disk", runs(8.0), task="lightning", au=50.0)]
    gone = {"loader": "gone", "tier": None, "settings": {"device": "cpu"}, "reason": "no such thing"}
    found = by_goal(tables_of(tmp_path, made, skipped=[gone]))
    assert named(found["fastest"])[0] == ("a", "disk") and len(found["fastest"]["cautions"]) == 1


def test_an_emulated_disk_and_an_order_that_is_no_permutation_are_said(tmp_path):
    made = [Made("webdataset", "slow", runs(10.0), cache="cold"), Made("webdataset", "ram", runs(5.0), cache="cold")]
    verdict = by_goal(tables_of(tmp_path, made, emulated=["slow"]))["fastest_cold"]
    assert named(verdict)[0] == ("webdataset", "slow (emulated)")
    assert {"emulated", "order"} <= {caution.code for caution in verdict["cautions"]}


def test_what_holds_everything_in_memory_says_so_and_how_much(tmp_path):
    made = [Made("resident", "disk", runs(900.0)), Made("numpy_memmap", "ram", runs(300.0))]
    formats = {"memmap": (1.0, 328_000_000, 4)}
    caveat = by_goal(tables_of(tmp_path, made, formats=formats))["fastest"]["caveat"]
    assert "328 MB" in caveat and "812 MB" in caveat
    lean = by_goal(tables_of(tmp_path / "ram", made[1:], formats=formats))["fastest"]["caveat"]
    assert "328 MB" in lean and "812 MB" not in lean


def test_the_fastest_in_random_order_is_one_whose_order_is_random(tmp_path):
    made = [
        Made("webdataset", "disk", runs(900.0), cache="cold"),
        Made("numpy_memmap", "disk", runs(30.0), cache="cold"),
        Made("ring", "disk", ["failed"] * 10, cache="cold"),
    ]
    found = by_goal(tables_of(tmp_path, made))["fastest_cold"]
    assert (found["row"]["loader"], found["ties"], found["form"]) == ("numpy_memmap", [], "use")
    tied = [*made[:2], Made("tensordict", "disk", other(29.99), cache="cold")]
    found = by_goal(tables_of(tmp_path / "tied", tied))["fastest_cold"]
    assert {found["row"]["loader"], found["ties"][0]["loader"]} == {"numpy_memmap", "tensordict"}, "both of rank 2"
    assert found["form"] == "equal"
    assert by_goal(tables_of(tmp_path, made))["fastest"]["row"]["loader"] == "webdataset"


def test_ties_are_all_that_cannot_be_told_from_the_best_also_behind_others(tmp_path):
    """`behind` is slower than `slower`, but so unsteady that it may be as fast as the best."""
    made = [
        Made("best", "ram", runs(100.0, 12)),
        Made("slower", "ram", other(80.0, 12)),
        Made("behind", "ram", [20.0, 130.0] * 6),
    ]
    tables = tables_of(tmp_path, made)
    low = {row["loader"]: row["slower_low"] for row in tables["best"]}
    assert low["slower"] > 1 > low["behind"], "as the ranking's own intervals say"
    assert [row["loader"] for row in by_goal(tables)["fastest"]["ties"]] == ["behind"]


def test_least_memory_is_at_most_twice_slower_and_on_a_disk_where_there_is_one(tmp_path):
    made = [
        Made("fat", "ram", runs(100.0)),
        Made("fat", "disk", runs(90.0)),
        Made("lean", "ram", runs(60.0)),
        Made("lean", "disk", runs(55.0)),
        Made("close", "disk", runs(54.0)),
        Made("leaner", "disk", runs(49.0)),
        Made("unknown", "disk", runs(80.0)),
    ]
    memory = {("fat", "ram"): runs(800e6), ("fat", "disk"): runs(900e6), ("lean", "ram"): runs(100e6)}
    memory |= {("lean", "disk"): runs(200e6), ("close", "disk"): runs(200.1e6), ("leaner", "disk"): runs(1e6)}
    memory = {key: [round(value) for value in values] for key, values in memory.items()}
    found = by_goal(tables_of(tmp_path / "disk", made, memory=memory))
    assert named(found["least_memory"]) == (("lean", "disk"), [("close", "disk")])
    rams = by_goal(tables_of(tmp_path / "ram", [made[0], made[2]], memory=memory))
    assert named(rams["least_memory"]) == (("lean", "ram"), [])
    nowhere = by_goal(tables_of(tmp_path / "none", made, memory={}))["least_memory"]
    assert named(nowhere) == (None, [])


def test_of_equal_memory_what_does_not_hold_the_whole_set_is_named(tmp_path):
    """Its memory grows with the data."""
    made = [Made("holds", "disk", runs(60.0)), Made("maps", "disk", runs(55.0))]
    memory = {("holds", "disk"): [*map(round, runs(200e6))], ("maps", "disk"): [*map(round, runs(200.1e6))]}
    tables = tables_of(tmp_path, made, memory=memory)
    assert named(by_goal(tables)["least_memory"]) == (("holds", "disk"), [("maps", "disk")])
    for row in tables["ranking"]:
        row["declared"] = {**row["declared"], "preloads": row["loader"] == "holds"}
    assert named(by_goal(tables)["least_memory"]) == (("maps", "disk"), [("holds", "disk")])


def test_least_memory_may_be_had_with_other_settings_than_the_fastest(tmp_path):
    made = [Made("a", "disk", runs(100.0), workers=4), Made("a", "disk", runs(70.0), workers=0)]
    tables = tables_of(tmp_path, [*made, Made("b", "disk", runs(10.0))])
    for row in (*tables["ranking"], *tables["runs"]):
        row["pss_peak_bytes"] = 10**8 * (1 + row["workers"])
    verdict = by_goal(tables)["least_memory"]
    assert (named(verdict), verdict["row"]["workers"]) == ((("a", "disk"), []), 0)


def test_the_simplest_has_the_fewest_workers_then_no_memory_for_files_then_the_fewest_files(tmp_path):
    formats = {"wav": (1.0, 1, 512), "memmap": (5.0, 1, 4), "tensordict": (4.0, 1, 4)}
    made = [
        Made("quick", "disk", runs(90000.0), "memmap", workers=2, wait=0.1),
        Made("files", "disk", runs(30000.0), "wav", workers=0, wait=1.5),
        Made("array", "disk", runs(20000.0), "memmap", workers=None, wait=1.5),
        Made("array", "ram", runs(40000.0), "memmap", workers=0, wait=1.5),
        Made("tensors", "disk", runs(10000.0), "tensordict", workers=0, wait=1.5),
        Made("tensors", "disk", runs(9000.0), "wav", workers=0, wait=2.7, batch_size=64),
        Made("never", "disk", runs(5000.0), "tensordict", workers=0, wait=50.0),
    ]
    verdict = by_goal(tables_of(tmp_path / "a", made, formats=formats))["simplest"]
    assert named(verdict) == (("tensors", "disk"), [("array", "disk")])
    short = by_goal(tables_of(tmp_path / "b", made, formats=formats, step_ms=10))["simplest"]
    assert named(short) == (("quick", "disk"), [])
    long = by_goal(tables_of(tmp_path / "c", made, formats=formats, step_ms=0.2))["simplest"]
    assert named(long) == (None, [])
    assert "quick on disk" in long["lacking"], "the nearest"


@pytest.mark.parametrize(
    ("wait", "step_ms", "lacking"),
    [
        (None, 20, "steps: all"),
        (90.0, 20, "sweep.workers"),
        (1.0, None, "step_ms: 20"),
    ],
)
def test_what_the_simplest_lacks(tmp_path, wait, step_ms, lacking):
    made = [Made("a", "disk", runs(9000.0), wait=wait), Made("b", "disk", runs(8000.0), wait=wait)]
    verdict = by_goal(tables_of(tmp_path, made, step_ms=step_ms))["simplest"]
    assert verdict["row"] is None
    assert lacking in verdict["lacking"]


def test_the_cheapest_to_prepare_is_read_by_its_fastest(tmp_path):
    formats = {"wav": (1.0, 3_000_000, 512), "memmap": (9.0, 1, 4), "npy": (None, None, None)}
    made = [
        Made("a", "disk", runs(900.0), "memmap"),
        Made("b", "disk", runs(100.0), "wav"),
        Made("c", "disk", other(99.95), "wav"),
        Made("d", "disk", runs(50.0), "wav"),
        Made("e", "disk", runs(999.0), "npy"),
    ]
    verdict = by_goal(tables_of(tmp_path / "a", made, formats=formats))["cheapest"]
    assert named(verdict) == (("b", "disk"), [("c", "disk")])
    untimed = by_goal(tables_of(tmp_path / "b", made[-1:], formats=formats))["cheapest"]
    assert untimed["row"] is None


@pytest.mark.parametrize(
    ("outcome", "lacking"), [("failed", "2 failed"), ("skipped", "2 skipped"), (None, "2 missing")]
)
def test_without_any_speed_every_goal_says_what_it_lacks(tmp_path, outcome, lacking):
    made = [Made(name, "disk", [outcome] * 3, cache=cache) for name in "ab" for cache in ("warm", "cold")]
    found = by_goal(tables_of(tmp_path, made, "a"))
    assert list(found) == GOALS
    for verdict in found.values():
        assert named(verdict) == (None, [])
        assert (verdict["against"], verdict["reason"], verdict["caveat"]) == (None, "", "")
        assert lacking in verdict["lacking"]


def test_a_plan_without_runs_names_no_device(tmp_path):
    plan = read_plan(make_results(tmp_path, [Made("a", "disk", [1.0])]))
    plan |= {"results": [], "bounds": [], "tensors": []}
    make_tables.make_tables(plan, tmp_path, tmp_path / "tables")
    found = verdicts(read_tables(tmp_path / "tables"))
    assert [(one["goal"], one["device"], one["row"]) for one in found] == [(goal, "", None) for goal in GOALS]


def test_a_single_loader_has_nothing_to_be_compared_with(tmp_path):
    made = [
        Made("a", "disk", runs(9.0), wait=0.5),
        Made("a", "ram", runs(99.0)),
        Made("b", "disk", ["failed"] * 5),
    ]
    found = by_goal(tables_of(tmp_path, made))
    assert named(found["fastest"]) == (("a", "ram"), [])
    assert all(found[goal]["lacking"] for goal in ("fastest", "least_memory", "simplest", "cheapest"))


# The terminal


def test_the_terminal_ends_with_the_verdict(measured):
    tables, figures, _ = measured
    program = Path(print_ranking.__file__)
    command = [sys.executable, program, "--tables", figures.parent / "tables", "--reports", "report/index.html"]
    printed = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout
    lines = terminal.verdict_lines(tables, colour=False)
    assert printed.endswith("\n".join([*lines, "Report: report/index.html", ""]))
    assert max(map(len, lines)) <= terminal.WIDTH
    coloured = terminal.verdict_lines(tables, colour=True)
    assert "\033[1m" in coloured[0]
    assert [line.replace("\033[1m", "").replace("\033[0m", "") for line in coloured] == lines


def test_many_ties_are_counted_and_no_line_is_too_long(tmp_path):
    made = [
        Made(f"a_loader_with_rather_a_long_name_{number}", tier, [5.0])
        for number in range(27)
        for tier in ("ram", "disk")
    ]
    lines = terminal.verdict_lines(tables_of(tmp_path, made), colour=False)
    assert max(map(len, lines)) <= terminal.WIDTH
    text = " ".join(" ".join(lines).split())
    assert text.count("a_loader_with_rather_a_long_name_") < 20


def test_hostile_names_are_text(tmp_path):
    made = [
        Made(HOSTILE, HOSTILE, runs(50.0), options={HOSTILE: HOSTILE}, trials=explained(50.0, read=90.0)),
        Made(HOSTILE, HOSTILE, runs(5.0), cache="cold"),
        Made("b", "disk", ["failed"] * 5, problems=[HOSTILE], reason=HOSTILE),
    ]
    tables = tables_of(tmp_path, made, HOSTILE)
    found = by_goal(tables)
    assert named(found["fastest"])[0] == (HOSTILE, HOSTILE)
    assert HOSTILE in found["fastest"]["lacking"]
    lines = terminal.verdict_lines(tables, colour=False)
    assert max(map(len, lines)) <= terminal.WIDTH
    assert all(line.isprintable() for line in lines)
    failed = tables_of(tmp_path / "failed", made[2:])
    assert HOSTILE in by_goal(failed)["fastest"]["lacking"]
    assert all(line.isprintable() for line in terminal.verdict_lines(failed, colour=False))


def test_the_program_is_the_records_and_of_an_own_file_a_word(tmp_path):
    tables = tables_of(tmp_path, [Made("a", "ram", [1.0]), Made("b", "ram", [2.0])])
    row = tables["best"][0]
    assert snippets.snippet(row) == f"# {row['loader']}: made up\nloader = []\n"
    mine = row | {"loader": "mine\nimport os", "declared": row["declared"] | {"own_file": "my.py", "program": None}}
    assert snippets.snippet(mine) == "# mine import os is your own loader: my.py is its program.\n"


def test_a_headline_leaves_out_options_that_are_as_by_default():
    row = {"loader": "numpy_memmap", "batch_size": 32, "workers": 2, "prefetch": 2, "pin_memory": None, "device": "cpu"}
    row["world"] = 1
    row["declared"] = plugins.declared(plugins.load("loaders", "numpy_memmap"))
    settings = {
        value: verdict_texts.unusual_settings({**row, "options": json.dumps({"gather": value})})
        for value in ("batch", "item")
    }
    default = plugins.load("loaders", "numpy_memmap").OPTIONS["gather"]["default"]
    assert settings.pop(default) == "batch 32, 2 workers, prefetch 2"
    assert list(settings.values()) == [f"batch 32, 2 workers, prefetch 2, gather={next(iter(settings))}"]
    mine = {**row, "declared": {"options": {}}, "options": json.dumps({"fast": True})}
    assert verdict_texts.unusual_settings(mine).endswith(", fast=True"), "of a file of the user's no default is known"
    assert verdict_texts.unusual_settings({**row, "options": ""}) == "batch 32, 2 workers, prefetch 2"


def test_a_step_is_fed_by_what_was_tried_with_it_else_by_the_lower_end_of_what_follows():
    row = {"step_au_from": "tried", "step_au_percent": 91.0, "step_au_low": 85.0}
    assert _sustains(row) and not _sustains(row | {"step_au_percent": 89.0, "step_au_low": 95.0})
    follows = row | {"step_au_from": "model"}
    assert not _sustains(follows) and _sustains(follows | {"step_au_low": 90.0})
    assert not _sustains({"step_au_from": "", "step_au_percent": None, "step_au_low": None}), "it was not tried"


@pytest.mark.parametrize(
    ("minutes", "task", "key"),
    [(2.25, "read", "minutes: 4"), ("none", "read", "repeats: 6"), (5, "train", "train_repeats: 5")],
)
def test_what_gives_a_result_more_runs_is_a_command_of_its_own_session(minutes, task, key):
    """Without its data set and preset another session would begin, and a preset stands above config.yaml."""
    measure = {"minutes": minutes, "repeats": 4, "train_repeats": 3}
    tables = {"dataset": {"dataset": "demo", "config": {"preset": "quick"}, "measure": measure}}
    command = lengthened(tables, {"task": task}, 1.5)[1]
    assert command == f"snakemake --config dataset=demo preset=quick measure='{{{key}}}'"


@pytest.mark.parametrize(
    ("asked", "fed"),
    [({}, True), ({"batch": 32}, True), ({"batch": 64}, False), ({"batch": 16}, True), ({"gigabytes": 300}, False)],
)
def test_a_verdict_is_of_the_batch_and_the_data_that_the_config_says(tmp_path, asked, fed):
    """2,000 items/s feed 32 items each 20 ms, not 64; 300 GB do not fit into 64 GB, and the disk gives 60 MB/s."""
    tables = tables_of(tmp_path, [Made("a", "disk", [2000.0, 2010.0, 1990.0, 2005.0, 1995.0])])
    own = {"step_ms": 20, "ram_gigabytes": 64, "storage_mbps": 60, **asked}
    tables["dataset"]["report"] = {**(tables["dataset"]["report"] or {}), **own}
    for row in (*tables["best"], *tables["ranking"]):
        row |= {"step_au_from": "model", "step_au_percent": 98.0, "step_au_low": 96.0}
        row |= {"steady_items_per_second": 2000.0, "epoch_start_seconds": 0.0, "batch_ms": 16.0}
        row |= {"step_wait_ms": 0.8, "step_loss": 0.0}
    simplest = next(one for one in verdicts(tables) if one["goal"] == "simplest")
    assert (simplest["row"] is not None) == fed, simplest["lacking"]
    if not fed:  # and says so with the AU of one's own batch and data, not with 98 %
        fastest = by_goal(tables)["fastest"]
        said = [simplest["lacking"], *(one.text for one in fastest["cautions"] if one.code == "starves")]
        given = re.compile(r": (\d|\d\d|\d\.\d) % with your batch and data\.")
        assert len(said) == 2 and all(map(given.search, said))
    elif asked.get("batch") == 16:
        assert simplest["fact"].endswith("98 % AU with your batch and data")


def test_what_is_nearest_to_a_step_is_told_of_ones_own_batch_and_data():
    """What was measured with that batch stands beside what is reckoned of another; data that does not fit has no AU."""
    row = {"loader": "a", "tier": "ram", "step_au_percent": 89.0, "step_au_low": 89.0, "step_au_from": "tried"}
    other = {**row, "loader": "b", "step_au_percent": 100.0}
    reckoned, nowhere = Answer(960.0, 60.0, "memory"), Answer(None, None, "does not fit")
    said = verdict_texts.no_feeder([row, other], 20.0, [None, reckoned])
    assert "a on ram" in said and "89 %" in said
    assert "on ram" not in verdict_texts.no_feeder([row, other], 20.0, [nowhere, nowhere])


def test_an_au_below_the_target_says_so_with_its_lower_end():
    row = {"step_au_percent": 95.0, "step_au_low": 85.0}
    assert verdict_texts.least_au_text(row) == "95 %, at least 85 %"
    assert verdict_texts.least_au_text(row | {"step_au_percent": 89.96, "step_au_low": 89.96}) == "89.9 %"


def test_a_page_begins_with_a_scenario_that_has_a_speed(tmp_path):
    made = [Made("a", "disk", ["failed"]), Made("a", "disk", [100.0, 101.0, 99.0], task="train", au=50.0)]
    tables = tables_of(tmp_path, made)
    assert {row["task"] for row in main_panel(tables["best"], "cpu")} == {"train"}
