"""Does once, before the shards of a data set are fetched, what all of them need, and fails early where it cannot."""

import argparse
from dataclasses import replace
from pathlib import Path

from scripts.common.errors import UserError, run_main
from scripts.common.files import whole_directory
from scripts.prepare.arguments import add_source_arguments, load_source

VERSION = 1


def main() -> None:
    """Let the source prepare its folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add_source_arguments(parser)
    parser.add_argument("--out", type=Path, required=True, help="folder to write, for fetch_clips.py --prepared")
    arguments = parser.parse_args()
    source, request = load_source(arguments)
    if not hasattr(source, "prepare"):
        raise UserError(
            f"--source: found {arguments.source!r}, which needs no preparation. Type fetch_clips.py instead."
        )
    with whole_directory(arguments.out) as folder:
        source.prepare(replace(request, prepared=folder))


if __name__ == "__main__":
    run_main(main)
