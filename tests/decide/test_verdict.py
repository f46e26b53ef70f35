"""What verdict.json says of made sessions whose answer is known, the sad cases among them."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.common.plan_file import read_plan
from scripts.decide.verdict import verdict
from scripts.tables import make_tables
from scripts.tables.columns import read_tables
from tests.support.made_runs import DISTURBED, WARNING, Made, make_results, session
from tests.support.made_verdicts import FORMS, clear, close, noisy, other, runs, single, tables_of
from tests.support.programs import PROJECT

GOALS = ["fastest", "fastest_cold", "least_memory", "simplest", "cheapest"]
NUMBERS = {
    "step_wait_ms": None,
    "step_short_wait_ms": None,
    "step_loss": None,
    "step_check_points": None,
    "step_au_from": "",
}


def decided(tables, **asked):
    """Return the first answer of tables, with what the config says below `report`; each verdict keeps its schema."""
    tables["dataset"]["report"] = {**tables["dataset"]["report"], **asked}
    found = verdict(tables)
    jsonschema.validate(json.loads(json.dumps(found)), read_json(PROJECT / "docs" / "verdict.schema.json"))
    return found["answers"][0]


def waits(ms):
    """What a row says of a loader that lets wait so long beside any step."""
    return {"step_wait_ms": ms, "step_short_wait_ms": ms, "step_short_ms": 1.0, "step_long_ms": 20.0, "step_loss": 0.0}


def waiting(tables, **ms):
    """Set what a batch of each loader still waits for beside a long step, in ms."""
    for row in (*tables["ranking"], *tables["best"]):
        row |= NUMBERS
        if (wait := ms.get(row["loader"])) is not None:
            row |= waits(wait)
        row |= {"steady_items_per_second": row["items_per_second"], "epoch_start_seconds": 0.0}
    return tables


def named(goal):
    """Return the (loader, tier) of a goal or an answer, and those that tie with it."""
    name = goal["id"] if "id" in goal else goal["choice"]
    return name and tuple(name.split("/")[:2]), [tuple(one.split("/")[:2]) for one in goal["ties"]]


def goals_of(answer):
    return {one["goal"]: one for one in answer["goals"]}


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """The answer of an experiment in which everything there is was measured ten times."""
    experiment = session()
    return decided(tables_of(tmp_path_factory.mktemp("session"), experiment.pop("made"), "torchaudio", **experiment))


def test_each_goal_has_its_answer(everything):
    found = goals_of(everything)
    assert list(found) == GOALS
    assert {goal: named(one) for goal, one in found.items()} == {
        "fastest": (("numpy_memmap", "ram"), [("lazy_memmap", "ram")]),
        "fastest_cold": (("dali_npy", "disk"), [("lazy_memmap", "disk"), ("numpy_memmap", "disk")]),
        "least_memory": (("numpy_memmap", "disk"), [("lazy_memmap", "disk")]),
        "simplest": (("numpy_memmap", "disk"), [("lazy_memmap", "disk")]),
        "cheapest": (("numpy_memmap", "ram"), []),
    }
    assert [found[goal]["form"] for goal in GOALS] == ["equal", "equal", "use", "use", "use"]
    assert everything["choice"] == found["simplest"]["id"] and everything["why"] == "keeps_up"


@pytest.mark.parametrize("form", FORMS)
def test_a_verdict_is_in_the_tables_and_keeps_its_schema(tmp_path, form):
    tables = tables_of(tmp_path, FORMS[form]())
    assert tables["verdict"]["answers"][0] == json.loads(json.dumps(decided(tables)))


def test_a_gain_is_its_interval(everything):
    now = everything["now"]
    assert now["id"].startswith("torchaudio/ram/")
    assert now["times"] == pytest.approx(24000 / 310, rel=1e-3)
    assert now["low"] < now["times"] < now["high"]
    fastest = goals_of(everything)["fastest"]["id"]
    assert everything["explain"] == [everything["choice"], now["id"], fastest]


def test_the_current_loader_may_be_the_choice_a_tie_or_without_a_speed(tmp_path):
    made = [Made("a", "disk", runs(100.0)), Made("b", "disk", other(99.95)), Made("d", "disk", ["failed"] * 5)]
    tables = tables_of(tmp_path, made)
    same = decided(tables, now="a")["now"]
    assert (same["times"], same["low"]) == (1.0, None)
    tie = decided(tables, now="b")["now"]
    assert tie["low"] < 1 < tie["high"]
    for now in ("d", "elsewhere"):
        answer = decided(tables, now=now)
        assert answer["now"] is None and "now_unmeasured" in codes(answer)
    tables["best"] = [row | {"check": "slice"} if row["loader"] == "b" else row for row in tables["best"]]
    tables["best"] = [row | {"scenario": "items of b"} if row["loader"] == "b" else row for row in tables["best"]]
    assert "now_own_items" in codes(decided(tables, now="b")), "its items are others: nothing compares with them"


def codes(answer):
    return [one["code"] for one in answer["cautions"]]


def test_where_it_is_too_noisy_there_is_no_winner_but_what_is_certain(tmp_path):
    answer = decided(tables_of(tmp_path, noisy()))
    assert answer["form"] == "noisy" and answer["confidence"]["grade"] == "C"
    assert {one.split("/")[0] for one in (answer["choice"], *answer["ties"])} == {"a", "b"}
    assert answer["at_most_times"] > 1.25
    assert answer["slower"]["id"].startswith("d/") and 10 < answer["slower"]["times"] < 620, "the lower end"


def test_single_runs_distinguish_nothing(tmp_path):
    answer = decided(tables_of(tmp_path, single(), "b"))
    assert answer["ties"] and (answer["form"], answer["slower"], answer["at_most_times"]) == ("noisy", None, None)
    assert answer["now"]["low"] is None and answer["confidence"]["grade"] == "D"


def test_a_single_loader_is_to_be_used_and_without_any_speed_there_is_nothing_to_choose(tmp_path):
    assert decided(tables_of(tmp_path / "one", clear()[:1]))["form"] == "use"
    none = decided(tables_of(tmp_path / "none", [Made("a", "disk", ["failed"] * 3)]))
    assert (none["choice"], none["form"], none["confidence"]["grade"]) == (None, "none", "D")
    assert [one["code"] for one in none["lost"]] == ["failed"]


@pytest.mark.parametrize("expense", [
    {"tier": "ram"}, {"declared": "preloads"}, {"batch_lifetime": "next"}, {"workers": 3}, {"loader_threads": 64},
    {"cpu_seconds_per_1000_items": 1e6}, {"pss_peak_bytes": 10**12},
])  # fmt: skip
def test_among_equals_the_cheapest_is_first(tmp_path, expense):
    made = [Made("dear", expense.get("tier", "disk"), runs(100.0)), Made("cheap", "disk", other(99.95))]
    tables = tables_of(tmp_path, made)
    for row in (*tables["best"], *tables["ranking"]):
        row |= {"batch_lifetime": "lasting", "cpu_seconds_per_1000_items": 1.0, "loader_threads": None}
        if row["loader"] == "dear":
            kept = {key: value for key, value in expense.items() if key not in ("declared", "tier")}
            row |= kept | ({"declared": {**row["declared"], "preloads": True}} if "declared" in expense else {})
    assert named(decided(tables))[0][0] == "cheap"


# The user's own step, batch and data


def test_what_keeps_up_with_the_step_is_the_answer_and_the_cheapest_of_it(tmp_path):
    """Also where the fastest are not told apart: at a step that several keep up with, noise is no question."""
    tables = waiting(tables_of(tmp_path, noisy(), step_ms=None), a=1.0, b=1.0, c=1.0, d=1.0)
    assert decided(tables, step_ms=None)["form"] == "noisy"
    answer = decided(tables, step_ms=600.0)
    assert (answer["form"], answer["why"]) == ("use", "keeps_up")
    assert {name.split("/")[0] for name in (answer["choice"], *answer["ties"])} == {"a", "b"}


def test_what_keeps_up_is_found_among_all_settings_of_a_loader(tmp_path):
    """Without workers it is faster and waits; with workers it is slower and does not."""
    made = [Made("a", "disk", runs(3200.0), workers=0), Made("a", "disk", runs(2400.0), workers=2)]
    tables = waiting(tables_of(tmp_path, made))
    for row in (*tables["ranking"], *tables["best"]):
        row |= waits(0.5 if row["workers"] else 10.0)
    answer = decided(tables, step_ms=20.0)
    assert answer["choice"].endswith("-w2-p2") and answer["why"] == "keeps_up"
    assert decided(tables, step_ms=200.0)["choice"].endswith("-w0-p2"), "no workers are cheaper"


def test_waiting_is_added_and_does_not_multiply(tmp_path):
    """7.5 ms a batch keep up with a step of 60 s whatever a trial at 7.5 ms found; nothing is multiplied on."""
    tables = waiting(tables_of(tmp_path, [Made("a", "disk", runs(32 / 0.0075))]), a=2.0)
    au = {step: decided(tables, step_ms=step)["candidates"][0]["au"] for step in (7.5, 15.0, 60_000.0)}
    assert au[7.5] == pytest.approx(100 * 7.5 / 9.5) and au[15.0] == pytest.approx(100 * 15 / 17)
    assert au[60_000.0] > 99.9


def test_an_au_that_was_not_tried_is_not_known_unless_the_rate_rules_it_out(tmp_path):
    tables = waiting(tables_of(tmp_path, [Made("a", "disk", runs(1600.0)), Made("b", "disk", runs(800.0))]))
    fast, slow = decided(tables, step_ms=20.0)["candidates"]
    assert (fast["keeps_up"], fast["au"]) == (None, None)
    assert (slow["keeps_up"], slow["au"]) == (False, None) and slow["au_most"] == pytest.approx(50, rel=1e-3)


def test_a_check_that_is_off_makes_the_au_unknown(tmp_path):
    tables = waiting(tables_of(tmp_path, [Made("a", "disk", runs(3200.0))]), a=1.0)
    assert decided(tables, step_ms=20.0)["candidates"][0]["keeps_up"] is True
    for row in (*tables["ranking"], *tables["best"]):
        row["step_check_points"] = -4.0
    answer = decided(tables, step_ms=20.0)
    assert answer["candidates"][0]["keeps_up"] is None and "au_model_off" in codes(answer)


def test_the_lower_end_decides_here_and_in_the_form_alike(tmp_path):
    made = [Made("a", "disk", [1800.0, 2600.0, 1700.0, 2500.0])]
    one = decided(waiting(tables_of(tmp_path, made), a=0.0), step_ms=16.0)["candidates"][0]
    assert one["au_low"] < 90 <= one["au"] and one["keeps_up"] is None


def test_own_batch_and_data_have_one_answer(tmp_path):
    """The row on a disk is what data beyond memory is answered by, of every loader that reads the same files."""
    made = [Made(name, tier, runs(speed), form) for name, speed, form in (
        ("soundfile", 2500.0, "wav"), ("dali_wav", 2400.0, "wav"), ("numpy_memmap", 5000.0, "memmap")
    ) for tier in ("ram", "disk")]  # fmt: skip
    made += [Made("holds", "disk", runs(6000.0))]
    tables = waiting(tables_of(tmp_path, made), soundfile=0.5, dali_wav=0.5, numpy_memmap=0.5, holds=0.5)
    for row in (*tables["ranking"], *tables["best"]):
        row["declared"] = {**row["declared"], "preloads": row["loader"] == "holds"}
    small = decided(tables, step_ms=20.0)
    assert {one["keeps_up"] for one in small["candidates"]} == {True}
    large = decided(tables, step_ms=20.0, gigabytes=500, ram_gigabytes=64, storage_mbps=100.0)
    source = {(one["loader"], one["tier"]): (one["source"], one["keeps_up"]) for one in large["candidates"]}
    for loader in ("soundfile", "dali_wav", "numpy_memmap"):
        assert source[loader, "ram"] == ("does_not_fit", False)
        assert source[loader, "disk"] == ("storage", False), "100 MB/s are at most so many items"
    assert source["holds", "disk"] == ("does_not_fit", False)
    fast = decided(tables, step_ms=20.0, gigabytes=500, ram_gigabytes=64, storage_mbps=1e6)
    found = {(one["loader"], one["tier"]): one["keeps_up"] for one in fast["candidates"]}
    assert found["soundfile", "disk"] is None, "storage is a limit and never a tick"
    assert fast["why"] == "none_keeps_up" and fast["candidates"]


def test_data_beyond_memory_is_answered_by_what_was_read_cold(tmp_path):
    made = [Made("a", "disk", runs(5000.0)), Made("a", "disk", runs(2000.0), cache="cold")]
    made += [Made("b", "disk", runs(5000.0))]
    tables = waiting(tables_of(tmp_path, made), a=0.5, b=0.5)
    answer = decided(tables, step_ms=20.0, gigabytes=500, ram_gigabytes=64)
    found = {one["loader"]: one for one in answer["candidates"]}
    assert (found["a"]["source"], found["a"]["keeps_up"]) == ("cold", True)
    assert found["b"]["keeps_up"] is None and found["b"]["au"] is None
    assert named(answer)[0] == ("a", "disk")


def test_natural_length_is_no_compression(tmp_path):
    """WAV files of natural length take what the user's data takes; a padded format takes more."""
    made = [Made("a", "disk", runs(5000.0), "wav"), Made("b", "disk", runs(5000.0), "memmap")]
    formats = {"wav": (1.0, 512 * 150_000, 512), "memmap": (1.0, 512 * 640_000, 4)}
    tables = waiting(tables_of(tmp_path, made, formats=formats), a=0.1, b=0.1)
    tables["dataset"]["corpus"]["audio_seconds"] = 512 * 150_000 / 32_000  # 4.7 s of 10
    answer = decided(tables, step_ms=20.0, gigabytes=50, ram_gigabytes=26, storage_mbps=160.0)
    found = {one["loader"]: (one["source"], one["au_most"]) for one in answer["candidates"]}
    assert found["a"][0] == found["b"][0] == "storage", "50 GB do not fit into 26"
    assert found["a"][1] == pytest.approx(100 * 20 / (32 * 150_000 / 160e3), rel=1e-2)


