"""Every scenario in one small experiment, as a user asks for it: tasks, caches, steps, emulated storage, presets."""

import json

import pytest

from scripts.common import facts
from scripts.machine import control_groups
from scripts.tables.columns import read_tables
from tests.support.workflow_copy import ProjectCopy, folders, rules_of

TASKS = ["read", "iterate", "train", "lightning"]
CACHES = ["warm", "cold", "limited"]
# One loader under every scenario; one that decodes where that makes a difference: beside storage, and without it.
SCENARIOS = {
    "numpy_memmap": {"task": TASKS, "cache": CACHES, "step_ms": [0, 4]},
    "torchaudio": {"task": ["read"], "cache": ["warm", "cold"], "step_ms": [0]},
}
TIERS = {"ram": ["warm"], "disk": CACHES, "slow": ["cold", "limited"]}  # the caches that each can have


@pytest.fixture(scope="module")
def permitted(tmp_path_factory):
    """Why this machine makes no control groups, or an empty text."""
    try:
        with control_groups.group(memory=True), control_groups.group(tmp_path_factory.mktemp("any"), read_mbps=100):
            return ""
    except control_groups.NotPermitted as reason:
        return str(reason)


@pytest.fixture(scope="module")
def project():
    """The experiment, run."""
    with folders() as (disk, ram):
        copy = ProjectCopy(disk / "project", ram, loaders=[{"name": name, **own} for name, own in SCENARIOS.items()])
        copy.configure(
            datasets={"demo": {"source": "synthetic", "clips": 80, "seed": 3}},
            audio={"seconds": 3},
            storage={
                **copy.config["storage"],
                "slow": {"path": "results/slow", "emulate": {"read_mbps": 60}},
            },
            sweep={**copy.config["sweep"], **SCENARIOS["numpy_memmap"]},
            report={"now": "torchaudio"},
            measure={
                **copy.config["measure"],
                **{"train_repeats": 1, "tensors": True, "bottlenecks": "candidates", "epochs": 2},
            },
        )
        copy.snakemake()
        yield copy


@pytest.fixture(scope="module")
def runs(project):
    """Records of both loaders by (loader, tier, task, cache, step)."""
    found = {}
    for loader in SCENARIOS:
        rows = json.loads((project.root / "results" / f"{loader}.json").read_text())
        for row in (row for row in rows if "path" in row):  # the others are what the plan skips
            run = whole(project, project.root / row["path"])
            found[loader, run["tier"], run["task"], run["cache"], run["step_ms"]] = run
    return found


def whole(project, path):
    """Return a record of the session with what all of its result have in common."""
    [session] = facts.sessions(project.root, "demo")
    return session.record(path.parent.relative_to(session.folder).as_posix(), path)


def test_every_scenario_has_its_run_or_its_reason(runs, permitted):
    for loader, asked in SCENARIOS.items():
        for tier, possible in TIERS.items():
            caches = set(possible).intersection(asked["cache"])
            expected = {("read", cache, step) for cache in caches for step in asked["step_ms"]}
            expected |= {(task, "warm", 0) for task in asked["task"][1:]} if tier != "slow" else set()
            assert {key[2:] for key in runs if key[:2] == (loader, tier)} == expected
    for key, run in runs.items():
        if permitted and (key[1] == "slow" or key[3] == "limited"):
            assert (run["status"], run["reason"]) == ("skipped", permitted)
        elif key[3] == "limited":  # so small a set may be too small beside its batches, and says so
            assert run["status"] == "ok" or "measure more items" in run["reason"], run["reason"]
        else:
            assert run["status"] == "ok", (key, run["reason"])
            assert all(epoch["cache"]["problem"] == "" for epoch in run["times"]["epochs"] if run["cache"] == "cold")


def test_a_step_and_a_training_have_a_utilisation_and_others_have_none(runs):
    for (_, _, task, _, step), run in runs.items():
        if run["status"] == "ok":
            assert (run["au_percent"] is not None) == (task in ("train", "lightning") or step > 0)
            assert run["au_percent"] is None or 0 < run["au_percent"] <= 100


