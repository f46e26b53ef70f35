"""Runs made by a fork of the warm server beside runs made by a fresh interpreter: is one as fast as the other?

    python -m bench.forks --rounds 20 --json found.json

Every loader that may be forked, with the settings of the demo, on 128 items of 10 s in RAM. In each round each loader
is run once in either way, one after the other; a ratio is of the runs of one round, with its 99 % interval.
As in a session, a run from which others took more than 15 % of all cores is made again; here at most twice.
A run by an interpreter takes seconds: 20 rounds of all loaders take an hour, so this is no part of `make bench`.
"""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.made_results import ITEMS, demo_results, made_results, of_all, ratio, words, yes
from scripts.common.counting import DISTURBED_PERCENT, run_of
from scripts.measure.runner import TRIES, forkable

NEAR = 0.97, 1.03


def undisturbed(make: Callable[[], Mapping[str, Any]]) -> float | None:
    """Return the items/s of the first run that `make` makes undisturbed; None where each of TRIES was disturbed."""
    for _ in range(TRIES):
        run = run_of(make())
        if run.speed and run.disturbed_percent <= DISTURBED_PERCENT:
            return run.speed
    return None


def main() -> None:
    """Make the runs, and print a line of each loader and one of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument(
        "--items", type=int, default=ITEMS, help="32 a batch: with few the start of an epoch weighs most"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="loaders (default: all)")
    parser.add_argument("--json", type=Path, help="also write the speeds of all runs to this file")
    arguments = parser.parse_args()
    results = [result for result in demo_results(arguments.only, arguments.device) if forkable(result)]
    with made_results(results, arguments.items) as made:
        ways = {
            "fork": lambda result: undisturbed(lambda: made.runner.made(result, fork=True)),
            "interpreter": lambda result: undisturbed(lambda: made.runner.made(result, fork=False)),
        }
        speeds = made.in_rounds(arguments.rounds, ways, arguments.json)
    near = one = 0
    for loader, found in speeds.items():
        compared = ratio(found["fork"], found["interpreter"])
        if compared is None:
            print(f"{loader}: fewer than two rounds have both runs")
            continue
        is_near = NEAR[0] <= compared.low and compared.high <= NEAR[1]
        is_one = compared.low <= 1 <= compared.high
        near, one = near + is_near, one + is_one
        print(
            f"{loader}: fork / interpreter {words(compared)}; lies within {NEAR[0]} to {NEAR[1]}: {yes(is_near)}; "
            f"holds 1: {yes(is_one)}"
        )
    if speeds and (together := of_all(speeds, "fork", "interpreter")):
        print(f"all together: fork / interpreter {words(together)}")
    print(f"of {len(speeds)} loaders {near} lie within {NEAR[0]} to {NEAR[1]}, {one} hold 1")


if __name__ == "__main__":
    main()
