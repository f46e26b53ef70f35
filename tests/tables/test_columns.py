"""Every column is declared once, and what is declared holds: types, sources, the page of the tables."""

import csv

import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.tables import records, write_docs
from scripts.tables.columns import COLUMNS, TABLES, Column, read_table


def test_the_page_of_the_tables_is_current():
    """If not: python -m scripts.tables.write_docs."""
    lines = write_docs.PAGE.read_text(encoding="utf-8").splitlines(keepends=True)
    assert "".join(lines) == "".join(write_docs.lines())
    rows = [line for line in lines if line.startswith("| `")]
    assert len(rows) == sum(len(table.columns) for name, table in TABLES.items() if name != "best")


@pytest.mark.parametrize("table", TABLES)
def test_columns_say_what_they_are_and_cells_are_read_as_they_were_written(table):
    assert len(set(COLUMNS[table])) == len(COLUMNS[table])
    for column in TABLES[table].columns:
        assert column.doc and "|" not in column.doc, column.name
        value = {str: "a, b", int: 1234, float: 0.1, bool: True}[column.type]
        assert column.parsed("true" if value is True else str(value)) == value
        assert column.parsed("") == ("" if column.type is str else None)
        assert column.shown(value), column.name
        assert column.shown(None) == ""


def test_where_a_run_s_columns_are_from_is_in_the_schema():
    """A misspelt path would be a column of blanks."""
    schema = read_json(records.SCHEMA)["$defs"]
    named = {**schema["run"]["properties"], **{"times": schema["times"]}}
    for column in TABLES["runs"].columns:
        if isinstance(column.of, str) and column.of.startswith("record: "):
            first, *more = column.of.removeprefix("record: ").split(".")
            assert first in named, column.of
            if more and "properties" in named[first]:
                assert more[0] in named[first]["properties"], column.of


@pytest.mark.parametrize(
    ("of", "value"),
    [("record: before.load_1m", 0.5), ("record: before.typo", None), ("record: none.load_1m", None), (len, 2)],
)
def test_a_value_is_taken_by_its_path_or_by_a_function(of, value):
    assert Column("load", float, of).value(record={"before": {"load_1m": 0.5}, "none": None}) == value
    assert Column("load", float, of).value(record=None) is None


def test_a_table_of_another_version_is_named(tmp_path):
    with open(tmp_path / "parts.csv", "w", newline="") as file:
        csv.writer(file).writerow(["loader", "other"])
    with pytest.raises(UserError, match=r"this version writes: other more, tier, .* less"):
        read_table(tmp_path, "parts")
