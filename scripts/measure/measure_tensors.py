"""Measures what moving tensors costs on this machine: the parts that a loader is made of, each in several methods.

Five operations: a batch is created (`create`) or copied (`copy`); one random item is taken out of memory (`one`), or
a batch of them is gathered (`many`); a batch is sent from a worker process to this one (`send`). Every method must
deliver what is right, before and after it is timed (`tensors/taking.py`).
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from scripts.common.errors import UserError, nearest, run_main
from scripts.common.files import write_json
from scripts.common.vocabulary import SPLIT
from scripts.measure import launch
from scripts.measure.record import threads_of
from scripts.measure.sampler import Sampler
from scripts.measure.tensors.taking import new_record
from scripts.plan.results import Tensors, measured_from, parser_of
from scripts.plan.sweep import slug

VERSION = 1


def main() -> None:
    """Measure all operations in a process of its own, and write their record, or why that crashed."""
    wanted, out = measured_from(
        Tensors, parser_of(Tensors, __doc__).parse_args(), {"corpus": "--corpus", "out": "--out"}
    )
    settings = {"device": "cpu", "batch_size": 32, **wanted.settings}
    wanted = replace(wanted, settings=settings, slug=slug(settings))
    check(wanted)
    with launch.told_to_end():
        ended = launch.run(launch.Job(wanted, threads_of(wanted.threads)), Sampler(gpu=False))
    launch.exit_if_lost(ended)
    words = {"status": "failed", "reason": ended.reason, "reason_code": ended.cause}
    write_json(out, {**new_record(wanted), **words} if ended.cause else ended.record)


def check(wanted: Tensors) -> None:
    """Raise UserError for a value that is not allowed."""
    for key, value in wanted.settings.items():
        check_setting(key, value)
    if wanted.workers < 0:
        raise UserError(f"--workers: found {wanted.workers}, allowed is 0 or more; 0 measures no processes")
    if wanted.data and not (file := Path(wanted.data, SPLIT, f"{_sample(wanted).key}.npy")).is_file():
        raise UserError(
            f"--data: {file} is not there; expected is a folder of the format memmap. "
            "Write one with write_format.py --format memmap, or leave --data out"
        )


def _sample(wanted: Tensors) -> Any:
    """Return what an item of the corpus is."""
    from scripts.common.corpus import Corpus

    return Corpus(Path(wanted.corpus)).sample


def check_setting(key: str, value: Any) -> None:
    """Raise UserError where a setting is not known, or cannot have this value."""
    if key == "device":
        right, allowed = value in ("cpu", "cuda"), '"cpu" and "cuda"'
    elif key == "batch_size":
        right, allowed = type(value) is int and value >= 1, "a whole number of at least 1"
    else:
        raise UserError(
            f"--settings: found {key!r}, allowed are 'device' and 'batch_size'."
            f"{nearest(key, ('device', 'batch_size'))} Leave out what is not known"
        )
    if not right:
        raise UserError(f'--settings: {key}: found {json.dumps(value)}, allowed is {allowed}, as in {{"{key}": ...}}')


if __name__ == "__main__":
    run_main(main)
