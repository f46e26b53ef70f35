"""Windows that are shorter than an epoch beside whole epochs: do both give the speed of whole epochs?

    python -m bench.epochs --rounds 10 --json found.json

Every loader with the settings of the demo, on 4,000 items of 10 s in RAM (2.6 GB a format: name some loaders by
`--only` where RAM is scarce). In each round each result is run twice, one after the other: by a short window, as
the first runs of a session are, and over at least four whole epochs. A ratio is of one round, with its 99 % interval.
Results whose epoch is no longer than the short window are left out.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from bench.made_results import MadeResults, demo_results, made_results, of_all, ratio, words, yes
from scripts.measure.run_session import START_WITHIN
from scripts.plan.results import Result

ITEMS = 4000
SECONDS = 0.2  # of the short windows: less than a session's, as the data set is a part of one
EPOCHS = 4
NEAR = 0.95, 1.05


def long_enough(made: MadeResults, items: int, seconds: float) -> dict[str, float]:
    """Return the seconds of an epoch of each result; those are left out of `made` that have none beside the window."""
    found = {}
    for loader, result in list(made.results.items()):
        speed = made.runner.make(replace(result, seconds=seconds))["items_per_second"]
        if speed and items / speed > 1.5 * seconds:
            found[loader] = items / speed
        else:
            del made.results[loader]
            print(
                f"{loader}: left out: {'an epoch is no longer than the window' if speed else 'it failed'}", flush=True
            )
    return found


def main() -> None:
    """Make the runs, and print a line of each loader and one of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--items", type=int, default=ITEMS, help="32 a batch")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of the short windows")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="loaders (default: all)")
    parser.add_argument("--json", type=Path, help="also write the speeds of all runs to this file")
    arguments = parser.parse_args()
    with made_results(demo_results(arguments.only), arguments.items) as made:
        epoch = long_enough(made, arguments.items, arguments.seconds)

        def measure(result: Result, seconds: float) -> float | None:
            asked = replace(result, seconds=seconds, start_within=START_WITHIN[0])
            return made.runner.make(asked)["items_per_second"]

        ways = {
            "window": lambda result: measure(result, arguments.seconds),
            "whole epochs": lambda result: measure(result, EPOCHS * epoch[result.loader]),
        }
        speeds = made.in_rounds(arguments.rounds, ways, arguments.json)
    near = one = 0
    for loader, found in speeds.items():
        compared = ratio(found["window"], found["whole epochs"])
        if compared is None:
            print(f"{loader}: fewer than two rounds have both runs")
            continue
        is_near = NEAR[0] <= compared.ratio <= NEAR[1]
        is_one = compared.low <= 1 <= compared.high
        near, one = near + is_near, one + is_one
        print(
            f"{loader}: window / whole epochs {words(compared)}; is within {NEAR[0]} to {NEAR[1]}: {yes(is_near)}; "
            f"holds 1: {yes(is_one)}"
        )
    if speeds and (together := of_all(speeds, "window", "whole epochs")):
        print(f"all together: window / whole epochs {words(together)}")
    print(f"of {len(speeds)} loaders {near} are within {NEAR[0]} to {NEAR[1]}, {one} hold 1")


if __name__ == "__main__":
    main()
