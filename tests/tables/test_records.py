"""Which records of a plan count: proofs that failed, runs in order, what was found out besides, control runs."""

import shutil

import numpy as np
import pytest

from scripts.common import facts
from scripts.common.errors import UserError
from scripts.common.files import read_json, write_json
from scripts.common.plan_file import read_plan
from scripts.tables.columns import read_tables
from scripts.tables.make_tables import make_tables
from scripts.tables.records import control_runs, planned_runs
from tests.support.made_runs import (
    WARNING,
    Made,
    bound_record,
    explained,
    make_results,
    record_path,
    run_record,
    run_spans,
    session_of,
    step_trials,
    tables_from,
)


def planned(root, *made, **kwargs):
    """The plan of made results."""
    return read_plan(make_results(root, made, **kwargs))


def untimed(mode, made):
    """The record of a proof, which is of the settings alone, or of trials: no speed of either counts."""
    return run_record(made, 0) | {"mode": mode, "items_per_second": None, "times": None}


def test_a_result_is_as_many_runs_as_it_has_runs_in_the_order_of_rounds(tmp_path):
    made = Made("a", "ram", [None, *[1.0] * 11]), Made("b", "ram", [None])
    plan = planned(tmp_path, *made)
    folder = record_path(tmp_path, plan["results"][0]).parent
    write_json(folder / "2.attempt-1.json", {"no": "record that counts"})
    found = list(planned_runs(plan, tmp_path))
    assert [(entry["loader"], entry["repeat"]) for entry, _ in found] == [*(("a", n) for n in range(1, 12)), ("b", 0)]
    assert [record and record["repeat"] for _, record in found] == [*range(1, 12), None]
    assert [record for _, record in found[:-1]] == [run_record(made[0], number) for number in range(1, 12)]
    facts = [read_json(tmp_path / entry["path"]) for entry, _ in found[:-1]]
    assert all("settings" not in fact and "declared" not in fact for fact in facts), "said once, in result.json"
    write_json(folder / "3.json", {**read_json(folder / "3.json"), "no": "such key"})
    with pytest.raises(UserError, match=r"3\.json.*'no' was unexpected"):
        list(planned_runs(plan, tmp_path))


def test_a_failed_proof_is_the_only_run_of_its_result(tmp_path):
    plan = planned(tmp_path, Made("a", "ram", ["failed"], cache="cold"), Made("b", "ram", [1.0]))
    [entry, _] = plan["results"]
    write_json(
        record_path(tmp_path, entry), run_record(Made("a", "ram", [5.0], cache="cold"), 0)
    )  # before it was changed
    write_json(tmp_path / entry["proof"], untimed("proof", Made("a", "ram", ["failed"])))
    [(found, record), (_, sound)] = planned_runs(plan, tmp_path)
    assert (record["status"], record["mode"], record["items_per_second"]) == ("failed", "proof", None)
    assert (record["cache"], record["slug"]) == ("cold", entry["slug"]), "it stands for the result as it was planned"
    assert found["path"] == entry["proof"]
    assert sound["status"] == "ok" and "mode" not in sound, "a proof that succeeded is no run"
    make_tables(plan, tmp_path, tmp_path / "tables")


def test_a_skipped_proof_says_why_its_result_has_no_run(tmp_path):
    plan = planned(tmp_path, Made("a", "ram", [None]))
    skipped = Made("a", "ram", ["skipped"], reason="no GPU")
    write_json(tmp_path / plan["results"][0]["proof"], untimed("proof", skipped))
    [(_, record)] = planned_runs(plan, tmp_path)
    assert (record["status"], record["reason"]) == ("skipped", "no GPU")


