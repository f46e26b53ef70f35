"""Writes the plan of a config down for the tables."""

import argparse
import json
from pathlib import Path

from scripts.common.errors import run_main
from scripts.common.files import write_json
from scripts.plan.experiment import Plan
from scripts.plan.written import written


def main() -> None:
    """Write the plan of a config to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True, type=json.loads, help="the config as JSON")
    parser.add_argument("--preset", default="none", help="the preset whose values stand in the config: it is noted")
    parser.add_argument("--out", required=True, type=Path)
    arguments = parser.parse_args()
    write_json(arguments.out, written(Plan(arguments.config), arguments.preset))


if __name__ == "__main__":
    run_main(main)
