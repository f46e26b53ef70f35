"""Brings one shard of a data set's audio to where the corpus stage finds it, and writes the shard's ledger."""

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from scripts.common.errors import UserError, run_main
from scripts.common.ledger import STATUSES, LedgerRow, SourceRequest, write_ledger
from scripts.common.progress import progress_bar
from scripts.prepare.arguments import add_source_arguments, load_source

VERSION = 1


def main() -> None:
    """Fetch the shard, write its ledger and print how many clips there are of each status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add_source_arguments(parser)
    parser.add_argument("--shard", type=int, default=0, help="this shard's number, from 0")
    parser.add_argument("--prepared", type=Path, help="folder that prepare_clips.py wrote, for a source that needs it")
    parser.add_argument("--ledger", type=Path, required=True, help="CSV to write: a row per clip")
    arguments = parser.parse_args()
    if not 0 <= arguments.shard < arguments.shards:
        raise UserError(
            f"--shard: found {arguments.shard} of {arguments.shards}; allowed are 0 to {arguments.shards - 1}. "
            "Try: --shard 0 --shards 1"
        )
    source, request = load_source(arguments, arguments.shard, arguments.prepared)
    if hasattr(source, "prepare") and arguments.prepared is None:
        raise UserError(f"--prepared: found nothing; {arguments.source} needs the folder that prepare_clips.py writes.")
    counts: Counter[str] = Counter()
    total = source.count(request) if hasattr(source, "count") else None
    name = f"fetch_clips {arguments.shard:04d}" if arguments.shards > 1 else "fetch_clips"
    rows = _counted(source.fetch(request), total, counts, name)
    write_ledger(arguments.ledger, sorted(rows, key=lambda row: row.id))
    if counts["stopped"]:
        note_early_end(request)
    if set(counts) != {STATUSES[0]}:  # that all of it is there, count_clips says
        print(
            ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts[status] or status in STATUSES[:3])
        )


def note_early_end(request: SourceRequest) -> None:
    """Count the calls that ended this shard early, so that Snakemake, which looks at the count, runs it again."""
    path = request.store / "ended-early" / f"{request.shard:04d}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab") as file:
        file.write(b"x")


def _counted(rows: Iterator[LedgerRow], total: int | None, counts: Counter[str], name: str) -> Iterator[LedgerRow]:
    """Pass `rows` on, counting them by status and showing progress."""
    with progress_bar(total=total, name=name, unit="file") as bar:
        for row in rows:
            counts[row.status] += 1
            bar.set_postfix({status: counts[status] for status in STATUSES if counts[status]}, refresh=False)
            bar.update()
            yield row


if __name__ == "__main__":
    run_main(main)
