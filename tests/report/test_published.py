"""Results beside a published table: which are like its rows, and what is said of their order."""

import pytest
import yaml

from scripts.common.files import read_json, write_json
from scripts.common.plan_file import read_plan
from scripts.report.published import published
from scripts.tables.columns import read_tables
from scripts.tables.make_tables import make_tables
from tests.support.made_runs import Made, make_results
from tests.support.report_pages import rendered, row_of, section, sections

HEAD = dict.fromkeys(("source", "hardware", "settings", "differs"), "x") | {"title": "Theirs", "item": "items"}
ROWS = [
    {"name": "Map", "loader": "numpy_memmap", "settings": {"gather": "item"}, "per_second": 4000, "printed": 7000},
    {"name": "Files", "loader": "npy", "per_second": 2000},
    {"name": "Tar", "loader": "webdataset", "per_second": 1000},
    {"name": "Odd", "lacking": "nobody has it", "per_second": 10},
]


def made(loader, speed, tier="disk", **more):
    outcomes = [speed * factor for factor in (0.99, 1.0, 1.01, 0.995, 1.005)]
    return Made(loader, tier, outcomes, **more)


MAP = made("numpy_memmap", 9000.0, options={"gather": "item"})
FASTER_MAP = made("numpy_memmap", 20000.0, options={"gather": "batch"})


def planned(root, *results, rows=ROWS, corrected="", **table):
    """Return the path of the plan of results whose report stands beside a table."""
    path = root / "theirs.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.dump({**HEAD, "corrected": corrected, "rows": rows, **table}))
    plan = make_results(root, results)
    config = read_json(plan)
    config["config"]["report"]["published"] = str(path)
    write_json(plan, config)
    return plan


def tables(root, *results, **more):
    make_tables(read_plan(planned(root, *results, **more)), root, root / "tables")
    return read_tables(root / "tables")


def test_the_same_order_the_other_one_and_what_cannot_be_told(tmp_path):
    """Published: Map before Files before Tar. Here: Map first, and of Files and Tar the other order."""
    results = (MAP, FASTER_MAP, made("npy", 1000.0), made("webdataset", 3000.0))
    found, _, html = rendered(tmp_path, planned(tmp_path, *results, corrected="Its formula."))
    [one] = published(found)
    [panel] = one["panels"]
    assert panel["text"].startswith("Of 3 pairs 2 ") and "Tar before Files (3.0 times)" in panel["text"]
    assert [row["row"]["items_per_second"] for row in panel["rows"]] == pytest.approx([9000, 1000, 3000], rel=0.01)
    assert [row["times"] for row in panel["rows"]] == [4, 2, 1]
    assert [row["own_times"] for row in panel["rows"]] == pytest.approx([3, 1 / 3, 1], rel=0.01)
    assert [row["cores"] for row in panel["rows"]] == pytest.approx([1.5] * 3, rel=0.05)
    assert panel["text"] in section(html, "published")
    assert row_of(html, "published", "Map").startswith("Map 7,000 4,000 4.00 numpy_memmap")


def test_what_cannot_be_distinguished_is_neither_order(tmp_path):
    noisy = Made("npy", "disk", [9000.0, 9090.0, 8910.0, 9045.0, 8955.0])
    [one] = published(tables(tmp_path, MAP, noisy))
    assert one["panels"][0]["text"].startswith("Of 1 pair 0 ")
    assert one["absent"] == 1  # Tar


def test_each_tier_and_task_stands_by_itself(tmp_path):
    results = [made(loader, speed, tier) for loader, speed in (("npy", 900.0), ("webdataset", 300.0)) for tier in "ab"]
    results += [made("npy", 90.0, task="train", au=50.0), made("webdataset", 30.0, task="train", au=50.0)]
    rows = ROWS + [{**row, "name": f"{row['name']}, trained", "task": "train"} for row in ROWS[1:3]]
    [one] = published(tables(tmp_path, *results, rows=rows))
    assert [panel["place"] for panel in one["panels"]] == [
        "Reading, CPU, from a",
        "Reading, CPU, from b",
        "Training, CPU, from disk",
    ]


def test_rows_that_name_a_tier_are_of_that_tier(tmp_path):
    rows = [ROWS[1] | {"tier": "disk"}, ROWS[1] | {"name": "Far", "tier": "far", "per_second": 3}]
    [one] = published(tables(tmp_path, made("npy", 900.0), made("npy", 30.0, "far"), rows=rows))
    [panel] = one["panels"]
    assert [row["row"]["tier"] for row in panel["rows"]] == ["disk", "far"] and "1 have the" in panel["text"]


def test_a_table_for_other_data_or_without_results_says_so(tmp_path):
    assert published(tables(tmp_path / "image", MAP, kind="image")) == []
    assert "published" in sections(rendered(tmp_path, planned(tmp_path, MAP))[2])
