"""Runs one loader once, with a proof that what it delivers is right.

    feedrate run --loader ring --data results/formats/demo/memmap --settings '{"batch_size": 32, "workers": 2}'

On several nodes type the same command on each of them at about the same time, under Slurm behind
`srun --nodes 2 --ntasks-per-node 1`. `world` counts the ranks of all; the node `head` has the result:

    feedrate run --nodes 2 --rendezvous head:29400 --together /shared/first \\
        --loader npy --data results/formats/demo/npy --settings '{"workers": 2, "world": 4}'

Ends with status 1 where the loader failed or could not run.
"""

import argparse
import os
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from scripts.common.errors import UserError
from scripts.common.files import write_json
from scripts.common.settings import settings_text
from scripts.common.text import number_text, percent_text
from scripts.common.vocabulary import CHECKS
from scripts.machine import folders
from scripts.measure import runner
from scripts.measure.nodes import Nodes, check_name
from scripts.plan.results import Result, measured_from, parser_of
from scripts.tables import item_lines

ONLY_RECORDED = ("bottlenecks", "timeline", "batch_ms")  # too much for the terminal
WIDTH = 100  # columns


def parser() -> argparse.ArgumentParser:
    """Return the parser of a run's options, and of the nodes that it is spread over."""
    options = run_parser(__doc__)
    nodes = options.add_argument_group("several nodes")
    nodes.add_argument("--nodes", type=int, help="their number, 2 or more")
    nodes.add_argument("--rendezvous", help="HOST:PORT of one of them, at which they meet")
    nodes.add_argument("--together", help="a new folder on a file system that all nodes share")
    return options


def run_parser(description: str | None) -> argparse.ArgumentParser:
    """Return the parser of a run's options."""
    options = parser_of(Result, description)
    words = "folder of the format that the loader reads, such as results/formats/demo/npy"
    options.add_argument("--data", dest="location", type=_location, help=words)
    return options


def main(arguments: argparse.Namespace) -> None:
    """Start the run, and print what came of it."""
    given = vars(arguments)
    nodes = nodes_of(*(given.pop(name, None) for name in ("nodes", "rendezvous", "together")))
    result, out = run_of(arguments)
    lost = [f"--{name.replace('_', '-')}" for name in ONLY_RECORDED if getattr(result, name) and not out]
    if lost:
        raise UserError(f"{lost[0]}: found without --out; only a record holds what it finds. Add --out FILE.")
    record = runner.by_itself(replace(result, nodes=asdict(nodes)) if nodes else result)
    if record is None:
        print("The record is that of the node at which all meet.")
        return
    print("\n".join(lines_of(record, result)))
    if out:
        write_json(out, record)
        print(f"Record: {out}")
    sys.exit(0 if record["status"] == "ok" else 1)


def nodes_of(count: int | None, rendezvous: str | None, together: str | None) -> Nodes | None:
    """Return the nodes that a run is spread over; None for this machine alone. Raises UserError for what is no run."""
    given = {"--nodes": count, "--rendezvous": rendezvous, "--together": together}
    absent = [name for name, value in given.items() if value is None]
    if len(absent) == len(given):
        return None
    if absent:
        raise UserError(f"found no {' and no '.join(absent)}; allowed are all of {', '.join(given)}, or none. Add it.")
    if count < 2:
        raise UserError(f"--nodes: found {count}, allowed is 2 or more. On one node leave {', '.join(given)} out.")
    if not re.fullmatch(r"[^:\s]+:[1-9]\d{0,4}", rendezvous):
        raise UserError(f"--rendezvous: found {rendezvous!r}, allowed is HOST:PORT of a node. Write head:29400.")
    check_name(rendezvous.rpartition(":")[0])
    return Nodes(count, rendezvous, os.path.abspath(together))


def run_of(arguments: argparse.Namespace, **needed: str) -> tuple[Result, Path | None]:
    """Return the run that the command line asks for, and the path of its record, if it names one.

    Raises UserError for what is absent, `needed` fields among it, or cannot be.
    """
    result, out = measured_from(Result, arguments, {"loader": "--loader", "location": "--data", **needed})
    if not result.corpus:
        result = replace(result, corpus=str(corpus_of(Path(result.location.get("path", "")))))
    if result.timeline and result.cache == "limited":
        raise UserError(
            "--timeline: found --cache limited, whose limits end before the timeline; allowed is --cache warm or cold. "
            "Leave --timeline out."
        )
    return result, out


def corpus_of(data: Path) -> Path:
    """Return the corpus results/corpus/NAME of a format's folder results/formats/NAME/FORMAT.

    Raises UserError where there is none.
    """
    formats, name = Path(os.path.abspath(data)).parent.parent, Path(os.path.abspath(data)).parent.name
    corpus = formats.parent / "corpus" / name
    if formats.name != "formats" or not (corpus / "corpus.json").is_file():
        raise UserError(
            f"--corpus: found none for --data {data}; allowed without it is results/formats/NAME/FORMAT beside "
            "results/corpus/NAME. Add --corpus with the folder that the format was written from."
        )
    return corpus


def lines_of(record: Mapping[str, Any], result: Result) -> Iterator[str]:
    """Yield what a run's record says, in lines for the terminal."""
    settings = record["settings"]
    name = f"{record['loader']} ({settings['device'].upper()}, {settings_text(settings)})"
    if record["status"] != "ok":
        yield from _wrapped(f"{name}: {record['status']}: {record['reason']}")
    elif record["items_per_second"]:
        yield f"{name}: {number_text(record['items_per_second'])} items/s"
    else:
        yield f"{name}: --mode {result.mode} measures no speed"
    if record["au_percent"] is not None:
        yield f"AU: {percent_text(record['au_percent'])}"
    if record.get("own"):
        held = CHECKS[record["declared"]["check"]].about
        yield f"Looked at: {record['own']['items']:,} items; {held}"
    elif record["verification"] and record["verification"]["ok"]:
        yield f"Verified: each of {record['verification']['expected']:,} items came once, with right data and labels"
    if said := record.get("item_lines") and item_lines.text(item_lines.columns(record)):
        yield from _wrapped(said)
    for warning in record["warnings"]:
        words = warning if isinstance(warning, str) else "{seen}: {cause}; {hint}".format(**warning)
        yield from _wrapped(f"Warning: {words}")


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ")


def _location(folder: str) -> dict[str, Any]:
    """Return the location of a local folder, as the plan has those of tiers."""
    return folders.location_of(Path(folder)).as_json()
