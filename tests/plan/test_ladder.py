"""The ladder of optimisations: its steps in the plan, their gains in the table, the waterfall."""

import pytest
import yaml
from matplotlib import pyplot as plt

from scripts.common.files import write_json
from scripts.common.plan_file import read_plan
from scripts.plan import config as configuration
from scripts.plan.experiment import Plan
from scripts.report import charts, draw_figures
from scripts.tables import make_tables
from scripts.tables.columns import read_tables
from tests.support.made_runs import Made, make_results, measured, proof_record, run_record

SPREAD = (1 / 1.02, 1.0, 1.01, 1 / 1.01, 1.02)  # their geometric mean is 1
NO_COPY = "batches for the CPU are copied to no device: pin_memory has no effect there"


@pytest.fixture
def raw(tmp_path) -> dict:
    """A small config, with a ladder of four steps."""
    return {
        "dataset": "demo",
        "datasets": {"demo": {"source": "synthetic"}},
        "storage": {"first": {"path": str(tmp_path / "first")}, "second": {"path": str(tmp_path / "second")}},
        "loaders": ["torchaudio", "numpy_memmap"],
        "sweep": {"device": ["cpu"], "task": []},
        "ladder": [
            {"change": "naive", "loader": "torchaudio", "workers": 0, "prefetch": 1, "pin_memory": False},
            {"change": "fast decode", "decoder": "soundfile"},
            {"change": "memory map", "loader": "numpy_memmap", "gather": "item"},
            {"change": "workers", "workers": 4},
        ],
    }


def settings_of(plan, *keys):
    return [tuple(step.settings.get(key) for key in keys) for step in plan.ladder_steps]


def test_a_rung_is_the_one_below_but_for_what_it_says(raw):
    """A loader's own options begin anew with it."""
    raw["ladder"].append({"change": "back again", "loader": "torchaudio"})
    plan = Plan(raw)
    assert settings_of(plan, "workers", "prefetch", "batch_size") == [(0, None, 32)] * 3 + [(4, 1, 32)] * 2
    of_loader = [("load", None), ("soundfile", None), (None, "item"), (None, "item"), ("load", None)]
    assert settings_of(plan, "decoder", "gather") == of_loader
    assert [step.reason for step in plan.ladder_steps] == [""] * 5


def test_what_the_first_rung_leaves_out_is_the_first_of_its_loaders_list(raw, monkeypatch):
    monkeypatch.setattr(Plan, "has_gpu", True)
    raw["loaders"][0] = {"name": "torchaudio", "decoder": ["torchcodec", "load"], "workers": [3, 1]}
    raw["sweep"] = {"device": ["auto"], "batch_size": [16, 8], "task": []}
    raw["ladder"][0] = {"change": "naive", "loader": "torchaudio"}
    first = settings_of(Plan(raw), "device", "decoder", "workers", "batch_size")[0]
    assert first == ("cuda", "torchcodec", 3, 16), "the GPU where there is one"


def test_without_a_sweep_the_rungs_alone_are_run(raw):
    plan = Plan(raw)
    assert {(result.loader, result.slug, result.tier) for result in plan.results} == {
        (entry["loader"], entry["slug"], "first") for entry in plan.as_json()["ladder"]
    }
    assert len(plan.results) == len({result.id for result in plan.results}) == 4
    assert {(result.task, result.cache, result.step_ms) for result in plan.results} == {("read", "warm", 0)}
    assert plan.readers_at_once == [1, 4] and len(plan.bounds) == 1


def test_no_run_is_made_twice(raw):
    """Neither with a sweep that makes some of the steps, nor where the ladder comes by a step again."""
    raw["sweep"] |= {"task": ["read"], "workers": [0, 2]}
    swept = {result.id for result in Plan({**raw, "ladder": []}).results}
    raw["ladder"].append({"change": "without them again", "workers": 0})
    plan = Plan(raw)
    paths = [result.id for result in plan.results]
    ladder_steps = {(entry["loader"], entry["slug"]) for entry in plan.as_json()["ladder"]}
    assert len(ladder_steps) == 4 and len(plan.as_json()["ladder"]) == 5
    assert len(paths) == len(set(paths)) and swept < set(paths)
    assert ladder_steps <= {(result.loader, result.slug) for result in plan.results if result.tier == "first"}
    added = {(result.loader, result.slug) for result in plan.results if result.id not in swept}
    assert added == ladder_steps - {("torchaudio", "cpu-b32-w0-decoder_load")}


def test_the_ladder_stands_on_the_first_tier_that_is_not_emulated(raw):
    raw["storage"]["first"]["emulate"] = "hdd_7200"
    assert {result.tier for result in Plan(raw).results} == {"second"}


