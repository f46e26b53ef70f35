"""After how many epochs a format has paid for its conversion, from made costs whose answer is known."""

from random import Random

import pytest

from scripts.common.files import write_json
from scripts.common.plan_file import read_plan
from scripts.tables import break_even
from scripts.tables.columns import COLUMNS
from tests.support.made_runs import Made, make_results, tables_from

ITEMS = 1000


def row(format, speed, tier="disk", device="cpu", runs=5, loader=None, **changes):
    """Return a row as ranking.best gives it: the speeds of `runs` rounds, within 0.2 % of `speed` items/s."""
    noise = Random(f"{format} {tier} {loader}")
    speeds = {run: speed * (1 + 0.002 * noise.uniform(-1, 1)) for run in range(runs)}
    names = {"loader": loader or f"{format}_loader", "tier": tier, "format": format, "slug": "s", "device": device}
    scenarios = {"task": "read", "cache": "warm", "step_ms": 0}
    return {**names, **scenarios, "status": "ok", "items_per_second": speed, "speeds": speeds, **changes}


def written(**seconds):
    """Return rows of formats.csv: the seconds that each format took to write; None: it was not written."""
    return [
        {"format": name, "seconds": value, "items": None if value is None else ITEMS} for name, value in seconds.items()
    ]


def found(best, formats):
    return {(one["tier"], one["format"]): one for one in break_even.rows(best, formats)}


def test_a_dearer_and_faster_format_pays_after_the_epochs_that_its_conversion_costs():
    rows = found([row("plain", 100.0), row("fast", 500.0)], written(plain=4.0, fast=20.0))
    fast, plain = rows["disk", "fast"], rows["disk", "plain"]
    assert (fast["prepare_seconds"], fast["epoch_seconds"]) == (20.0, 2.0)
    assert (fast["against_format"], fast["against_loader"]) == ("plain", "plain_loader")
    assert (fast["against_prepare_seconds"], fast["against_epoch_seconds"]) == (4.0, 10.0)
    assert (fast["break_even_epochs"], fast["reason"]) == (2.0, ""), "16 s of conversion, 8 s saved an epoch"
    assert (plain["break_even_epochs"], plain["reason"]) == (None, break_even.CHEAPEST)


def test_a_faster_format_that_is_also_cheaper_pays_at_once():
    rows = found([row("good", 500.0), row("bad", 100.0), row("worse", 50.0)], written(good=4.0, bad=20.0, worse=30.0))
    good = rows["disk", "good"]
    assert (good["break_even_epochs"], good["against_format"], good["reason"]) == (0.0, "bad", "")
    for name in ("bad", "worse"):
        one = rows["disk", name]
        assert (one["break_even_epochs"], one["reason"], one["against_format"]) == (None, break_even.SLOWER, "good")


def test_of_equally_cheap_formats_the_faster_one_is_the_measure():
    rows = found([row("a", 100.0), row("b", 200.0)], written(a=4.0, b=4.0))
    assert (rows["disk", "b"]["break_even_epochs"], rows["disk", "a"]["reason"]) == (0.0, break_even.SLOWER)


def test_what_cannot_be_told_apart_is_not_said_to_pay():
    same = found([row("a", 100.0), row("b", 100.1)], written(a=4.0, b=8.0))
    assert (same["disk", "b"]["break_even_epochs"], same["disk", "b"]["reason"]) == (None, break_even.UNTOLD)
    assert same["disk", "a"]["reason"] == break_even.CHEAPEST
    single = found([row("a", 100.0, runs=1), row("b", 900.0, runs=1)], written(a=4.0, b=8.0))
    assert single["disk", "b"]["reason"] == break_even.UNTOLD


def test_formats_that_were_not_written_or_have_no_speed_have_no_row():
    best = [
        row("plain", 100.0),
        row("absent", 900.0),
        row("unknown", 900.0),
        row("wrong", 900.0) | {"status": "failed", "items_per_second": None, "speeds": {}},
        row("", 900.0) | {"status": "skipped", "items_per_second": None, "speeds": {}},
    ]
    rows = found(best, written(plain=4.0, absent=None, wrong=1.0))
    assert {format for _, format in rows} == {"plain"}
    assert rows["disk", "plain"]["reason"] == break_even.ALONE
    assert list(break_even.rows([], [])) == []


def test_a_format_stands_for_its_fastest_loader_on_that_tier_and_device():
    best = [
        row("plain", 100.0),
        row("fast", 200.0, loader="late"),
        row("fast", 500.0, loader="soon"),
        row("plain", 1000.0, tier="ram"),
        row("fast", 4000.0, tier="ram", loader="late"),
        row("fast", 50.0, device="cuda"),
    ]
    rows = list(break_even.rows(best, written(plain=4.0, fast=20.0)))
    names = [(one["device"], one["tier"], one["format"], one["loader"], one["break_even_epochs"]) for one in rows]
    assert names == [
        ("cpu", "disk", "plain", "plain_loader", None),
        ("cpu", "disk", "fast", "soon", 2.0),
        ("cpu", "ram", "plain", "plain_loader", None),
        ("cpu", "ram", "fast", "late", pytest.approx(16 / 0.75)),
        ("cuda", "disk", "fast", "fast_loader", None),
    ]


@pytest.mark.parametrize("scenario", [{"task": "iterate"}, {"cache": "cold"}, {"step_ms": 20.0}])
def test_other_scenarios_do_not_count(scenario):
    assert list(break_even.rows([row("plain", 100.0, **scenario)], written(plain=4.0))) == []


def test_the_table_as_it_is_written_and_read(tmp_path):
    made = [Made("a", "disk", [100.0] * 5, "wav"), Made("b", "disk", [500.0] * 5, "memmap")]
    path = make_results(tmp_path, [*made, Made("c", "disk", ["skipped"] * 5, "zarr")])
    for name, seconds, items in (("wav", 1.0, 1000), ("memmap", 41.0, 1000), ("zarr", None, None)):
        record = {"format": name, "seconds": seconds, "bytes": 1, "files": 2, "items": items, "item_bytes": 640_000}
        write_json(tmp_path / "results" / "formats" / "demo" / f"{name}.json", record)
    first, second = tables_from(tmp_path, read_plan(path))["break_even"]
    assert tuple(first) == COLUMNS["break_even"]
    assert (first["format"], first["break_even_epochs"], first["reason"]) == ("wav", None, break_even.CHEAPEST)
    assert (first["against_format"], first["against_epoch_seconds"]) == ("", None)
    assert (second["format"], second["loader"], second["break_even_epochs"]) == ("memmap", "b", pytest.approx(5))
