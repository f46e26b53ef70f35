"""Measures what moving tensors costs on this machine: the parts that a loader is made of, each in several methods.

Five operations: a batch is created (`create`) or copied (`copy`); one random item is taken out of memory (`one`), or
a batch of them is gathered (`many`); a batch is sent from a worker process to this one (`send`). Every method must
deliver what is right, before and after it is timed (`tensors/taking.py`).
"""

from dataclasses import replace
from pathlib import Path

from scripts.common.errors import UserError, run_main
from scripts.common.files import write_json
from scripts.common.schema import problems
from scripts.common.vocabulary import SPLIT
from scripts.measure import launch
from scripts.measure.record import threads_of
from scripts.measure.sampler import Sampler
from scripts.measure.tensors.taking import new_record
from scripts.plan.results import Tensors, measured_from, parser_of
from scripts.plan.sweep import slug

VERSION = 1
SETTINGS = {
    "additionalProperties": False,
    "properties": {"device": {"enum": ["cpu", "cuda"]}, "batch_size": {"type": "integer", "minimum": 1}},
}


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
    from scripts.common.corpus import Corpus

    found = problems(wanted.settings, SETTINGS)
    if found:
        raise UserError("\n".join(f"--settings: {one}" for one in found))
    if wanted.workers < 0:
        raise UserError(f"--workers: found {wanted.workers}, allowed is 0 or more; 0 measures no processes")
    if (
        wanted.data
        and not (file := Path(wanted.data, SPLIT, f"{Corpus(Path(wanted.corpus)).sample.key}.npy")).is_file()
    ):
        raise UserError(
            f"--data: {file} is not there; expected is a folder of the format memmap. "
            "Write one with write_format.py --format memmap, or leave --data out"
        )


if __name__ == "__main__":
    run_main(main)
