"""Does once, before the shards of a data set are fetched, what all of them need, and fails early where it cannot."""

import argparse
from pathlib import Path

from scripts.common.errors import UserError, run_main
from scripts.common.files import whole_directory
from scripts.common.ledger import SourceRequest
from scripts.prepare.source_arguments import add_source_arguments, load_source

VERSION = 1


def parse_arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add_source_arguments(parser)
    parser.add_argument("--out", type=Path, required=True, help="folder to write, for fetch_clips.py --prepared")
    return parser.parse_args()


def main() -> None:
    """Let the source prepare its folder."""
    arguments = parse_arguments()
    source, options = load_source(arguments)
    if not hasattr(source, "prepare"):
        raise UserError(
            f"--source: found {arguments.source!r}, which needs no preparation. Type fetch_clips.py instead."
        )
    with whole_directory(arguments.out) as folder:
        store = arguments.store.absolute()
        source.prepare(
            SourceRequest(options, arguments.clip_seconds, 0, arguments.shards, store, folder, call=arguments.call)
        )


if __name__ == "__main__":
    run_main(main)
