"""Counts what became of a data set's clips, over all ledgers, and stops where there are too few to go on with."""

import argparse
from collections import Counter
from pathlib import Path

from scripts.common.errors import UserError, run_main
from scripts.common.files import write_json
from scripts.common.ledger import STATUSES, read_ledger

VERSION = 1
COMMONEST = 12  # reasons that are kept


def count(ledgers: list[Path]) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Return how often there is each status, each kind of reason, and each reason to stop."""
    statuses: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    stops: Counter[str] = Counter()
    for ledger in ledgers:
        for row in read_ledger(ledger):
            statuses[row.status] += 1
            if row.status in ("unavailable", "failed"):
                kinds[row.reason.split(":")[0]] += 1
            elif row.status == "stopped":
                stops[row.reason] += 1
    return statuses, kinds, stops


def check(statuses: Counter[str], stops: Counter[str], min_clips: str) -> None:
    """Raise UserError where the download was stopped, or ended with fewer clips than are wanted."""
    fetched, asked = statuses["fetched"], statuses.total()
    enough = min_clips != "all" and fetched >= int(min_clips)
    if stops and not enough:
        reason, _ = stops.most_common(1)[0]
        raise UserError(
            f"the download stopped with {fetched:,} of {asked:,} clips fetched and {stops.total():,} not tried. "
            f"{reason} To use what is there, set min_clips to at most {fetched} in config.yaml."
        )
    if min_clips != "all" and not enough:
        raise UserError(
            f"min_clips: found {min_clips}, allowed are the {fetched:,} of {asked:,} clips that came. Set it to at "
            f"most {fetched} in config.yaml. To try those that failed again, type the same command with --forcerun "
            "fetch_clips at its end."
        )


def check_any(statuses: Counter[str], kinds: Counter[str]) -> None:
    """Raise UserError where there were clips to fetch and none came."""
    if statuses["fetched"] or not statuses.total():
        return
    reasons = "; ".join(f"{kind} ({number})" for kind, number in kinds.most_common(3))
    raise UserError(
        f"none of {statuses.total():,} clips could be fetched: {reasons}. Needed is at least one. Correct "
        "what the ledgers name, or the data set's entry in config.yaml (its address first). Then type the same command "
        "with --forcerun fetch_clips at its end. A download tries what is gone again where ask_again names its kind."
    )


def main() -> None:
    """Write the counts and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--ledgers", type=Path, required=True, help="folder with ledger-0000.csv, ledger-0001.csv, ...")
    parser.add_argument("--shards", type=int, required=True, help="number of ledgers")
    parser.add_argument("--min-clips", default="all", help="so many fetched are enough; all: every one must be tried")
    parser.add_argument("--out", type=Path, required=True, help="JSON to write: counts by status, and reasons")
    arguments = parser.parse_args()
    statuses, kinds, stops = count([arguments.ledgers / f"ledger-{n:04d}.csv" for n in range(arguments.shards)])
    check(statuses, stops, arguments.min_clips)
    check_any(statuses, kinds)
    counts = {"asked": statuses.total(), **{status: statuses[status] for status in STATUSES}}
    write_json(arguments.out, {**counts, "reasons": dict(kinds.most_common(COMMONEST))})
    print(", ".join(f"{number:,} {name}" for name, number in counts.items() if number))
    if statuses["failed"]:
        failed = f"the {statuses['failed']:,} that failed"
        print(f"To try {failed} again, type the same command with --forcerun fetch_clips at its end.")


if __name__ == "__main__":
    run_main(main)