def test_memory_is_less_what_the_processes_take(tmp_path):
    tables = waiting(tables_of(tmp_path, [Made("a", "disk", runs(5000.0))]), a=0.1)
    for row in (*tables["ranking"], *tables["best"]):
        row["pss_peak_bytes"] = 20 * 10**9
    formats = {row["format"]: row["bytes"] / row["items"] for row in tables["formats"]}
    share = formats["memmap"] / 300_000  # of the natural bytes
    fits, not_quite = (
        decided(tables, step_ms=20.0, gigabytes=(64 - held) / share, ram_gigabytes=64) for held in (21, 19)
    )
    assert fits["candidates"][0]["source"] == "model" and not_quite["candidates"][0]["source"] != "model"


@pytest.mark.parametrize("asked", [
    {"step_ms": -3.0}, {"step_ms": 0.0}, {"batch": 0}, {"batch": -1}, {"gigabytes": -1.0}, {"ram_gigabytes": 0.0},
    {"storage_mbps": -5.0}, {"step_ms": float("nan")},
])  # fmt: skip
def test_numbers_that_no_training_has_are_refused(tmp_path, asked):
    tables = tables_of(tmp_path, clear())
    with pytest.raises(UserError, match=f"report.{next(iter(asked))}"):
        decided(tables, **asked)


