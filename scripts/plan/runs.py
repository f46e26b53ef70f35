"""What a program measures, as one object: the plan writes it down (plan.json), and the program takes it by `--run`.

By hand each field that has a help text is an option of its own.
"""

import argparse
import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.common.errors import UserError, nearest
from scripts.common.vocabulary import COLD, TASKS


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
    repeat: int = _option(0, "number of the repeat", type=int)
    path: str = ""  # of the record, relative to the project
    group: str = "main"  # of what is measured in one session, since it is there at the same time
    seconds: float = _option(1.0, "measure for at least this long", type=float)
    limit_minutes: float = _option(120.0, "what takes longer is ended, and failed", type=float)
    threads: str | int = _option("auto", "of torch and OpenMP in the measuring process; auto: the cores allowed")
    seed: int = _option(0, "of the order of clips", type=int)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run(Measurement):
    """One fresh process: one loader, on one tier, with one set of settings, for one repeat."""

    loader: str = _option("", "a file in scripts/loaders, without .py")
    file: str | None = _option(None, "the loader is this file of your own (docs/own_loader.md)")
    broken: str | None = _option(None, "where a run notes that --file is broken, for those after it")
    tier: str = _option("by_hand", "the tier's name")
    location: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # of the format on its tier, as JSON has it
    format: str = ""
    task: str = _option("read", "what is done with the batches", choices=tuple(TASKS))
    cache: str = _option("warm", "state of the page cache when an epoch begins", choices=("warm", *COLD))
    step_ms: float = _option(0.0, "wait so long after each batch, as for a training step", type=float)
    epochs: str | int = _option("auto", "timed epochs; auto: as many as the run needs to be long enough")
    bottlenecks: bool = _option(False, "afterwards look for what holds the loader back", action="store_true")
    timeline: bool = _option(False, "afterwards note what each process does with its batches", action="store_true")
    step_limit_ms: float = _option(0.0, "look for the minimum step that is sustained, up to here; 0: no", type=float)
    limited_share: float = _option(0.5, "with --cache limited: what the cache may hold, of the data", type=float)
    emulate: str | Mapping[str, Any] | None = _option(
        None, 'JSON: {"read_mbps": 160, "read_iops": 120}, or "hdd_7200"', type=json.loads
    )
    logs: str | None = _option(None, "TensorBoard's folder, of the tasks that train")
    mode: str = _option(
        "run",
        "run: proof and whole epochs; proof: only that every clip is right; visit: a window of a proven result; "
        "trials: what --bottlenecks, --timeline and --step-limit-ms ask for, of a proven result",
        choices=("run", "proof", "visit", "trials"),
    )
    proof: str | None = _option(None, "record of the proof that a visit relies on")
    written: str = ""  # folder of the format before it was placed, to say which file has changed since
    nodes: Mapping[str, Any] | None = _option(None, "of ranks: JSON, as run_on_nodes has it", type=json.loads)
    attempt: int = 0  # of a visit that was disturbed and made again
    asked_step_ms: float = 0.0  # of the user's own training step, which trials answer first
    start_seconds: float | None = None  # what an epoch start took in earlier visits
    start_within: float = 0.0  # seconds for which a visit's window goes on for an epoch start


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
    data: str | None = _option(None, "folder of the format memmap, whose file of all clips is mapped; may be absent")


def parser_of(kind: type[Measurement], description: str | None) -> argparse.ArgumentParser:
    """Return the parser of a program that takes `--run`, `--out` and an option for each field of `kind` with a help."""
    parser = argparse.ArgumentParser(description=description, argument_default=argparse.SUPPRESS)
    words = "what to measure, as plan.json has it: a JSON object, or a file that holds one; other options override it"
    parser.add_argument("--run", type=_read, metavar="JSON", help=words)
    parser.add_argument("--out", type=Path, help="the JSON record to write (default: the run's own path)")
    for field in dataclasses.fields(kind):
        if field.metadata:
            how = {key: value for key, value in field.metadata.items() if key != "help"}
            silent = ("", None, False, dataclasses.MISSING)
            default = "" if field.default in silent else f" (default: {field.default})"
            parser.add_argument(f"--{field.name.replace('_', '-')}", help=field.metadata["help"] + default, **how)
    return parser


def measured_from(kind: type[Measurement], parser: argparse.ArgumentParser, needed: Mapping[str, str]) -> Any:
    """Return (measurement, path of its record) of the command line. Raises UserError for an unknown key in `--run`.

    Ends the program, as argparse does, where one of the `needed` fields is in neither `--run` nor its option.
    """
    options = vars(parser.parse_args())
    given = {**options.pop("run", {}), **{name: value for name, value in options.items() if name != "out"}}
    known = [field.name for field in dataclasses.fields(kind)]
    for name in given:
        if name not in known:
            raise UserError(
                f"--run: found the key {name!r}, allowed are {', '.join(known)}.{nearest(name, known)} Rename or "
                "remove it."
            )
    out = options.get("out") or (Path(given["path"]) if given.get("path") else None)
    absent = [option for name, option in needed.items() if not given.get(name)] + ([] if out else ["--out"])
    if absent:
        parser.error(f"needed are --run, or the options that are absent: {', '.join(absent)}")
    return kind(**given), out


def _read(text: str) -> dict[str, Any]:
    """Return the object that a JSON text is, or that the file of this name holds."""
    try:
        found = json.loads(text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(
            f"found {text[:60]!r}, which is no JSON object and no such file: {error}"
        ) from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"found {type(found).__name__}, allowed is an object: one of plan.json's runs")
    return found
