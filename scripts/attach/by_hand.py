"""Runs scripts/attach/feedrate_attach.py, which stands alone, with this Python; it has the options.

feedrate attach ... train.py
"""

import argparse
import os
import sys
from pathlib import Path

from scripts.common.files import PROJECT

PROGRAM = Path(__file__).with_name("feedrate_attach.py")


def parser() -> argparse.ArgumentParser:
    """Return a parser that takes all words as they are, for the program."""
    options = argparse.ArgumentParser(description=__doc__, prefix_chars="\0", add_help=False)
    options.add_argument("words", nargs=argparse.REMAINDER, help="options and script of feedrate_attach.py; try --help")
    return options


def main(arguments: argparse.Namespace) -> None:
    """Become the program."""
    paths = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one and one != str(PROJECT)]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    os.execv(sys.executable, [sys.executable, str(PROGRAM), *arguments.words])