def test_huge_numbers_everywhere_keep_nobody_up_by_storage(tmp_path):
    tables = waiting(tables_of(tmp_path, [Made("a", "disk", runs(5000.0))]), a=0.1)
    huge = dict.fromkeys(("step_ms", "batch", "gigabytes", "ram_gigabytes", "storage_mbps"), 10**9)
    assert decided(tables, **huge)["candidates"][0]["keeps_up"] is not True


def test_the_verdict_of_other_numbers_is_printed(tmp_path):
    tables_of(tmp_path, clear())
    command = [sys.executable, "-m", "scripts.report.print_verdict", "--tables", tmp_path / "tables", "--step-ms", "50"]
    done = subprocess.run(list(map(str, command)), cwd=PROJECT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["yours"]["step_ms"] == 50
    refused = subprocess.run([*map(str, command[:-1]), "-3"], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert refused.returncode == 2 and "report.step_ms" in refused.stderr


# What was lost, and how far to trust it


def test_what_is_lost_lowers_the_grade(tmp_path):
    made = [Made(name, "disk", other(100.0 - number, 9)) for number, name in enumerate("abcdefg")]
    lost = [Made(name, "disk", ["failed"] * 9, reason="not warm") for name in "xyz"]
    assert decided(tables_of(tmp_path / "whole", made))["confidence"]["grade"] == "A"
    answer = decided(tables_of(tmp_path / "lost", [*made, *lost]))
    sure = answer["confidence"]
    assert (sure["grade"], sure["code"]) == ("C", "lost")
    assert (sure["values"]["lost"], sure["values"]["of"]) == (3, 10)
    assert [one["loader"] for one in answer["lost"]] == ["x", "y", "z"]
    few = decided(tables_of(tmp_path / "few", [*made, lost[0]]))["confidence"]
    assert (few["grade"], few["code"]) == ("B", "lost")


def test_a_session_that_was_disturbed_all_through_is_no_answer(tmp_path):
    made = [Made("a", "disk", runs(100.0, 9), warnings=[DISTURBED]), Made("b", "disk", other(50.0, 9))]
    answer = decided(tables_of(tmp_path, made))
    assert (answer["confidence"]["grade"], answer["confidence"]["code"]) == ("C", "all_disturbed")


@pytest.mark.parametrize(("percent", "grade"), [(5.0, "A"), (12.0, "B"), (31.0, "C")])
def test_a_machine_that_varies_lowers_the_grade(tmp_path, percent, grade):
    tables = tables_of(tmp_path, [Made("a", "disk", runs(100.0, 9)), Made("b", "disk", other(50.0, 9))])
    tables["noise"] = [{"device": "cpu", "variation_percent": percent, "drift_seen": False}]
    assert decided(tables)["confidence"]["grade"] == grade


def test_workers_that_make_it_slower_are_said(tmp_path):
    made = [Made("a", "disk", runs(4200.0), workers=0), Made("a", "disk", other(1341.0), workers=1)]
    made += [Made("b", "disk", runs(100.0), workers=0), Made("b", "disk", other(190.0), workers=1)]
    found = [one for one in decided(tables_of(tmp_path, made))["cautions"] if one["code"] == "workers_slower"]
    assert [one["values"]["loaders"] for one in found] == [["a"]]
    assert 1.5 < found[0]["values"]["times"] < 4200 / 1341


def test_few_and_disturbed_runs_are_said(tmp_path):
    made = [Made("a", "disk", [100.0, 101.0, 102.0], warnings=[DISTURBED, WARNING])]
    made += [Made("b", "disk", [9.0, None, 9.0])]
    assert codes(decided(tables_of(tmp_path, made))) == ["few_rounds", "disturbed", "warnings"]


def test_what_holds_everything_in_memory_says_so_and_how_much(tmp_path):
    formats = {"memmap": (1.0, 328_000_000, 4)}
    made = [Made("resident", "disk", runs(900.0)), Made("numpy_memmap", "ram", runs(300.0))]
    found = decided(tables_of(tmp_path, made, formats=formats))["cautions"][0]
    assert found == {"code": "preloads", "values": {"bytes": 328_000_000, "peak_bytes": 812_000_000}}
    lean = decided(tables_of(tmp_path / "ram", made[1:], formats=formats))["cautions"][0]
    assert lean == {"code": "in_memory", "values": {"tier": "ram", "bytes": 328_000_000}}


# Goals


def test_each_device_has_its_own_answers(tmp_path):
    made = [Made("a", "disk", runs(100.0)), Made("b", "disk", runs(50.0))]
    made += [Made("a", "disk", runs(10.0), device="cuda"), Made("b", "disk", runs(20.0), device="cuda")]
    found = verdict(tables_of(tmp_path, made))["answers"]
    assert [(one["device"], named(one)[0][0]) for one in found] == [("cpu", "a"), ("cuda", "b")]


def test_where_nothing_reads_the_first_scenario_counts(tmp_path):
    made = [Made("a", "disk", runs(100.0), task="iterate"), Made("b", "disk", runs(9.0), task="iterate")]
    answer = decided(tables_of(tmp_path, made))
    assert named(answer)[0] == ("a", "disk") and "plain_loop" in codes(answer)
    assert {one["source"] for one in answer["candidates"]} == {"unknown"}
    failed = [Made("a", "disk", ["failed"]), Made("a", "disk", [100.0, 101.0, 99.0], task="train", au=50.0)]
    assert decided(tables_of(tmp_path / "failed", failed))["scenario"] == "CPU, training"


def test_the_fastest_in_random_order_is_one_whose_order_is_random(tmp_path):
    made = [
        Made("webdataset", "disk", runs(900.0), cache="cold"),
        Made("numpy_memmap", "disk", runs(30.0), cache="cold"),
        Made("ring", "disk", ["failed"] * 10, cache="cold"),
    ]
    tables = tables_of(tmp_path, made)
    for row in (*tables["ranking"], *tables["best"]):
        row["order_measured"] = "local" if row["loader"] == "webdataset" else "random"
    answer = decided(tables)
    assert named(goals_of(answer)["fastest_cold"]) == (("numpy_memmap", "disk"), []) and "order" in codes(answer)
    emulated = [
        Made("webdataset", "slow", runs(10.0), cache="cold"),
        Made("webdataset", "disk", runs(5.0), cache="cold"),
    ]
    answer = decided(tables_of(tmp_path / "slow", emulated, emulated=["slow"]))
    assert named(answer)[0] == ("webdataset", "slow") and "emulated" in codes(answer)


def test_least_memory_is_at_most_twice_slower_and_on_a_disk_where_there_is_one(tmp_path):
    speeds = {("fat", "ram"): 100.0, ("fat", "disk"): 90.0, ("lean", "ram"): 60.0, ("lean", "disk"): 55.0}
    speeds |= {("close", "disk"): 54.0, ("leaner", "disk"): 49.0, ("unknown", "disk"): 80.0}
    made = [Made(*place, runs(speed)) for place, speed in speeds.items()]
    memory = {("fat", "ram"): 800e6, ("fat", "disk"): 900e6, ("lean", "ram"): 100e6, ("lean", "disk"): 200e6}
    memory |= {("close", "disk"): 200.1e6, ("leaner", "disk"): 1e6}
    memory = {place: [*map(round, runs(size))] for place, size in memory.items()}
    tables = tables_of(tmp_path, made, memory=memory)
    assert named(goals_of(decided(tables))["least_memory"]) == (("lean", "disk"), [("close", "disk")])
    for row in tables["ranking"]:
        row["declared"] = {**row["declared"], "preloads": row["loader"] == "lean"}
    assert named(goals_of(decided(tables))["least_memory"]) == (("close", "disk"), [("lean", "disk")])
    none = goals_of(decided(tables_of(tmp_path / "none", made, memory={})))["least_memory"]
    assert (none["id"], none["lacking"]) == (None, "no_memory")


def test_the_cheapest_to_prepare_is_read_by_its_fastest(tmp_path):
    formats = {"wav": (1.0, 3_000_000, 512), "memmap": (9.0, 1, 4), "npy": (None, None, None)}
    speeds = {
        "a": (runs(900.0), "memmap"),
        "b": (runs(100.0), "wav"),
        "c": (other(99.95), "wav"),
        "e": (runs(999.0), "npy"),
    }
    made = [Made(name, "disk", speed, form) for name, (speed, form) in speeds.items()]
    found = goals_of(decided(tables_of(tmp_path / "a", made, formats=formats)))["cheapest"]
    assert named(found) == (("b", "disk"), [("c", "disk")]) and found["value"] == 1.0
    untimed = goals_of(decided(tables_of(tmp_path / "b", made[-1:], formats=formats)))["cheapest"]
    assert untimed["lacking"] == "no_preparation"


@pytest.mark.parametrize("outcome", ["failed", "skipped", None])
def test_without_any_speed_every_goal_says_what_it_lacks(tmp_path, outcome):
    made = [Made(name, "disk", [outcome] * 3, cache=cache) for name in "ab" for cache in ("warm", "cold")]
    answer = decided(tables_of(tmp_path, made, "a"))
    assert [(one["id"], one["lacking"]) for one in answer["goals"]] == [(None, "no_speed")] * len(GOALS)


def test_a_plan_without_runs_names_no_device(tmp_path):
    plan = read_plan(make_results(tmp_path, [Made("a", "disk", [1.0])]))
    plan |= {"results": [], "bounds": [], "tensors": []}
    make_tables.make_tables(plan, tmp_path, tmp_path / "tables")
    answers = read_tables(tmp_path / "tables")["verdict"]["answers"]
    assert [(one["device"], one["choice"], one["why"]) for one in answers] == [("", None, "no_run")]


def test_close_results_are_used_by_what_is_least_behind(tmp_path):
    answer = decided(tables_of(tmp_path, close()))
    assert (named(answer)[0][0], answer["form"]) == ("b", "use") and 1 <= answer["at_most_times"] < 1.25


def test_the_page_for_agents_names_every_code():
    from scripts.report.sentences import CAUSES, CAUTIONS, LACKING

    text = Path(PROJECT, "docs", "decision.md").read_text(encoding="utf-8")
    absent = [code for code in (*CAUSES, *CAUTIONS, *LACKING) if f"`{code}`" not in text]
    assert not absent
