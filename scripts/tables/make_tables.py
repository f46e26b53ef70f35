"""Gathers the records that the plan lists into tables: runs, ranking, bounds, noise, formats, tiers, what is not there.

    feedrate tables --plan results/runs/demo/plan.json --out results/tables/demo

The columns are described in docs/tables.md. The folder appears whole or not at all.
"""

import argparse
import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scripts.common.errors import UserError, run_main
from scripts.common.files import whole_directory
from scripts.common.plan_file import read_plan
from scripts.tables.columns import COLUMNS, DOCUMENTS, RECORDS
from scripts.tables.write_tables import write_tables

Record = dict[str, Any]


def make_tables(plan: Mapping[str, Any], root: Path, out: Path) -> None:
    """Write all tables of `plan`, whose records are below `root`, into `out`, in place of what was there.

    Raises UserError where a record is broken or `out` holds files that are no tables.
    """
    _check_out(out)
    with whole_directory(out) as folder, _written_to(folder / RECORDS) as write:
        write_tables(plan, root, folder, write)


def _check_out(out: Path) -> None:
    known = {f"{name}.csv" for name in COLUMNS} | {f"{name}.json" for name in DOCUMENTS} | {RECORDS}
    found = sorted(path.name for path in out.iterdir()) if out.is_dir() else []
    foreign = [name for name in found if name not in known and not name.startswith(".snakemake")]
    if foreign:
        raise UserError(
            f"--out {out}: found {foreign[0]!r} there, allowed is a folder of tables alone, since it is replaced as a "
            "whole. Name another folder, such as results/tables/demo."
        )


@contextmanager
def _written_to(path: Path) -> Iterator[Callable[[Record], None]]:
    """Yield what writes a record as a compressed JSON line; the same records give the same bytes."""
    with open(path, "wb") as file, gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as lines:
        yield lambda record: lines.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the program's options."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--plan", required=True, type=Path, help="plan.json, such as results/runs/demo/plan.json")
    options.add_argument("--root", default=Path(), type=Path, help="folder that the plan's paths start from")
    options.add_argument("--out", required=True, type=Path, help="folder of tables to write")
    return options


def main(arguments: argparse.Namespace) -> None:
    """Write the tables of a plan."""
    make_tables(read_plan(arguments.plan), arguments.root, arguments.out)


if __name__ == "__main__":
    run_main(lambda: main(parser().parse_args()))
