"""Prints the verdict of a session as JSON, also for other numbers than the config's.

    feedrate decide --tables results/tables/demo --step-ms 50 --batch 64

docs/decision.md says how to read it.
"""

import argparse
import json
from pathlib import Path

from scripts.common.errors import run_main
from scripts.decide.verdict import verdict
from scripts.tables.columns import read_tables


def parser() -> argparse.ArgumentParser:
    """Return the parser of the program's options."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tables", required=True, type=Path, help="folder of tables, such as results/tables/demo")
    for name, what in _NUMBERS.items():
        options.add_argument(f"--{name.replace('_', '-')}", type=float, help=f"{what}; default: as config.yaml says")
    return options


_NUMBERS = {
    "step_ms": "milliseconds of a training step",
    "batch": "items of a batch",
    "gigabytes": "GB of your data, as 16-bit samples",
    "ram_gigabytes": "GB of memory of the machine that trains",
    "storage_mbps": "MB/s of the storage that the data is on",
}


def main(arguments: argparse.Namespace) -> None:
    """Print the verdict of tables, for the numbers that are given."""
    tables = read_tables(arguments.tables)
    given = {name: getattr(arguments, name) for name in _NUMBERS if getattr(arguments, name) is not None}
    tables["dataset"]["report"] = {**tables["dataset"]["report"], **given}
    print(json.dumps(verdict(tables), indent=1))


if __name__ == "__main__":
    run_main(lambda: main(parser().parse_args()))