def test_what_was_found_out_besides_is_in_the_first_run(tmp_path):
    made = Made("a", "ram", [None, 2.0, 3.0], warnings=[WARNING])
    plan = planned(tmp_path, made)
    trials = untimed("trials", Made("a", "ram", [9.0], trials=explained(9.0, read=20.0)))
    trials |= {"spans": run_spans(2), "warnings": [{**WARNING, "code": "swapping"}]}
    steps = untimed("trials", Made("a", "ram", [9.0])) | {"steps": step_trials(10.0, 2.0)}
    steps["warnings"] = [{**WARNING, "code": "drifting"}]
    write_json(record_path(tmp_path, plan["results"][0]).with_name("trials-0.json"), trials)
    write_json(record_path(tmp_path, plan["results"][0]).with_name("steps-0.json"), steps)
    (_, first), (_, second) = planned_runs(plan, tmp_path)
    for name, known in (("bottleneck_trials", trials), ("spans", trials), ("steps", steps)):
        assert first[name] == known[name], name
    assert first["items_per_second"] == 2.0, "no speed of the trials counts"
    assert [one["code"] for one in first["warnings"]] == ["load", "swapping", "drifting"]
    assert "spans" not in second and [one["code"] for one in second["warnings"]] == ["load"]


def test_trials_that_failed_are_a_warning(tmp_path):
    plan = planned(tmp_path, Made("a", "ram", [1.0, 2.0]))
    trials = untimed("trials", Made("a", "ram", ["failed"]))
    write_json(record_path(tmp_path, plan["results"][0]).with_name("trials-0.json"), trials)
    first, second = (record for _, record in planned_runs(plan, tmp_path))
    [warning] = [one for one in first["warnings"] if one["code"] == "no-trials"]
    assert first["status"] == "ok" and trials["reason"] in warning["seen"]
    assert "no-trials" not in [one["code"] for one in second["warnings"]]


@pytest.mark.parametrize("name", ["proof.json", "trials-0.json", "0.json", "7.json"])
def test_a_record_of_another_result_is_named(tmp_path, name):
    plan = planned(tmp_path, Made("a", "ram", [1.0]))
    row = plan["results"][0]
    file = tmp_path / row["proof"] if name == "proof.json" else record_path(tmp_path, row).with_name(name)
    write_json(file, run_record(Made("another", "ram", [1.0]), 0))
    with pytest.raises(UserError, match="loader: found 'another', the plan expects 'a'") as error:
        list(planned_runs(plan, tmp_path))
    assert str(file) in str(error.value)


def test_control_runs_are_those_of_the_session_in_order(tmp_path):
    plan = planned(tmp_path, Made("a", "ram", [1.0]), bounds={("cpu", 32): [5.0], ("cpu", 64): [7.0]})
    folder = record_path(tmp_path, plan["bounds"][0]).parent
    for number in (2, 10, 110):
        write_json(folder / f"{number}.json", bound_record("cpu", 32, number, 100.0 + number))
    write_json(folder / ".3.json.measured.json", {})
    found = [(one["settings"]["batch_size"], one["repeat"]) for one in control_runs(plan, tmp_path)]
    assert found == [(32, 0), (32, 2), (32, 10), (32, 110), (64, 0)]
    for file in folder.glob("*.json"):
        file.unlink()
    assert [one["settings"]["batch_size"] for one in control_runs(plan, tmp_path)] == [64]


def test_control_runs_of_other_work_are_left_out(tmp_path):
    """Items of another length, or other threads, have another path in nothing but their records."""
    plan = planned(tmp_path, Made("a", "ram", [1.0]), bounds={("cpu", 32): [1.0]})
    for number, (threads, size) in enumerate([(2, 640), (2, 320), (1, 320), (1, 320)]):
        record = bound_record("cpu", 32, number, 100.0) | {"threads": threads, "item_bytes": size}
        record |= {"started": f"2026-01-0{number + 1}T00:00:00Z"}
        write_json(record_path(tmp_path, plan["bounds"][0]).with_name(f"{number}.json"), record)
    assert [record["repeat"] for record in control_runs(plan, tmp_path)] == [2, 3]


def test_a_failure_of_the_machine_that_was_tried_again_is_a_warning_and_wrong_data_stays(tmp_path):
    plan = planned(tmp_path, Made("a", "ram", [1.0, None, 2.0]), Made("b", "ram", [1.0, "failed", 2.0]))
    lost = run_record(Made("a", "ram", ["failed"]), 0) | {"repeat": 1, "verification": None}
    write_json(record_path(tmp_path, plan["results"][0], 1), lost)
    found = list(planned_runs(plan, tmp_path))
    assert [(row["loader"], row["repeat"], record["status"]) for row, record in found] == [
        *[("a", 0, "ok"), ("a", 2, "ok")],
        *[("b", 0, "ok"), ("b", 1, "failed"), ("b", 2, "ok")],
    ]
    assert [one["code"] for one in found[0][1]["warnings"]] == ["failed-before"]


