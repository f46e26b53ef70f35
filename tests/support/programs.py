"""The project's folder, and the command lines of its programs."""

import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
ROOMS = ("plan", "prepare", "measure", "tables", "report")  # those that have programs


def verb_line(verb: str) -> list[str]:
    """Return the command that does what `feedrate VERB` does; it needs the project's folder as program_line does."""
    return [sys.executable, "-m", "scripts.feedrate", verb]


def program_line(name: str, project: Path = PROJECT) -> list[str]:
    """Return the command that runs the program of this name; it needs the project's folder as cwd or on PYTHONPATH."""
    stem = name.removesuffix(".py")
    (room,) = (room for room in ROOMS if (project / "scripts" / room / f"{stem}.py").is_file())
    return [sys.executable, "-m", f"scripts.{room}.{stem}"]
