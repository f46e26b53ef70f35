"""Published tables: what the shipped ones say, and what is refused of a user's own."""

import pytest
import yaml

from scripts.common import plugins
from scripts.common.published import FOLDER, published_file, published_names, read_published
from scripts.common.settings import IN_COLUMNS
from scripts.common.vocabulary import TASKS

SHIPPED = sorted(path.stem for path in FOLDER.glob("*.yaml"))
WORDS = dict.fromkeys(("title", "source", "hardware", "settings", "differs", "corrected", "item"), "x")
ROWS = [{"name": "a", "loader": "npy", "per_second": 10}, {"name": "b", "lacking": "none", "seconds": 2}]


@pytest.mark.parametrize("name", SHIPPED)
def test_each_row_names_a_loader_and_settings_that_it_has(name):
    table = read_published(name)
    assert table.source.startswith("https://") and len({row.name for row in table.rows}) == len(table.rows)
    for row in table.rows:
        assert row.speed > 0 and row.task in TASKS
        if row.loader:
            options = getattr(plugins.load("loaders", row.loader), "OPTIONS", {})
            assert set(row.settings) <= {*options, *IN_COLUMNS}, row.name


def test_the_speeds_of_the_first_benchmark_are_what_its_times_give():
    """Its own formula: items x (all times / time) / time, of one epoch; ours: items x 10 epochs / time."""
    table = read_published("pdsc3k")
    assert [round(row.speed) for row in table.rows] == [5333, 4521, 3343, 3011, 2529, 2038, 1287]
    whole = sum(row.seconds for row in table.rows)
    for row in table.rows:
        assert 15_557 * whole / row.seconds**2 == pytest.approx(row.printed, rel=1e-3)


def test_the_throughputs_of_the_bucket_left_out_ten_epochs():
    for row in read_published("object_storage").rows:
        assert row.speed == pytest.approx(10 * row.printed, rel=1e-3)


def test_a_users_own_file_is_read_by_its_path(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.dump({**WORDS, "items": 100, "epochs": 3, "rows": ROWS}))
    table = read_published(str(path))
    assert [row.speed for row in table.rows] == [10, 150] and table.rows[0].task == "read" and table.kind is None
    assert published_file(str(path)) == path
    assert published_names(None) == [] and published_names("a") == ["a"] and published_names(["a", "b"]) == ["a", "b"]
