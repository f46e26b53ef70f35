"""Measures one loader once: a fresh process, one split, one set of settings; writes one JSON record.

A loader that cannot run, that delivers wrong data or that breaks gives a record too, with the reason and no speed.
"""

from pathlib import Path

from scripts.common import isolated
from scripts.common.errors import run_main
from scripts.common.files import read_json, write_json
from scripts.common.location import from_json
from scripts.common.serving import serving
from scripts.common.versions import commit
from scripts.common.vocabulary import NOT_TRIED
from scripts.machine import allocator, control_groups
from scripts.measure import by_hand, child, one_run, own_fault, proofs, ranks, sampler, visits
from scripts.measure.record import threads_of, without_speed


def main() -> None:
    """Measure in a child process, and record its crash if it crashes."""
    run, out = by_hand.run_of(by_hand.run_parser(__doc__).parse_args(), out="--out")
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


if __name__ == "__main__":
    run_main(main)
