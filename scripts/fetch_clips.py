"""Brings one shard of a data set's audio to where the corpus stage finds it, and writes the shard's ledger."""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from errors import UserError, nearest, run_main
from ledger import STATUSES, LedgerRow, SourceRequest, write_ledger
from plugins import load
from progress import progress_bar


def parse_options(text: str, source: ModuleType) -> dict[str, Any]:
    """Return the source's options from a JSON object, defaults filled in.

    The entry of a data set in the config may be given as it is: its key `source` is left out. Raises UserError for
    text that is no JSON object, for an unknown option and for one that is missing and has no default.
    """
    declared = getattr(source, "OPTIONS", {})
    try:
        given = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"--options: found {text!r}, which is not JSON ({error}). Try: --options '{{}}'") from None
    if not isinstance(given, dict):
        raise UserError(f"--options: found {text!r}; allowed is a JSON object. Try: --options '{{}}'")
    given.pop("source", None)
    for name in given:
        if name not in declared:
            allowed = ", ".join(declared) or "none"
            raise UserError(f"--options: found {name!r}, allowed are: {allowed}.{nearest(name, declared)}")
    missing = [name for name in declared if name not in given and "default" not in declared[name]]
    if missing:
        example = json.dumps({missing[0]: "..."})
        raise UserError(f"--options: {missing[0]!r} is missing and has no default. Try: --options '{example}'")
    return {name: given.get(name, schema.get("default")) for name, schema in declared.items()}


def parse_arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--source", required=True, help="name of a file in scripts/sources/")
    parser.add_argument("--options", default="{}", help="the source's options as a JSON object")
    parser.add_argument("--clip-seconds", type=float, default=10.0, help="fixed clip length of the experiment")
    parser.add_argument("--shard", type=int, default=0, help="this shard's number, from 0")
    parser.add_argument("--shards", type=int, default=1, help="number of shards")
    parser.add_argument("--store", type=Path, required=True, help="folder that keeps audio the source brings")
    parser.add_argument("--ledger", type=Path, required=True, help="CSV to write: a row per clip")
    return parser.parse_args()


def main() -> None:
    """Fetch the shard, write its ledger and print how many clips there are of each status."""
    arguments = parse_arguments()
    if not 0 <= arguments.shard < arguments.shards:
        raise UserError(
            f"--shard: found {arguments.shard} of {arguments.shards}; allowed are 0 to {arguments.shards - 1}. "
            "Try: --shard 0 --shards 1"
        )
    source = load("sources", arguments.source)
    options = parse_options(arguments.options, source)
    source.check(options)
    request = SourceRequest(
        options, arguments.clip_seconds, arguments.shard, arguments.shards, arguments.store.absolute()
    )
    counts: Counter[str] = Counter()
    write_ledger(arguments.ledger, _counted(source.fetch(request), counts))
    print(", ".join(f"{counts[status]} {status}" for status in STATUSES))


def _counted(rows: Iterator[LedgerRow], counts: Counter[str]) -> Iterator[LedgerRow]:
    """Pass `rows` on, counting them by status and showing progress."""
    for row in progress_bar(rows, name="fetch_clips"):
        counts[row.status] += 1
        yield row


if __name__ == "__main__":
    run_main(main)
