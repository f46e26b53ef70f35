"""Measures one loader once: a fresh process, one split, one set of settings; writes one JSON record.

A loader that cannot run, that delivers wrong data or that breaks gives a record too, with the reason and no speed.
"""

from pathlib import Path
from typing import Any

from scripts.common import isolated
from scripts.common.code import commit
from scripts.common.errors import UserError, run_main
from scripts.common.files import read_json, write_json
from scripts.common.location import from_json
from scripts.common.serving import serving
from scripts.common.vocabulary import NOT_TRIED
from scripts.machine import allocator, control_groups, folders
from scripts.measure import child, one_run, own_fault, proofs, ranks, sampler, visits
from scripts.measure.record import threads_of, without_speed
from scripts.plan.runs import Run, measured_from, parser_of


def main() -> None:
    """Measure in a child process, and record its crash if it crashes."""
    run, out = parse()
    module = one_run.loader_of(run)
    isolated.enter(isolated.env_of(module))
    run = one_run.completed_run(module, run)
    aside = out.with_name(f".{out.name}.measured")
    if child.is_child():
        measure = ranks.measure if ranks.shared(run) else one_run.measure
        record = measure(module, run)
        if record:  # None: another node's
            write_json(aside, {**record, "started_by": "interpreter"})
        return
    for path in (out, aside):
        path.unlink(missing_ok=True)
    code = {"commit": commit()}
    note = Path(run.broken) if run.broken else None
    fault = own_fault.known(note, module)
    if fault:
        write_json(out, without_speed(one_run.new_record(module, run) | code, "skipped", fault, NOT_TRIED))
        return
    watch = sampler.Sampler(gpu=run.settings["device"] != "cpu")
    try:
        with serving([from_json(run.location)]), one_run.group_for(run) as groups:
            threads, preloaded = threads_of(run.threads), allocator.environment(run.settings["allocator"])
            warm = run.mode == "proof" and visits.forkable(run)
            done, crash = proofs.prove(run, aside, threads) if warm else (False, None)
            if not done:
                crash = child.run_again(threads, run.limit_minutes, watch, groups, preloaded)
    except control_groups.NotPermitted as reason:
        write_json(out, without_speed(one_run.new_record(module, run) | code, "skipped", str(reason)))
        return
    if aside.is_file():
        record = own_fault.noted(note, module, one_run.completed(read_json(aside), watch, crash))
        write_json(out, {**record, **code})
        aside.unlink()
    elif crash:
        crash += " (in its limit: measure more clips, or raise measure.limited_share)" * (run.cache == "limited")
        write_json(out, without_speed(one_run.new_record(module, run) | code, "failed", crash))


def parse() -> tuple[Run, Path]:
    """Return the run that the command line asks for, and the path of its record."""
    parser = parser_of(Run, __doc__)
    parser.add_argument("--data", dest="location", type=here, help="folder of the format that the loader reads")
    run, out = measured_from(Run, parser, {"loader": "--loader", "corpus": "--corpus", "location": "--data"})
    if run.timeline and run.cache == "limited":
        raise UserError(
            "--timeline: found with --cache limited, whose limits do not last until then; allowed is --cache warm or "
            "cold: leave --timeline out"
        )
    return run, out


def here(folder: str) -> dict[str, Any]:
    """Return the location of a local folder, as the plan has those of tiers."""
    return folders.location_of(Path(folder)).as_json()


if __name__ == "__main__":
    run_main(main)