def test_both_trainings_train(runs):
    for tier in ("ram", "disk"):
        bare, lightning = (runs["numpy_memmap", tier, task, "warm", 0]["training"] for task in ("train", "lightning"))
        assert bare["parameters"] == lightning["parameters"] == 2_068_256
        assert bare["epoch_losses"][0] == pytest.approx(lightning["epoch_losses"][0], rel=1e-4)
        assert bare["validation_losses"] and lightning["validation_losses"]


def test_what_leads_and_what_one_has_now_is_explained(project):
    found = {}
    for path in project.root.glob("results/runs/demo/sessions/*/*/*/*/trials-*.json"):
        record = whole(project, path)
        assert (record["status"], record["reason"]) == ("ok", None)
        assert (record["task"], record["cache"], record["step_ms"]) == ("read", "warm", 0)
        stages = {"read", "everything", *(["decode"] if record["loader"] == "torchaudio" else [])}
        assert set(record["bottleneck_trials"]["without"]) == stages
        found.setdefault(record["loader"], []).append(record)
    assert found.keys() == {"numpy_memmap", "torchaudio"}
    tables = read_tables(project.root / "results" / "tables" / "demo")
    for row in tables["ranking"]:  # each loader's fastest settings, and with fewer workers, on one of the tiers
        if row["step_au_from"]:
            assert row["step_wait_ms"] >= 0 and 0 < row["step_au_percent"] <= 100 and row["minimum_step_ms"] > 0
    assert {row["loader"] for row in tables["ranking"] if row["step_au_from"] == "tried"} == found.keys()
    slow = [row for row in tables["ranking"] if row["loader"] == "torchaudio" and row["bottleneck"]]
    assert {row["bottleneck"] for row in slow} <= {"decode", "unclear"} and slow, "it opens a decoder for each item"


def test_tables_and_report_show_all_of_it(project, permitted):
    tables = read_tables(project.root / "results" / "tables" / "demo")
    panels = {row["scenario"] for row in tables["ranking"]}
    assert {"CPU", "CPU, 4 ms step", "CPU, cold cache", "CPU, training", "CPU, training by Lightning"} <= panels
    assert {row["tier"] for row in tables["ranking"]} == {"ram", "disk", "slow"}
    bounds = {row["bound"] for row in tables["bounds"]}
    assert {"in_memory", "decode"} <= bounds and (
        "storage" in bounds or not any(row["random_items_per_second"] for row in tables["tiers"])
    )
    by_scenario = {row["scenario"]: row for row in tables["ranking"] if row["status"] == "ok"}
    assert by_scenario["CPU, training"]["bound"] in ("compute", "in_memory")
    unbounded = {scenario for scenario, row in by_scenario.items() if not row["percent_of_bound"]}
    assert unbounded == {"CPU, plain loop"}, "it need not read what it is given, so that no bound applies"
    assert len(tables["training"]) == 2, "on two tiers"
    assert [row["epochs"] for row in tables["seconds"]] == [2] * 2, "as many epochs in each run, or no seconds"
    assert tables["tensors"] and tables["noise"]
    cold = [row for row in tables["best"] if row["scenario"] == "CPU, cold cache" and row["items_per_second"]]
    assert "disk" in {row["tier"] for row in cold}, "a ranking of their own"
    never = [row for row in tables["skipped"] if "never cold" in row["reason"]]
    assert {(row["loader"], row["tier"]) for row in never} == {(loader, "ram") for loader in SCENARIOS}
    html = (project.root / "report" / "index.html").read_text()
    assert "tensorboard --logdir results/tensorboard" in html
    assert permitted or "slow (emulated)" in html


def test_tensorboard_has_a_run_for_each_training(project):
    events = list((project.root / "results" / "tensorboard").rglob("events.out.tfevents.*"))
    assert len({path.parent for path in events}) == 4, "two tiers, bare and Lightning"
    names = {path.parent.relative_to(project.root / "results" / "tensorboard").parts[:3] for path in events}
    assert names == {("demo", tier, "numpy_memmap") for tier in ("ram", "disk")}


def test_a_second_call_has_nothing_to_do_but_to_try_again_what_failed(project, runs):
    failed = any(run["status"] == "failed" for run in runs.values())
    assert rules_of(project.planned())["measure_session"] == failed
