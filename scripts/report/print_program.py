"""Prints the program behind a result of a session, as the report offers it: the loader by its library only.

    feedrate program --tables results/tables/demo --loader ring > train.py

Without --tier it is the first in the ranking; without --slug it has the best settings.
"""

import argparse
import sys
from pathlib import Path

from scripts.common.errors import UserError, nearest
from scripts.report.snippets import companions, placed_program
from scripts.tables.columns import read_tables, settings_text


def parser() -> argparse.ArgumentParser:
    """Return the parser of the program's options."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tables", required=True, type=Path, help="folder of tables, such as results/tables/demo")
    options.add_argument("--loader", required=True, help="name of the loader")
    options.add_argument("--tier", help="name of the tier")
    options.add_argument("--slug", help="settings as the column `slug` of ranking.csv has them")
    return options


def main(arguments: argparse.Namespace) -> None:
    """Print the program; name on stderr the files that it imports."""
    tables = read_tables(arguments.tables)
    rows = [row for row in tables["ranking"] if row["status"] == "ok"]
    for column in ("loader", "tier", "slug"):
        wanted = getattr(arguments, column)
        known = list(dict.fromkeys(row[column] for row in rows))
        if wanted is not None and wanted not in known:
            raise UserError(
                f"--{column}: found {wanted!r}, the session has {', '.join(known) or 'no result'}."
                f"{nearest(wanted, known)} Name one of these."
            )
        rows = [row for row in rows if wanted in (None, row[column])]
    row = rows[0]
    text = placed_program(row, tables["tiers"])
    print(text, end="")
    print(f"{row['loader']} on {row['tier']}, {settings_text(row)}", file=sys.stderr)
    for path in companions(text):
        print(f"It imports {path.stem}: copy {path} beside it.", file=sys.stderr)