@pytest.mark.parametrize(
    "ladder_step",
    [{"pin_memory": True}, {"device_prefetch": 2}, {"pin_memory": True, "device_prefetch": 2}, {"prefetch": 4}],
)
def test_a_change_without_meaning_is_skipped_with_its_reason(raw, ladder_step):
    raw["ladder"][3] = {"change": "no change", **ladder_step}
    raw["ladder"].append({"change": "workers", "workers": 4})
    plan = Plan(raw)
    entries = plan.as_json()["ladder"]
    assert [entry["reason"] != "" for entry in entries] == [False, False, False, True, False]
    assert entries[3]["slug"] is None and entries[3]["loader"] == "numpy_memmap"
    assert len(plan.results) == 4


@pytest.mark.parametrize("gpu", [False, True])
def test_the_preset_measures_its_rungs_and_nothing_else(monkeypatch, gpu):
    monkeypatch.setattr(Plan, "has_gpu", gpu)
    shipped = yaml.safe_load((configuration.PROJECT / "config.yaml").read_text())
    plan = Plan(shipped, {"dataset": "demo", "preset": "ladder"})
    assert len(plan.ladder_steps) == 10 and plan.config["measure"]["repeats"] == 7
    skipped = [ladder_step for ladder_step in plan.ladder_steps if ladder_step.reason]
    assert len(skipped) == (0 if gpu else 2)
    assert len(plan.results) == 10 - len(skipped)
    assert {result.settings["device"] for result in plan.results} == {"cuda" if gpu else "cpu"}
    assert {result.tier for result in plan.results} == {next(iter(plan.tiers))}
    assert list(plan.loaders) == list(dict.fromkeys(ladder_step.loader for ladder_step in plan.ladder_steps))


@pytest.fixture
def in_ladder(tmp_path):
    """Return a function from [(change, made result or None, reason)] to the tables."""

    def tables(ladder_steps):
        planned = read_plan(make_results(tmp_path, [made for _, made, _ in ladder_steps if made is not None]))
        planned["ladder"] = [
            {
                **{"change": change, "loader": made.loader if made else "a", "tier": made.tier if made else "ram"},
                **{"slug": made.slug if made else None, "reason": reason},
            }
            for change, made, reason in ladder_steps
        ]
        make_tables.make_tables(planned, tmp_path, tmp_path / "tables")
        return read_tables(tmp_path / "tables")

    return tables


def ladder_step(loader, speed, change="a change", results=SPREAD, **more):
    turn = ord(loader[0]) % len(results)  # in other rounds than those of the other loaders
    return change, Made(loader, "ram", [speed * factor for factor in (*results[turn:], *results[:turn])], **more), ""


def lost(outcomes, loader="lost"):
    return "a change", Made(loader, "ram", outcomes), ""


def test_gains_are_over_the_rung_below_with_their_interval(in_ladder):
    rows = in_ladder(
        [ladder_step("a", 100.0, "naive"), ladder_step("b", 1000.0), ladder_step("c", 500.0), ladder_step("d", 505.0)]
    )["ladder"]
    assert [(row["step"], row["change"], row["loader"]) for row in rows][:2] == [
        (1, "naive", "a"),
        (2, "a change", "b"),
    ]
    assert [row["items_per_second"] for row in rows] == pytest.approx([100, 1000, 500, 505])
    assert [row["times_faster"] for row in rows[1:]] == pytest.approx([10, 0.5, 1.01])
    assert [row["times_faster_than_first"] for row in rows] == pytest.approx([1, 10, 5, 5.05])
    assert 970 < rows[1]["interval_low"] < 1000 < rows[1]["interval_high"] < 1030
    assert 9 < rows[1]["faster_low"] < 10 < rows[1]["faster_high"] < 11
    assert rows[2]["faster_high"] < 1
    assert rows[3]["faster_low"] < 1 < rows[3]["faster_high"]
    assert (rows[0]["faster_low"], rows[0]["faster_high"]) == (None, None)
    assert {(row["tier"], row["runs"], row["status"], row["reason"]) for row in rows} == {("ram", 5, "ok", "")}


def test_over_a_rung_without_a_speed_the_gain_is_over_the_last_one_with_one(in_ladder):
    rows = in_ladder(
        [
            ladder_step("a", 100.0),
            lost(["failed", 900.0, 900.0]),
            ("pinned", None, NO_COPY),
            lost(["skipped"] * 3, "absent"),
            lost([None] * 3, "never"),
            ladder_step("b", 400.0),
            ladder_step("c", 800.0),
        ]
    )["ladder"]
    assert [row["status"] for row in rows] == ["ok", "failed", "skipped", "skipped", "missing", "ok", "ok"]
    assert [row["times_faster"] for row in rows[:5]] == [None] * 5
    assert [row["times_faster"] for row in rows[5:]] == pytest.approx([4, 2])
    assert [row["times_faster_than_first"] for row in rows if row["status"] == "ok"] == pytest.approx([1, 4, 8])
    assert [row["items_per_second"] for row in rows[1:5]] == [None] * 4
    assert (rows[2]["reason"], rows[2]["slug"], rows[2]["runs"]) == (NO_COPY, "", 0)
    assert all(row["reason"] for row in rows[1:6]) and rows[6]["reason"] == ""


