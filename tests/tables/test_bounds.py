"""Bounds: what the hardware allows, and which of them applies to a result."""

import pytest

from scripts.common.files import read_json, write_json
from scripts.common.plan_file import read_plan
from scripts.report.texts import bound_text
from scripts.tables import bounds, ranking
from tests.support.made_runs import Made, explained, fio_read, make_results, record_path, tables_from, tables_of

DISK = {readers: 2850.0 * 1.2 ** (readers - 1) for readers in (1, 2, 4)}  # items/s of the made profile


def applying(tables):
    """The bound's name and speed, and the percentage of it, by scenario."""
    names = ("bound", "bound_items_per_second", "percent_of_bound")
    return {row["scenario"]: tuple(row[name] for name in names) for row in tables["ranking"]}


def test_each_state_of_the_cache_has_its_bound(tmp_path):
    made = [Made("a", "disk", [1000.0], cache=cache) for cache in ("warm", "cold", "limited")]
    found = applying(tables_of(tmp_path, made, bounds={("cpu", 32): [30000.0]}))
    assert found["CPU"] == ("in_memory", 30000, pytest.approx(100 / 30))
    assert found["CPU, cold cache"] == ("storage", pytest.approx(DISK[2]), pytest.approx(1e5 / DISK[2]))
    assert found["CPU, limited cache"] == ("storage", pytest.approx(DISK[2] / 0.5), pytest.approx(5e4 / DISK[2]))


FITTING = [(503e6, True, True), (280e6, True, False), (1e6, False, False), (None, None, None)]


@pytest.mark.parametrize(("caches", "pool_fits", "data_fits"), FITTING)
def test_what_fits_into_the_last_level_caches_is_said(tmp_path, caches, pool_fits, data_fits):
    """Of the data and of what the ceiling streams: then neither is read from memory."""
    plan = read_plan(make_results(tmp_path, [Made("a", "ram", [1000.0], "memmap")], {("cpu", 32): [30000.0]}))
    file = record_path(tmp_path, plan["bounds"][0])
    said = {"host": {"last_level_cache_bytes": caches and int(caches)}, "pool_bytes": 268_000_000}
    write_json(file, read_json(file) | said)
    tables = tables_from(tmp_path, plan)
    [bound] = [row for row in tables["bounds"] if row["bound"] == "in_memory"]
    [written] = tables["formats"]
    assert (bound["pool_bytes"], bound["fits_cache"], written["fits_cache"]) == (268_000_000, pool_fits, data_fits)


@pytest.mark.parametrize("controls", [[30000.0, 30000.0], []])
def test_the_ceiling_of_its_own_runs_goes_before_that_of_the_control_runs(tmp_path, controls):
    made = [Made("a", "ram", [1000.0, 1000.0]), Made("b", "ram", [900.0])]
    plan = read_plan(make_results(tmp_path, made, {("cpu", 32): controls}))
    for repeat, speed in ((0, 2000.0), (1, 3000.0)):
        file = record_path(tmp_path, plan["results"][0], repeat)
        write_json(file, read_json(file) | {"ceiling": {"before": speed - 100, "after": speed + 100}})
    tables = tables_from(tmp_path, plan)
    first, second = tables["ranking"]
    assert (first["bound"], first["bound_items_per_second"]) == ("in_memory", 2500), "the median of the runs'"
    assert first["percent_of_bound"] == pytest.approx(40)
    assert [run["ceiling_items_per_second"] for run in tables["runs"]] == [2000, 3000, None]
    assert second["bound_items_per_second"] == (30000 if controls else None)


@pytest.mark.parametrize(("workers", "readers"), [(None, 1), (0, 1), (1, 1), (2, 2), (4, 4)])
def test_the_storage_bound_is_of_as_many_readers_as_workers(tmp_path, workers, readers):
    tables = tables_of(tmp_path, [Made("a", "disk", [10.0], cache="cold", workers=workers)])
    assert applying(tables)["CPU, cold cache"][1] == pytest.approx(DISK[readers])


def test_a_tier_without_fio_has_no_storage_bound(tmp_path):
    tables = tables_of(tmp_path, [Made("a", "ram", [10.0], cache="cold")], bounds={("cpu", 32): [100.0]})
    assert applying(tables)["CPU, cold cache"] == ("", None, None)
    assert [row["bound"] for row in tables["bounds"]] == ["in_memory"]


