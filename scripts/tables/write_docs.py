"""Writes the page of the tables' columns from their declarations in scripts/tables/columns.py.

python -m scripts.tables.write_docs
"""

from collections.abc import Iterator

from scripts.common.errors import run_main
from scripts.common.files import PROJECT, whole_file
from scripts.tables.columns import TABLES, Column

PAGE = PROJECT / "docs" / "tables.md"
_TYPES = {str: "text", int: "whole number", float: "number", bool: "`true` or `false`"}
_HEAD = """\
# The tables

The CSV files of `results/tables/DS/`, in UTF-8; a blank is an unknown value. A *result* is all runs of one loader on
one tier with one combination of settings (`slug`). Only results of the same device, task, cache, step and number of
ranks are compared with each other.

The same folder has `records.jsonl.gz` (every raw record, one per line, see [run.schema.json](run.schema.json)),
`dataset.json` (data set and config) and `host.json` (machines, versions and commits).

The column *from* says where a value comes from: the plan, the settings, a field of the record, or the median or largest
over a result's runs. Where it is blank, the value is computed.

`python -m scripts.tables.write_docs` generates this page from `scripts/tables/columns.py`. To add a column, see
[extending.md](extending.md#a-column-one-line-of-what-is-recorded).
"""


def lines() -> Iterator[str]:
    """Yield the page's parts: the head, and for each table what a row is and its columns."""
    yield _HEAD
    for name, table in TABLES.items():
        yield f"\n## {name}.csv\n\n{table.doc}\n\n| column | type | from | what it is |\n|---|---|---|---|\n"
        same = next((other for other in TABLES if TABLES[other].columns is table.columns), name)
        if same != name:
            yield f"| the columns of [{same}.csv](#{same}csv) | | | |\n"
        else:
            for one in table.columns:
                yield f"| `{one.name}` | {_TYPES[one.type]} | {_source(one)} | {one.doc} |\n"


def _source(column: Column) -> str:
    if callable(column.of):
        return "`record`"
    parts = filter(None, (column.over_runs, column.of))
    return f"`{': '.join(parts)}`" if column.of else ""


def main() -> None:
    """Write the page."""
    with whole_file(PAGE) as file:
        file.writelines(lines())


if __name__ == "__main__":
    run_main(main)
