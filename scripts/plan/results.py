"""What a program measures, as one object: a row of the plan, which the program takes by `--plan FILE --result ID`.

By hand each field that has a help text is an option of its own.
"""

import argparse
import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.common.errors import UserError, nearest
from scripts.common.plan_file import read_plan
from scripts.common.vocabulary import COLD, TASKS

MOST_LEADERS, COLD_RUNS = 4, 3  # at most: loaders of which more is measured since they lead, and runs from a cold cache
SHOWN = 5  # ids that an error names


def _option(default: Any, words: str, **how: Any) -> Any:
    """Return a field that is also an option of the command line; `how` is argparse's."""
    return dataclasses.field(default=default, metadata={"help": words, **how})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measurement:
    """What every record says of itself, and how long is measured."""

    corpus: str = _option("", "folder of the corpus, which says what is right")
    dataset: str = _option("by_hand", "the data set's name")
    slug: str = ""
    settings: Mapping[str, Any] = dataclasses.field(
        default_factory=dict,
        metadata={"help": 'JSON, such as {"batch_size": 32, "workers": 2}', "type": json.loads},
    )
    repeat: int = _option(0, "number of the round", type=int)
    id: str = ""  # in the plan, among others of its kind; of a result TIER/LOADER/SLUG
    path: str = ""  # of the record, relative to the project; of a result it is the session's to say
    group: str = "main"  # of what is measured in one session, since it is there at the same time
    seconds: float = _option(1.0, "measure for at least this long", type=float)
    limit_minutes: float = _option(120.0, "what takes longer is ended, and failed", type=float)
    threads: str | int = _option("auto", "of torch and OpenMP in the measuring process; auto: the cores allowed")
    seed: int = _option(0, "of the order of items", type=int)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result(Measurement):
    """One fresh process: one loader, on one tier, with one set of settings, for one repeat."""

    loader: str = _option("", "a file in scripts/loaders, without .py")
    file: str | None = _option(None, "the loader is this file of your own (docs/own_loader.md)")
    version: str = "1"  # of the loader: its VERSION, or the hash of that file and of what it imports beside it
    broken: str | None = _option(None, "where a run notes that --file is broken, for those after it")
    tier: str = _option("by_hand", "the tier's name")
    location: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # of the format on its tier, as JSON has it
    format: str = ""
    format_version: int = 1
    task: str = _option("read", "what is done with the batches", choices=tuple(TASKS))
    cache: str = _option("warm", "state of the page cache when an epoch begins", choices=("warm", *COLD))
    step_ms: float = _option(0.0, "ms of an emulated training step after each batch", type=float)
    epochs: str | int = _option("auto", "timed epochs; auto: as many as the run needs to be long enough")
    bottlenecks: bool = _option(False, "afterwards find the bottleneck", action="store_true")
    timeline: bool = _option(False, "afterwards record what each process does with its batches", action="store_true")
    batch_ms: float = _option(0.0, "try steps with a loader that takes so long for a batch; 0: no", type=float)
    asked_step_ms: float = _option(0.0, "try this step too, that of your own training; 0: none", type=float)
    host_share: float = _option(0.3, "of a step, for which it holds the interpreter", type=float)
    if_leads: str | None = None  # it is measured only where the result of this id leads, or is close to what leads
    transform: Mapping[str, Any] | None = None  # what `transform` of the settings is (common/transforms.py)
    size: str = "whole"  # all items of the data set, or a `part` of them
    limited_share: float = _option(0.5, "with --cache limited: what the cache may hold, of the data", type=float)
    emulate: str | Mapping[str, Any] | None = _option(
        None, 'JSON: {"read_mbps": 160, "read_iops": 120}, or "hdd_7200"', type=json.loads
    )
    logs: str | None = _option(None, "TensorBoard's folder, of the tasks that train")
    mode: str = _option(
        "epochs",
        "epochs: proof and whole epochs; proof: only the proof; run: a window of a proven result; trials: of one, "
        "what --bottlenecks, --timeline and --batch-ms name",
        choices=("epochs", "proof", "run", "trials"),
    )
    proof: str | None = _option(None, "record of the proof that a run relies on")
    written: str = ""  # folder of the format before it was placed, to say which file has changed since
    nodes: Mapping[str, Any] | None = None  # that ranks are spread over (measure/nodes.py)
    attempt: int = 0  # of a run that was disturbed and made again
    start_seconds: float | None = None  # what an epoch start took in earlier runs
    start_within: float = 0.0  # seconds for which a run's window goes on for an epoch start


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bound(Measurement):
    """One measurement of what the machine can do."""

    bound: str = "in_memory"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tensors(Bound):
    """The micro-benchmarks of moving tensors."""

    bound: str = "tensors"
    seconds: float = _option(0.2, "time each way for at least this long", type=float)
    workers: int = _option(2, "threads or processes that share a gather; 0: no processes", type=int)
    data: str | None = _option(None, "folder of the format memmap, whose file of all items is mapped; may be absent")


def parser_of(kind: type[Measurement], description: str | None) -> argparse.ArgumentParser:
    """Return the parser of a program that takes a row of a plan, and an option for each field of `kind` with a help."""
    parser = argparse.ArgumentParser(
        description=description,
        argument_default=argparse.SUPPRESS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--plan", type=Path, metavar="FILE", help="plan.json, as the workflow wrote it")
    parser.add_argument("--result", metavar="ID", help="the id of a row of the plan; other options override its fields")
    parser.add_argument("--out", type=Path, help="the JSON record to write (default: the row's own path, if any)")
    for field in dataclasses.fields(kind):
        if field.metadata:
            how = {key: value for key, value in field.metadata.items() if key != "help"}
            silent = ("", None, False, dataclasses.MISSING)
            default = "" if field.default in silent else f" (default: {field.default})"
            parser.add_argument(f"--{field.name.replace('_', '-')}", help=field.metadata["help"] + default, **how)
    return parser


def measured_from(kind: type[Measurement], arguments: argparse.Namespace, needed: Mapping[str, str]) -> Any:
    """Return (measurement, path of its record) of the command line; a record that it does not name is None.

    Raises UserError where the plan has no such row, and for a `needed` field in neither the row nor its option.
    """
    options = dict(vars(arguments))
    plan, result = options.pop("plan", None), options.pop("result", None)
    if (plan is None) != (result is None):
        raise UserError("--plan and --result: found one of them, needed are both: a plan, and the id of a row. Add it.")
    row = _row(kind, plan, result, options.get("mode")) if plan else {}
    out = options.pop("out", None)
    given = {**row, **options}
    out = out or (Path(given["path"]) if given.get("path") else None)
    absent = [option for name, option in needed.items() if not {**given, "out": out}.get(name)]
    if absent:
        raise UserError(f"found no {', '.join(absent)}, nor --plan and --result; needed is either. Add it.")
    return kind(**given), out


def _row(kind: type[Measurement], path: Path, result: str, mode: str | None) -> dict[str, Any]:
    """Return the row of a plan that is a measurement of this kind; of a proof that of the proof."""
    table = "tensors" if kind is Tensors else "proofs" if mode == "proof" else "results"
    rows = {row["id"]: row for row in read_plan(path)[table]}
    if result not in rows:
        shown = ", ".join(list(rows)[:SHOWN]) + (f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else "")
        raise UserError(
            f"--result: found {result!r}, allowed are the ids of {table} in {path}: {shown or 'none'}."
            f"{nearest(result, rows)} Name one of them."
        )
    return rows[result]
