"""What Lightning costs, and the seconds to iterate and to train."""

from statistics import stdev

import pytest

from tests.support.made_runs import Made, tables_of


def test_lightnings_cost_is_the_difference_with_its_interval(tmp_path):
    bare = [1000.0, 1200.0, 600.0, 1001.0, 900.0]  # what differs between rounds does not count
    costs = [1.25, 1.251, 1.249, 1.252, 1.248]
    made = [
        Made("a", "ram", bare, task="train", au=90.0),
        Made("a", "ram", [speed / more for speed, more in zip(bare, costs, strict=True)], task="lightning", au=70.0),
    ]
    [row] = tables_of(tmp_path, made)["training"]
    assert (row["loader"], row["tier"], row["slug"]) == ("a", "ram", "cpu-b32-w2-p2")
    assert row["lightning_cost_percent"] == pytest.approx(25, abs=0.01)
    assert row["cost_low"] < 25 < row["cost_high"]
    assert row["cost_high"] - row["cost_low"] < 2
    assert (row["bare_au_percent"], row["lightning_au_percent"]) == (90, 70)
    assert (row["bare_runs"], row["lightning_runs"]) == (5, 5)


def test_a_single_run_has_a_cost_without_an_interval(tmp_path):
    made = [Made("a", "ram", [100.0], task="train", au=9.0), Made("a", "ram", [50.0], task="lightning", au=9.0)]
    [row] = tables_of(tmp_path, made)["training"]
    assert (row["lightning_cost_percent"], row["cost_low"], row["cost_high"]) == (pytest.approx(100), None, None)


def test_what_trained_in_one_way_alone_has_no_cost(tmp_path):
    made = [
        Made("a", "ram", [100.0] * 3, task="train", au=9.0),
        Made("a", "ram", ["failed"] * 3, task="lightning"),
        Made("b", "ram", [50.0] * 3, task="lightning", au=9.0),
        Made("b", "ram", [60.0] * 3, task="train", au=9.0, workers=4),
        Made("c", "ram", [70.0] * 3),
    ]
    rows = tables_of(tmp_path, made)["training"]
    assert [(row["loader"], row["bare_items_per_second"], row["lightning_items_per_second"]) for row in rows] == [
        ("a", pytest.approx(100), None),
        ("b", pytest.approx(60), None),
        ("b", None, pytest.approx(50)),
    ]
    assert {row["lightning_cost_percent"] for row in rows} == {None}


def test_seconds_are_a_mean_with_its_deviation(tmp_path):
    made = [
        Made("a", "ram", [461.0, 230.5], task="iterate", epochs=5),
        Made("a", "ram", [46.1, 46.1], task="lightning", au=9.0, epochs=5),
        Made("b", "ram", [461.0], task="iterate", epochs=5),
        Made("c", "ram", [461.0], task="lightning", au=9.0, epochs=5),
    ]
    first, second = tables_of(tmp_path, made)["seconds"]
    assert (first["loader"], first["slug"], first["epochs"], first["read_runs"]) == ("a", "cpu-b32-w2-p2", 5, 2)
    assert (first["read_mean_seconds"], first["read_deviation_seconds"]) == (7.5, pytest.approx(stdev([5, 10])))
    assert (first["train_mean_seconds"], first["train_deviation_seconds"]) == (pytest.approx(50), pytest.approx(0))
    assert (second["loader"], second["read_mean_seconds"], second["read_deviation_seconds"]) == ("b", 5, None)
    assert (second["train_runs"], second["train_mean_seconds"]) == (0, None)


def test_seconds_of_another_number_of_epochs_are_not_put_side_by_side(tmp_path):
    made = [
        Made("a", "ram", [461.0], task="iterate", epochs=5),
        Made("a", "ram", [461.0], task="lightning", au=9.0, epochs=2),
        Made("b", "ram", [461.0], task="iterate", epochs=3),
    ]
    assert [(row["loader"], row["epochs"]) for row in tables_of(tmp_path, made)["seconds"]] == [("b", 3)]


def test_a_failed_run_takes_the_seconds(tmp_path):
    made = [
        Made("a", "ram", [461.0, "failed"], task="iterate"),
        Made("b", "ram", [461.0, 461.0], task="iterate"),
        Made("b", "ram", ["failed", 461.0], task="lightning", au=9.0),
    ]
    [row] = tables_of(tmp_path, made)["seconds"]
    assert (row["loader"], row["read_runs"], row["train_runs"]) == ("b", 2, 0)
