"""The table of how long batches took to come, from arrivals made by hand."""

import pytest

from scripts.tables import latency
from tests.support.made_runs import Made, tables_of


def run(loader="a", status="ok", slug="s"):
    return {"loader": loader, "tier": "ram", "slug": slug, "status": status, "counts": status == "ok"}


def record(*epochs):
    return {"times": {"epochs": [{"seconds": 1.0, "items": 9, **epoch} for epoch in epochs]}}


def quantiles(rows):
    return {row["percent"]: pytest.approx(row["milliseconds"]) for row in rows}


def test_latencies_pool_the_batches_of_all_epochs_and_runs():
    first = record({"arrivals_seconds": [0.5, 0.51, 0.53]}, {"arrivals_seconds": [0.9, 0.93]})
    second = record({"arrivals_seconds": [0.2, 0.24, 0.29]})
    rows = list(latency.rows([(run(), first), (run(), second)]))
    assert {(row["loader"], row["tier"], row["slug"], row["batches"]) for row in rows} == {("a", "ram", "s", 5)}
    assert [row["percent"] for row in rows] == [0, 1, 2, 5, 10, 25, 50, 75, 90, 95, 98, 99, 99.5, 100]
    found = {0: 10.0, 1: 10.4, 2: 10.8, 5: 12.0, 10: 14.0, 25: 20.0, 50: 30.0, 75: 40.0, 90: 46.0, 95: 48.0, 98: 49.2}
    assert quantiles(rows) == {**found, 99: 49.6, 99.5: 49.8, 100: 50.0}


def test_latencies_are_of_one_result_each():
    pairs = [
        (run("a"), record({"arrivals_seconds": [0.0, 0.001]})),
        (run("b"), record({"arrivals_seconds": [0.0, 0.002]})),
        (run("a", slug="t"), record({"arrivals_seconds": [0.0, 0.003]})),
        (run("a"), record({"arrivals_seconds": [0.0, 0.005]})),
    ]
    found = {(row["loader"], row["slug"]): row for row in latency.rows(pairs) if row["percent"] == 50}
    assert {key: row["milliseconds"] for key, row in found.items()} == pytest.approx(
        {("a", "s"): 3.0, ("b", "s"): 2.0, ("a", "t"): 3.0}
    )
    assert found["a", "s"]["batches"] == 2


@pytest.mark.parametrize(
    "pairs",
    [
        [(run(), record({"arrivals_seconds": [0.1, 0.2]})), (run(status="failed"), {"times": None})],
        [(run(status="skipped"), {"times": None}), (run(status="missing"), None)],
        [(run(), record({"arrivals_seconds": [0.1]}, {"arrivals_seconds": []}, {}))],
    ],
    ids=["one run failed", "no run", "single batches"],
)
def test_without_sound_runs_or_second_batches_there_are_no_latencies(pairs):
    assert list(latency.rows(pairs)) == []


def test_an_epoch_that_was_not_cold_has_no_latencies():
    warm = {"arrivals_seconds": [0.1, 0.101], "cache": {"problem": "half of it was in memory"}}
    cold = {"arrivals_seconds": [0.1, 0.15], "cache": {"problem": ""}}
    [row] = [row for row in latency.rows([(run(), record(warm, cold))]) if row["percent"] == 50]
    assert (row["milliseconds"], row["batches"]) == (pytest.approx(50.0), 1)


def test_latencies_reach_the_table(tmp_path):
    made = Made("a", "ram", [461.0, 461.0])  # a second an epoch, two batches in it
    rows = tables_of(tmp_path, [made])["latencies"]
    assert {row["milliseconds"] for row in rows} == {500.0}
    assert {row["batches"] for row in rows} == {4}
    assert tuple(row["percent"] for row in rows) == latency.PERCENTS


def test_ranks_have_gaps_of_their_own():
    """Two ranks whose batches come every 10 ms, at the same moments."""
    epoch = {"arrivals_seconds": [0.01, 0.01, 0.02, 0.02, 0.03, 0.03], "batch_ranks": [0, 1, 0, 1, 0, 1]}
    found = list(latency.rows([(run(), record(epoch))]))
    assert {row["batches"] for row in found} == {4}
    assert [row["milliseconds"] for row in found] == pytest.approx([10.0] * len(found))