def test_an_emulated_tier_has_the_bound_of_what_it_emulates(tmp_path):
    made = [Made("a", tier, [10.0], cache="cold") for tier in ("disk", "slow")]
    tables = tables_of(tmp_path, made, emulated=["slow"])
    found = {row["tier"]: row["bound_items_per_second"] for row in tables["ranking"]}
    assert found == {"disk": pytest.approx(DISK[2]), "slow": pytest.approx(DISK[2] / 20)}
    assert {row["tier"] for row in tables["bounds"]} == {"disk", "slow"}


def test_a_training_is_bound_by_its_steps(tmp_path):
    made = [
        Made("a", "ram", [800.0], task="train", au=80.0),
        Made("a", "ram", [500.0], step_ms=20.0, au=50.0),
        Made("b", "ram", [29000.0], task="train", au=50.0),
    ]
    tables = tables_of(tmp_path, made, bounds={("cpu", 32): [30000.0]})
    found = {(row["loader"], row["scenario"]): (row["bound"], row["percent_of_bound"]) for row in tables["ranking"]}
    assert found["a", "CPU, training"] == ("compute", pytest.approx(80))
    assert found["a", "CPU, 20 ms step"] == ("compute", pytest.approx(50))
    assert found["b", "CPU, training"] == ("in_memory", pytest.approx(2900 / 30))


def test_above_a_hundred_percent_a_result_is_at_its_bound(tmp_path):
    for speed, word in ((950.0, ""), (1090.0, "at the bound"), (1400.0, "above the bound")):
        made = [Made("a", "ram", [speed] * 2), Made("b", "ram", [10.0] * 2)]
        tables = tables_of(tmp_path / str(speed), made, bounds={("cpu", 32): [900.0, 1000.0, 1300.0]})
        assert bound_text(tables["best"][0]["percent_of_bound"]) == word


def test_a_plain_loop_need_not_read_and_has_none(tmp_path):
    tables = tables_of(tmp_path, [Made("a", "ram", [1e6], task="iterate")], bounds={("cpu", 32): [30000.0]})
    assert applying(tables)["CPU, plain loop"] == ("", None, None)


def test_the_fastest_way_to_read_counts_at_the_size_of_an_item():
    reads = [
        fio_read("random", 1, 100.0, 640 * 1024),
        fio_read("random", 1, 900.0, 4 * 2**20),  # items of another format
        fio_read("sequential", 1, 200.0),
        fio_read("random", 2, 150.0, 640 * 1024),
    ]
    assert bounds.storage(reads, 640 * 1024, 1) == pytest.approx(200e6 / (640 * 1024))
    assert bounds.storage([*reads, fio_read("readahead", 1, 300.0)], 640 * 1024, 2) == pytest.approx(300e6 / 655360)
    plain = [fio_read("positioned", 1, 400.0, 640 * 1024), fio_read("positioned", 1, 800.0, 4 * 2**20)]
    assert bounds.storage([*reads, *plain], 640 * 1024, 1) == pytest.approx(400e6 / 655360)
    assert bounds.storage(reads, 640 * 1024, 2) == pytest.approx(200e6 / (640 * 1024)), "one reader alone was faster"
    assert bounds.storage(reads, 640 * 1024, 8) is None
    jpeg = [fio_read("random", 1, 300.0, 640 * 1024), *reads[1:]]
    assert bounds.storage(jpeg, 100_000, 1) == pytest.approx(300e6 / 100_000), "no reads of its size: the next larger"
    assert bounds.storage(jpeg, 2**24, 1) == pytest.approx(200e6 / 2**24), "smaller reads may be slower"
    assert bounds.storage([], 640 * 1024, 1) is None


@pytest.mark.parametrize(
    ("size", "items", "found"),
    [
        *((512 * 640_100, 512, 640_000), (512 * 25_000, 512, 25_000), (25_001, 2, 12_501)),
        (None, None, 640_000),  # it could not be written
    ],
)
def test_of_encoded_files_the_bytes_are_those_that_were_written(size, items, found):
    """JPEG is several times smaller than what is decoded: its bound would be as much too low."""
    assert bounds.stored_bytes({"bytes": size, "items": items, "item_bytes": 640_000}) == found


