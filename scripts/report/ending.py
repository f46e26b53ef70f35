"""How a call of Snakemake ends: what it says, and the report that one leaves which did not come to its end."""

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Collection, Sequence
from importlib.util import find_spec
from pathlib import Path

from scripts.report.loader_lines import loader_lines


def closing_words(dataset: str, loaders: Collection[str]) -> list[str]:
    """Return what a call that went well says: the speeds of loaders asked for by name, and where to read on."""
    lines = []
    for loader in loaders:
        found = Path("results", f"{loader}.json")
        lines += loader_lines(json.loads(found.read_text(encoding="utf-8"))) if found.is_file() else []
    tables = Path("results", "tables", dataset)
    if loaders and (tables / "ranking.csv").is_file():
        lines.append(f"The ranking: feedrate ranking --tables {shlex.quote(str(tables))}")
    return lines


def show_answer(dataset: str) -> None:
    """Print the ranking, and what to use."""
    words = ["--tables", f"results/tables/{dataset}", "--reports", "report/index.html"]
    subprocess.run([sys.executable, "-m", "scripts.report.print_ranking", *words])


def last_words(logs: Sequence[str]) -> list[str]:
    """Return what went wrong, from the logs of a call, and how to go on: the end of the output is what one reads."""
    texts = [Path(log).read_text(encoding="utf-8") for log in logs]
    errors = re.findall(r"(?m)^error: .*", "\n".join(texts))
    return [*dict.fromkeys(errors), "The same command goes on where it was."]


def leave_report(plan: Path, dataset: str) -> None:
    """Render what is there: a call that was stopped within a session leaves a ranking and a report too."""
    if not any(Path(plan).parent.glob("sessions/*/*/*/*/*.json")):
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tables, figures = f"results/tables/{dataset}", f"report/figures/{dataset}"
    pages = ["--out", "report/index.html", "--light", f"{figures}/light.html"]
    programs = [
        ["tables.make_tables", "--plan", str(plan), "--root", ".", "--out", tables],
        ["report.draw_figures", "--tables", tables, "--out", figures],
        ["report.render_report", "--tables", tables, "--figures", figures, *pages],
        ["report.print_ranking", "--tables", tables, "--reports", "report/index.html"],
    ]
    print("Stopped early: this is of what was measured so far.", file=sys.stderr)
    if find_spec("matplotlib") is None:  # Snakemake's own environment, where conda makes the others
        programs = [programs[0], ["report.print_ranking", "--tables", tables]]
    for program in programs:
        done = subprocess.run([sys.executable, "-m", f"scripts.{program[0]}", *program[1:]])
        if done.returncode:
            break
