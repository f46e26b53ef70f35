"""Runs scripts/attach/feedrate_attach.py, which stands alone, with this Python.

    feedrate attach --passive train.py
"""

import argparse
import os
import sys

from scripts.attach import feedrate_attach
from scripts.common.files import PROJECT


def parser() -> argparse.ArgumentParser:
    """Return the parser of the program's options."""
    return feedrate_attach.parser()


def main(_arguments: argparse.Namespace) -> None:
    """Become the program, whose options and script are those that were typed."""
    paths = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one and one != str(PROJECT)]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    os.execv(sys.executable, [sys.executable, feedrate_attach.__file__, *sys.argv[2:]])
