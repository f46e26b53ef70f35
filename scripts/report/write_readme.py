"""Writes the README's ranking from the tables of a session, and says of which commit and day it is.

python -m scripts.report.write_readme --tables results/tables/demo

`make readme` does that, and makes docs/report.png of the page of the same tables.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.common.errors import UserError, run_main
from scripts.common.files import PROJECT, whole_file
from scripts.report.groups import machine_text
from scripts.report.shown import shown_tables
from scripts.report.terminal import summary_lines

README = PROJECT / "README.md"
BEGIN, END = "<!-- ranking: written by `make readme` -->", "<!-- end of the ranking -->"
_DEMO = "type `make demo` with all changes committed, then `make readme`"


def block(tables: Mapping[str, Any]) -> str:
    """Return the text between the README's marks.

    Raises UserError for tables without a speed, and for those that are not of one commit as it stands.
    """
    lines = summary_lines(tables)
    if not lines:
        raise UserError(f"--tables: found no verified speed, the README shows a session that has some. {_DEMO}.")
    commits = [one["commit"] for one in tables["host"]["commits"]]
    if len(commits) != 1 or not commits[0] or commits[0].endswith("-dirty"):
        found = ", ".join(str(commit) for commit in commits)
        raise UserError(f"--tables: found runs of the commits {found}, allowed is one commit without changes. {_DEMO}.")
    day, machine = tables["host"]["first_started"][:10], machine_text(tables["host"]["hosts"])
    head = f"What `make demo` says (commit {commits[0]}, measured {day} on {machine}):"
    return "\n".join([head, "", "```", *lines, "```"])


def written(readme: str, text: str) -> str:
    """Return a README with `text` between its marks. Raises UserError where it has not both, once."""
    if (readme.count(BEGIN), readme.count(END)) != (1, 1) or readme.index(BEGIN) > readme.index(END):
        raise UserError(f"--readme: found no place for the ranking, expected are once {BEGIN} and after it {END}.")
    before, after = readme[: readme.index(BEGIN) + len(BEGIN)], readme[readme.index(END) :]
    return f"{before}\n{text}\n{after}"


def main() -> None:
    """Write the block."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", required=True, type=Path, help="folder that make_tables.py wrote")
    parser.add_argument("--readme", default=README, type=Path, help="file to write the ranking into")
    arguments = parser.parse_args()
    text = written(arguments.readme.read_text(encoding="utf-8"), block(shown_tables(arguments.tables)))
    with whole_file(arguments.readme) as file:
        file.write(text)


if __name__ == "__main__":
    run_main(main)
