"""Measures one loader once: a fresh process, one split, one set of settings; writes one JSON record.

A loader that cannot run, that delivers wrong data or that breaks gives a record too, with the reason and no speed.
"""

import sys
from pathlib import Path
from typing import Any

from scripts.common.errors import run_main
from scripts.common.files import write_json
from scripts.common.location import from_json
from scripts.common.serving import serving
from scripts.common.versions import commit
from scripts.common.vocabulary import NOT_TRIED
from scripts.measure import by_hand, launch, one_run, own_fault, runner, warm
from scripts.measure.launch import Cause
from scripts.measure.record import threads_of, without_speed
from scripts.plan.results import Result


def main() -> None:
    """Measure in a process of its own, and record its crash if it crashes."""
    result, out = by_hand.run_of(by_hand.run_parser(__doc__).parse_args(), out="--out")
    module = one_run.loader_of(result)
    result = one_run.completed_result(module, result)
    out.unlink(missing_ok=True)
    note = Path(result.broken) if result.broken else None
    if fault := own_fault.known(note, module):
        record = without_speed(one_run.new_record(module, result), "skipped", fault, NOT_TRIED)
    else:
        with launch.told_to_end(), serving([from_json(result.location)]):
            record = measured(result, out)
    if record:  # None: another node's
        write_json(out, {**own_fault.noted(note, module, record), "commit": commit()})


def measured(result: Result, out: Path) -> dict[str, Any] | None:
    """Return the record of a run: a proof is a fork of the server of this call of Snakemake, where that may be."""
    warm_may = result.mode == "proof" and runner.forkable(result)
    server = warm.of_call(threads_of(result.threads)) if warm_may else None
    record, ended = runner.made(result, out, server)
    if ended.cause == Cause.NO_SERVER:
        if warm.of_call(server.threads) is None:
            sys.exit("error: Snakemake has ended, and this proof with it")
        print(f"{ended.reason}: this proof has an interpreter of its own", file=sys.stderr)
        record, ended = runner.made(result, out)
    launch.exit_if_lost(ended)
    return record


if __name__ == "__main__":
    run_main(main)
