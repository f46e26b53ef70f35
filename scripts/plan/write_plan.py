"""Writes the plan of a config down for the tables, and for whoever wants to see it.

python -m scripts.plan.write_plan --config JSON --out plan.json
"""

import argparse
import json
from pathlib import Path

from scripts.common.errors import run_main
from scripts.common.files import write_json
from scripts.plan.config import presets_for
from scripts.plan.estimate import estimate
from scripts.plan.experiment import Plan
from scripts.plan.outgoing import outgoing


def main() -> None:
    """Write the plan of a config to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True, type=json.loads, help="the config as JSON")
    parser.add_argument("--preset", default="none", help="the preset whose values stand in the config: it is noted")
    parser.add_argument("--out", required=True, type=Path)
    arguments = parser.parse_args()
    plan = Plan(arguments.config)
    written = plan.as_json() | {"estimate": estimate(plan).as_json()}
    written["outgoing"] = [one.as_json() for one in outgoing(plan)]
    written["config"]["preset"] = arguments.preset
    written["presets"] = presets_for(plan.kind, plan.dataset, arguments.preset)
    write_json(arguments.out, written)


if __name__ == "__main__":
    run_main(main)
