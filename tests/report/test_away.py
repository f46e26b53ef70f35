"""Data in object storage: what the page says to do with it, held against sums done by hand."""

import pytest

from scripts.common.files import read_json, write_json
from scripts.common.plan_file import read_plan
from scripts.report import charts
from scripts.report.away import away
from scripts.report.charts.in_flight import BOUND
from scripts.tables.columns import read_tables
from scripts.tables.make_tables import make_tables
from tests.support.made_runs import Made, fio_read, make_results
from tests.support.report_pages import rendered, section, tables_of

GETS = {1: 40.0, 5: 200.0, 20: 800.0, 64: 1000.0}


def streamed(speed, count, loader="s3_boto3"):
    outcomes = [speed * factor for factor in (0.99, 1.0, 1.01, 0.995, 1.005)]
    return Made(loader, "far", outcomes, "npy", workers=None, options={"in_flight": count})


LOCAL = Made("numpy_memmap", "disk", [4000.0, 4040.0, 3960.0, 4020.0, 3980.0])


def planned(root, *made, gets=True, **asked):
    """Return the path of the plan of results of which those on `far` are of object storage."""
    plan = make_results(root, made)
    path = root / "results/placed/demo/far.json"
    reads = [fio_read("get", count, 0.64 * speed, 640_000) for count, speed in GETS.items()] if gets else []
    write_json(path, {**read_json(path), "kind": "objects", "filesystem": "s3", "fio": {"reads": reads}})
    config = read_json(plan)
    config["config"]["report"] |= asked
    write_json(plan, config)
    return plan


def tables(root, *made, **more):
    make_tables(read_plan(planned(root, *made, **more)), root, root / "tables")
    return read_tables(root / "tables")


def test_streaming_that_is_slower_has_its_epochs_of_break_even(tmp_path):
    """461 items: 4.61 s an epoch streamed at 100 items/s, 0.11525 s locally, 0.461 s to fetch all at 1,000 items/s."""
    found, _, html = rendered(tmp_path, planned(tmp_path, LOCAL, streamed(25.0, 1), streamed(100.0, 5)))
    [one] = away(found)
    assert one["row"]["options"] == '{"in_flight": 5}' and one["local"]["loader"] == "numpy_memmap"
    assert one["epoch_seconds"] == pytest.approx(4.61, rel=0.01)
    assert one["local_seconds"] == pytest.approx(0.11525, rel=0.01)
    assert one["copy_seconds"] == pytest.approx(0.461)
    assert one["break_even_epochs"] == pytest.approx(0.461 / (4.61 - 0.11525), rel=0.02)
    quarter, half, _, whole = one["caches"]
    assert half["epoch_seconds"] == pytest.approx((4.61 + 0.11525) / 2, rel=0.01)
    assert quarter["left_bytes"] == pytest.approx(3 * quarter["bytes"]) and whole["left_bytes"] == 0
    assert whole["epoch_seconds"] == one["local_seconds"]
    assert one["text"] in section(html, "large") and "s3_boto3 far" in section(html, "objects")


def test_a_copy_that_takes_longer_than_an_epoch_saves_pays_later(tmp_path):
    [one] = away(tables(tmp_path, LOCAL, streamed(900.0, 64)))
    assert one["break_even_epochs"] == pytest.approx(0.461 / (461 / 900 - 0.11525), rel=0.05)


def test_the_users_own_gigabytes_scale_times_and_not_the_break_even(tmp_path):
    [small] = away(tables(tmp_path / "small", LOCAL, streamed(100.0, 5)))
    [large] = away(tables(tmp_path / "large", LOCAL, streamed(100.0, 5), gigabytes=300, ram_gigabytes=1000))
    assert large["bytes"] == pytest.approx(300e9 / 300_000 * 640_625, rel=1e-3), "padded to 10 s, as float32"
    assert large["break_even_epochs"] == pytest.approx(small["break_even_epochs"])
    assert large["epoch_seconds"] / small["epoch_seconds"] == pytest.approx(large["bytes"] / small["bytes"])


@pytest.mark.parametrize(("mbps", "speed", "pays"), [(128.0, 200.0, True), (32.0, 50.0, False)])
def test_larger_data_than_memory_is_read_from_the_local_disk_too(tmp_path, mbps, speed, pays):
    """Items of 640,000 bytes as float32; what keeps all of it in memory does not fit."""
    resident = Made("resident", "disk", [9000.0, 9040.0, 8960.0, 9020.0, 8980.0])
    own = {"gigabytes": 300, "ram_gigabytes": 64, "storage_mbps": mbps}
    [one] = away(tables(tmp_path, LOCAL, resident, streamed(100.0, 5), **own))
    assert one["local"]["loader"] == "numpy_memmap"
    assert one["local_seconds"] == pytest.approx(one["epoch_seconds"] * 100 / speed, rel=0.01)
    assert (one["break_even_epochs"] is not None) == pays


def test_what_keeps_all_in_memory_is_no_copy_of_what_does_not_fit(tmp_path):
    resident = Made("resident", "disk", LOCAL.outcomes)
    [one] = away(tables(tmp_path, resident, streamed(100.0, 5), gigabytes=300, ram_gigabytes=64))
    assert one["local"] is None


@pytest.mark.parametrize("speed", [4000.0, 9000.0])
def test_streaming_that_is_as_fast_is_streamed(tmp_path, speed):
    [one] = away(tables(tmp_path, LOCAL, streamed(speed, 64)))
    assert one["break_even_epochs"] is None and not one["caches"]


def test_what_was_not_measured_is_not_reckoned(tmp_path):
    [alone] = away(tables(tmp_path / "alone", streamed(100.0, 5)))
    assert alone["local"] is None
    [unknown] = away(tables(tmp_path / "unknown", LOCAL, streamed(100.0, 5), gets=False))
    assert unknown["break_even_epochs"] is None and unknown["copy_seconds"] is None
    in_memory = Made("numpy_memmap", "ram", LOCAL.outcomes)
    [ram] = away(tables(tmp_path / "ram", in_memory, streamed(100.0, 5)))
    assert ram["local"] is None, "a copy in RAM is no copy on a disk"


def test_without_object_storage_nothing_is_said(tmp_path):
    assert away(tables_of(tmp_path, [LOCAL])) == []


def test_requests_in_flight_are_drawn_beside_raw_gets(tmp_path):
    made = [streamed(25.0, 1), streamed(100.0, 5), streamed(110.0, 5, "s3_obstore"), streamed(390.0, 20, "s3_obstore")]
    rows = charts.load("in_flight").rows(tables(tmp_path, LOCAL, *made, streamed(500.0, 64, "ring_s3")))
    lines = [(row["loader"], row["in_flight"]) for row in rows]
    assert lines == [
        *(("s3_obstore", 5), ("s3_obstore", 20), ("s3_boto3", 1), ("s3_boto3", 5)),
        *((BOUND, count) for count in GETS),
    ], "a single number is no line"
    assert [row["items_per_second"] for row in rows[-4:]] == pytest.approx(list(GETS.values()))
