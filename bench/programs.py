"""The programs that a report hands out beside runs of the same results: is a program as fast as the number beside it?

    python -m bench.programs --rounds 10 --json found.json

Every loader with the settings of the demo, on 512 items of 10 s in RAM (all formats: some 5 GB). In each round each
result is run once as in a session (a fork, where that may be), and its program run once, one after the other; a
ratio is of one round, with its 99 % interval. The program runs alone, in a new process with the threads of a run.
Behind its own loop, its first epoch, it is timed over whole epochs, as long as a run's window, and each byte goes
through the sink of a run.
Ends with an error where a program is significantly slower than 0.95 of its result.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from bench.made_results import demo_results, made_results, of_all, ratio, words, yes
from scripts.common import isolated
from scripts.machine.cores import cores_allowed
from scripts.measure import launch, one_run
from scripts.plan.results import Result
from tests.support.handed_out import run_program
from tests.support.programs import PROJECT

LEAST, MOST = 0.95, 1.05
ITEMS = 512  # as in the demo: with fewer the start of an epoch is most of what is compared
LEAST_EPOCHS = 2
# What is run after a program: whole epochs of its loader, consumed as a run's batches are.
TIMED = """
import json as _json
import sys as _sys
import time as _time


def _consumed(batch, sink):
    if isinstance(batch, tuple | list):
        batch = dict(zip(("audio", "target", "labels"), batch))
    items = len(batch["target"])
    labels = batch.get("labels", torch.zeros(items, 1))
    sink.consume({"audio": batch["audio"], "target": batch["target"], "labels": labels, "item": batch["target"]})
    return items


if __name__ == "__main__":  # and in none of the processes that it starts again
    _sys.path.append(_sys.argv[1])
    from scripts.measure.sink import Sink as _Sink

    _sink, _clips, _epochs = _Sink("cpu"), 0, 0
    for _batch in loader:  # untimed, as before a run's window
        _consumed(_batch, _sink)
    _began = _time.perf_counter()
    while _epochs < int(_sys.argv[3]) or _time.perf_counter() - _began < float(_sys.argv[2]):
        _clips += sum(_consumed(_batch, _sink) for _batch in loader)
        _epochs += 1
    print(_json.dumps(_clips / (_time.perf_counter() - _began)))
"""


def speed_of(text: str, result: Result) -> float | None:
    """Return the items/s of a program, from a process of its own; None, and its last line, where it failed."""
    environment = launch.environment_of(cores_allowed())
    with tempfile.TemporaryDirectory() as folder:
        environment["TMPDIR"] = folder  # where torch's workers leave a folder each, and MosaicML its locks
        told = (PROJECT, str(result.seconds), str(LEAST_EPOCHS))
        env = isolated.env_of(one_run.loader_of(result))
        done = run_program(text + TIMED, env, Path(folder), *told, environment=environment)
    if done.returncode:
        print(f"{result.loader}: its program failed: {(done.stderr.strip() or '?').splitlines()[-1]}", flush=True)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Run the programs beside runs, and print a line of each loader and one of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--items", type=int, default=ITEMS, help="32 a batch: with few the start of an epoch weighs most"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="loaders (default: all)")
    parser.add_argument("--json", type=Path, help="also write the speeds of all runs and programs to this file")
    arguments = parser.parse_args()
    with made_results(demo_results(arguments.only), arguments.items) as made:
        ways = {
            "result": lambda result: made.runner.make(result)["items_per_second"],
            "program": lambda result: speed_of(made.programs[result.loader], result),
        }
        speeds = made.in_rounds(arguments.rounds, ways, arguments.json)
    near, slower = 0, []
    for loader, found in speeds.items():
        compared = ratio(found["program"], found["result"])
        if compared is None:
            print(f"{loader}: fewer than two rounds have both")
            continue
        is_near = compared.low >= LEAST and compared.high <= MOST
        near += is_near
        slower += [loader] if compared.high < LEAST else []
        print(f"{loader}: program / result {words(compared)}; lies within {LEAST} to {MOST}: {yes(is_near)}")
    if speeds and (together := of_all(speeds, "program", "result")):
        print(f"all together: program / result {words(together)}")
    print(
        f"of {len(speeds)} programs {near} lie within {LEAST} to {MOST}; surely slower: {', '.join(slower) or 'none'}"
    )
    if slower:
        sys.exit(f"error: slower than the number beside them: {', '.join(slower)}")


if __name__ == "__main__":
    main()
