"""Results of several processes: compared among themselves, beside what one process gives times their number."""

import pytest

from scripts.common.files import read_json, write_json
from scripts.common.plan_file import read_plan
from scripts.tables.columns import settings_text
from tests.support.made_runs import Made, make_results, record_path, tables_from, tables_of


def test_the_ceiling_of_all_ranks_bounds_them(tmp_path):
    plan = read_plan(make_results(tmp_path, [Made("a", "ram", [1500.0], options={"world": 2})]))
    file = record_path(tmp_path, plan["results"][0])
    write_json(file, read_json(file) | {"ceiling": {"before": 2900.0, "after": 3100.0}})
    [row] = tables_from(tmp_path, plan)["ranking"]
    assert (row["bound"], row["bound_items_per_second"], row["percent_of_bound"]) == ("in_memory", 3000, 50)


def test_the_loss_by_sharing_is_that_to_one_process_with_the_same_settings(tmp_path):
    made = [
        Made("a", "ram", [1000.0] * 3),
        Made("a", "ram", [1500.0] * 3, options={"world": 2}),
        Made("b", "ram", [2800.0] * 3, options={"world": 2}),
        Made("b", "ram", [5000.0] * 3, workers=0),
    ]
    rows = {(row["loader"], row["world"]): row for row in tables_of(tmp_path, made)["ranking"]}
    shared, other = rows["a", 2], rows["b", 2]
    assert (shared["one_rank_times_world"], shared["sharing_loss_percent"]) == (pytest.approx(2000), pytest.approx(25))
    assert (other["one_rank_times_world"], other["sharing_loss_percent"]) == (None, None), "other settings alone"
    assert rows["a", 1]["one_rank_times_world"] is None
    assert {row["scenario"] for row in rows.values()} == {"CPU", "CPU, 2 ranks"}
    assert (other["rank"], shared["rank"]) == (1, 2) and rows["a", 1]["rank"] == 2, "within their number of ranks"
    assert shared["bound"] != "in_memory", "the ceiling of one process is no bound of two"
    assert settings_text(shared).startswith("2 ranks, batch 32") and "ranks" not in settings_text(rows["a", 1])
