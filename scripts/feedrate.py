"""What is typed by hand beside the workflow. `feedrate VERB --help` has the options of a verb.

Set-up installs it (envs/feedrate.sh). Without set-up type, in the project's folder: python -m scripts.feedrate VERB
"""

import argparse
import os
import sys
from importlib import import_module
from typing import NamedTuple

from scripts.common.errors import UserError, nearest, run_main


class Verb(NamedTuple):
    """What a verb does, and the module that does it: its `parser()` and its `main(arguments)`."""

    module: str
    words: str


VERBS = {
    "attach": Verb("scripts.attach.by_hand", "is it my loader, which line, what helps: run a training under attach"),
    "plan": Verb("scripts.plan.print_plan", "what a config would measure, and how long that takes"),
    "run": Verb("scripts.measure.by_hand", "run one loader once, on one machine or several nodes"),
    "tables": Verb("scripts.tables.make_tables", "make the tables of a session from its records"),
    "decide": Verb("scripts.report.print_verdict", "print the verdict as JSON, also for other numbers"),
    "ranking": Verb("scripts.report.print_ranking", "print a session's ranking, and what to use"),
    "program": Verb("scripts.report.print_program", "print the program behind a result, to paste"),
    "compare": Verb(
        "scripts.report.compare", "compare a session, or an attach.json, with an earlier one; status 1 if it got slower"
    ),
    "figures": Verb("scripts.report.draw_figures", "draw the charts of a report"),
    "report": Verb("scripts.report.render_report", "render the report as one HTML file"),
    "free": Verb("scripts.plan.free", "free the disk of formats and copies; measurements stay"),
    "index": Verb("scripts.prepare.make_index", "list the files of a folder or bucket, for the source `indexed`"),
}


def parser() -> argparse.ArgumentParser:
    """Return the parser of a verb and what follows it."""
    lines = [f"  {name:<9}{verb.words}" for name, verb in VERBS.items()]
    options = argparse.ArgumentParser(
        prog="feedrate",
        usage="feedrate VERB ...",
        description=__doc__,
        epilog="\n".join(["verbs:", *lines]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("verb", metavar="VERB", help="one of those below")
    options.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help=argparse.SUPPRESS)
    return options


def parser_of(verb: str) -> argparse.ArgumentParser:
    """Return the parser of a verb's own options. Raises UserError for a verb that does not exist."""
    if verb not in VERBS:
        raise UserError(
            f"found the verb {verb!r}, allowed are {', '.join(VERBS)}.{nearest(verb, VERBS)} Type feedrate --help."
        )
    found = import_module(VERBS[verb].module).parser()
    found.prog = f"feedrate {verb}"
    return found


def main() -> None:
    """Do what the verb says."""
    given = parser().parse_args()
    arguments = parser_of(given.verb).parse_args(given.rest)
    try:
        import_module(VERBS[given.verb].module).main(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # of `feedrate ... | head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    run_main(main)