def test_decoding_alone_is_a_bound_of_each_result_that_decodes(tmp_path):
    parts = explained(100.0, 1e5, decode=200.0, read=400.0)
    made = [Made("wav", "disk", [100.0], "wav", trials=parts), Made("npy", "disk", [100.0], "npy")]
    [row] = [row for row in tables_of(tmp_path, made)["bounds"] if row["bound"] == "decode"]
    assert (row["loader"], row["tier"], row["slug"]) == ("wav", "disk", "cpu-b32-w2-p2")
    assert row["items_per_second"] == pytest.approx(200), "5 ms of 10 are decoding"


def test_formats_of_one_size_share_a_row(tmp_path):
    made = [Made("a", "disk", [10.0], "npy", workers=workers) for workers in (0, 4)] + [Made("b", "disk", [9.0], "wav")]
    rows = [row for row in tables_of(tmp_path, made)["bounds"] if row["bound"] == "storage"]
    assert [(row["formats"], row["readers"]) for row in rows] == [("npy, wav", count) for count in (1, 2, 4)]
    assert rows[0]["items_per_second"] == pytest.approx(DISK[1])


def result_on(tier: str, **given):
    row = {"tier": tier, "format": "npy", "task": "read", "cache": "warm", "device": "cpu", "batch_size": 32}
    row |= {"workers": 0, "world": 1, "options": "", "ceiling_items_per_second": 9000.0, "au_percent": None}
    return {**row, "items_per_second": 50.0, **given}


def test_what_is_read_from_objects_is_bound_by_raw_gets_with_as_many_in_flight():
    speeds = {1: 47.0, 2: 90.0, 5: 225.0, 20: 705.0, 64: 690.0}
    reads = [
        {"pattern": "get", "method": "get", "readers": count, "block_bytes": size, "megabytes_per_second": speed * 0.64}
        for count, speed in speeds.items()
        for size in (640_000, 1_000_000)
    ]
    plan = {"results": [], "bounds": [], "emulated": ["far"]}
    sizes = {"npy": 640_000, "webdataset": 25_000}  # of objects of another size nothing is said
    rows = list(bounds.rows(plan, [], {"far": {"fio": {"reads": reads}}, "disk": None}, sizes))
    assert {row["readers"]: row["items_per_second"] for row in rows} == pytest.approx(speeds)
    assert {(row["bound"], row["tier"], row["formats"]) for row in rows} == {("storage", "far", "npy")}

    def bound_of(**given):
        [row] = bounds.apply([result_on("far", **given)], rows, 0.5)
        return row["bound"], row["bound_items_per_second"]

    assert bound_of(options='{"fetchers": 0}') == ("storage", pytest.approx(47))
    assert bound_of(options='{"fetchers": 5, "other": 1}') == ("storage", pytest.approx(225))
    assert bound_of(options='{"in_flight": 5}', workers=2) == ("storage", pytest.approx(705)), "ten: at most that of 20"
    assert bound_of(options='{"in_flight": 64}') == ("storage", pytest.approx(705)), "fewer were faster"
    assert bound_of() == ("storage", pytest.approx(705)), "how many it keeps in flight is not known"
    assert bound_of(format="memmap") == ("in_memory", 9000)
    assert bound_of(task="iterate") == (None, None)
    [row] = bounds.apply([result_on("disk", options='{"in_flight": 5}')], rows, 0.5)
    assert row["bound"] == "in_memory"


@pytest.mark.parametrize(
    ("bound", "ceiling", "scaled"),
    [
        ("in_memory", 100.0, {"bound_items_per_second": 130.0, "ceiling_items_per_second": 130.0}),
        ("compute", None, {"bound_items_per_second": 130.0}),
        ("storage", 200.0, {"ceiling_items_per_second": 260.0}),
        ("in_memory", None, {}),  # that of the control runs
        (None, None, {}),
    ],
)
def test_what_was_measured_in_the_same_runs_is_as_of_the_mean_block_too(bound, ceiling, scaled):
    """A result that was run in slow rounds alone would be above a ceiling of these."""
    row = {"items_per_second": 95.0, "bound": bound, "ceiling_items_per_second": ceiling}
    row["bound_items_per_second"] = bound and 100.0
    assert ranking._as_of_the_mean_round(row, 123.5) == pytest.approx(scaled)