def test_what_is_not_shown_is_kept_counted_and_told_of(tmp_path, monkeypatch):
    """An earlier session, of another protocol."""
    with monkeypatch.context() as patch:
        patch.setattr(facts, "PROTOCOL", 1)
        planned(tmp_path, Made("a", "ram", [1.0, 2.0]))
    plan = planned(tmp_path, Made("a", "ram", [3.0, 4.0]), Made("b", "ram", [5.0, 6.0]))
    make_tables(plan, tmp_path, tmp_path / "tables")
    tables = read_tables(tmp_path / "tables")
    assert sorted(row["items_per_second"] for row in tables["runs"]) == [3.0, 4.0, 5.0, 6.0]
    assert tables["dataset"]["kept"] == [{"session": "main-1", "runs": 2, "different": ["protocol"]}]
    assert len(list((tmp_path / "results").rglob("sessions/*/ram/*/*/[01].json"))) == 6


def test_sessions_that_measured_the_same_are_shown_together_once_they_came_to_their_end(tmp_path):
    made = [Made("a", "disk", [100.0] * 3), Made("b", "disk", [50.0] * 3)]
    plan = read_plan(make_results(tmp_path, made))
    first = session_of(tmp_path)
    first.say(finished="then")
    later = facts.begin(tmp_path, "demo", "main", first.bases, first.state["machine"])
    for row, one, factor in zip(plan["results"], made, (1.0, 1.21), strict=True):
        for number in (3, 4, 5):
            record = run_record(one, number - 3) | {"repeat": number}
            record["items_per_second"] *= factor
            later.note(row["id"], later.folder / row["id"] / f"{number}.json", record)
    alone = tables_from(tmp_path, plan)
    assert {(row["session"], row["repeat"]) for row in alone["runs"]} == {("main-1", n) for n in range(3)}
    later.say(finished="later")
    both = tables_from(tmp_path, plan)
    shown = {("main-1", n) for n in range(3)} | {("main-2", n) for n in range(3, 6)}
    assert {(row["session"], row["repeat"]) for row in both["runs"]} == shown
    assert [one["name"] for one in both["dataset"]["sessions"]] == ["main", "main"] and both["dataset"]["kept"] == []
    _, slow = both["ranking"]
    assert (slow["sessions"], slow["runs"]) == (2, 6) and alone["ranking"][1]["sessions"] == 1
    assert slow["items_per_second"] == pytest.approx(55) and slow["interval_low"] is None, "two values are too few"
    assert alone["ranking"][1]["slower_low"] == pytest.approx(2) and slow["slower_low"] < 1.2 < 2 < slow["slower_high"]
    assert slow["all_between_sessions_percent"] == pytest.approx(100 * np.log(1.21) / 2, rel=0.01)
    assert alone["ranking"][1]["between_sessions_percent"] is None


@pytest.mark.parametrize("ended", ["time", ""])
def test_what_was_not_measured_cold_since_it_does_not_lead_is_a_row_that_says_so(tmp_path, ended):
    """One a loader: none is of other settings of one that leads."""
    made = [(loader, workers, cache) for loader in "ab" for workers in (0, 2) for cache in ("warm", "cold")]
    plan = planned(tmp_path, *(Made(one, "disk", [9.0, 8.0], workers=w, cache=cache) for one, w, cache in made))
    for warm, cold in zip(plan["results"][::2], plan["results"][1::2], strict=True):
        cold["if_leads"] = warm["id"]
    for cold in plan["results"][3::2]:  # all but the first one of "a"
        shutil.rmtree(record_path(tmp_path, cold).parent)
    [state] = (tmp_path / "results" / "runs").rglob("session.json")
    write_json(state, read_json(state) | {"ended": ended})
    make_tables(plan, tmp_path, tmp_path / "tables")
    rows = [row for row in read_tables(tmp_path / "tables")["ranking"] if row["cache"] == "cold"]
    found = sorted((row["loader"], row["status"], row["reason_code"]) for row in rows)
    left_out = [("b", "skipped", "not-leading")] * 2 if ended else [(one, "missing", "") for one in "abb"]
    assert found == sorted([("a", "ok", ""), *left_out])