def test_a_single_run_has_a_gain_without_an_interval(in_ladder):
    rows = in_ladder([ladder_step("a", 100.0, results=[1.0]), ladder_step("b", 300.0, results=[1.0])])["ladder"]
    assert rows[1]["times_faster"] == pytest.approx(3) and rows[1]["runs"] == 1
    blank = ("interval_low", "interval_high", "faster_low", "faster_high")
    assert [row[column] for row in rows for column in blank] == [None] * 8


def test_where_the_first_rung_has_no_speed_nothing_is_compared_with_it(in_ladder):
    rows = in_ladder([lost(["failed"] * 5), ladder_step("a", 100.0), ladder_step("b", 200.0)])["ladder"]
    assert [row["times_faster"] for row in rows] == [None, None, pytest.approx(2)]
    assert [row["times_faster_than_first"] for row in rows] == [None] * 3


def test_from_the_config_to_the_table(raw, tmp_path):
    """The plan's own steps meet the records of its runs."""
    raw["ladder"].append({"change": "pinned memory", "pin_memory": True})
    plan = Plan(raw, project=tmp_path)
    speeds = {entry["slug"]: 100.0 * 2**step for step, entry in enumerate(plan.as_json()["ladder"])}

    def made(result):
        return Made(
            result.loader,
            result.tier,
            [speeds[result.slug] * (1 + round_number / 1000) for round_number in range(7)],
            result.format,
        )

    def own(result):
        return {"slug": result.slug, "settings": dict(result.settings)}

    session = measured(plan, plan.results, rounds=0, proof_of=lambda result: proof_record(made(result)) | own(result))
    for result in plan.results:
        for round_number in range(7):
            session.note(
                result.id,
                session.folder / result.id / f"{round_number}.json",
                run_record(made(result), round_number) | own(result),
            )
    write_json(tmp_path / "plan.json", plan.as_json())
    make_tables.make_tables(read_plan(tmp_path / "plan.json"), tmp_path, tmp_path / "tables")
    rows = read_tables(tmp_path / "tables")["ladder"]
    assert [row["change"] for row in rows] == ["naive", "fast decode", "memory map", "workers", "pinned memory"]
    assert [row["times_faster"] for row in rows[1:4]] == pytest.approx([2, 2, 2])
    assert [row["status"] for row in rows] == ["ok"] * 4 + ["skipped"]


@pytest.fixture
def figure_of(in_ladder):
    """Return a function from steps to (figure, its axis)."""

    def drawn(ladder_steps):
        figure = draw_figures.picture(charts.load("ladder"), in_ladder(ladder_steps))
        return figure, figure.axes[0]

    with draw_figures.style():
        yield drawn
    plt.close("all")


def words(texts):
    return [" ".join(text.get_text().split()) for text in texts]


def test_each_bar_goes_from_the_rung_below_to_its_own(figure_of):
    figure, axis = figure_of(
        [ladder_step("a", 100.0, "naive"), ladder_step("b", 1000.0), ladder_step("c", 500.0), ladder_step("d", 505.0)]
    )
    bars = [(bar.get_y() + bar.get_height() / 2, bar.get_x(), bar.get_x() + bar.get_width()) for bar in axis.patches]
    assert [place for place, _, _ in bars] == pytest.approx([0, 1, 2, 3])
    ends = [(start, end) for _, start, end in bars]
    assert ends[1:] == [pytest.approx(pair) for pair in ((100, 1000), (500, 1000), (500, 505))]
    assert ends[0][1] == pytest.approx(100)
    assert axis.get_xscale() == "log" and "logarithmic" in axis.get_xlabel()
    assert [text.partition(" ")[0] for text in words(axis.texts)] == ["100", "1,000", "500", "505"]
    assert len(figure.legends[0].get_texts()) == 4
    assert [bool(bar.get_hatch()) for bar in axis.patches[1:3]] == [False, True], "slower is hatched"


def test_a_rung_without_a_speed_has_its_reason_in_words(figure_of):
    _, axis = figure_of(
        [ladder_step("a", 100.0), lost(["failed"] * 5), ("pinned", None, NO_COPY), ladder_step("b", 300.0)]
    )
    said = words(axis.texts)
    assert said[1].startswith("failed: ") and said[2] == f"skipped: {NO_COPY}"
    assert len(axis.patches) == 2


def test_every_text_stays_within_the_figure(figure_of):
    long = "a change whose name goes on and on, as somebody may well write it down, who has much to say of it"
    figure, _ = figure_of(
        [ladder_step("a" * 60, 0.5, long), ladder_step("b", 1e6, long), ("pinned", None, NO_COPY * 9)]
    )
    renderer = figure.canvas.get_renderer()
    edges = figure.bbox
    for text in (*figure.axes[0].texts, *figure.axes[0].get_yticklabels()):
        box = text.get_window_extent(renderer)
        assert edges.x0 <= box.x0 and box.x1 <= edges.x1, text.get_text()
