"""Copies a written format to a storage tier, whole or not at all, and records what it cost.

    python -m scripts.prepare.place_format --kind posix --options '{"path": "/mnt/nvme"}' --tier nvme --format npy \\
        --source results/formats/demo/npy --copy feedrate/demo/npy --record results/placed/demo/nvme/npy.json

The record's `seconds` include the flush to the device.
"""

import argparse
import time
from pathlib import Path

from scripts.common.errors import UserError, run_main
from scripts.common.files import tree_size, write_json
from scripts.prepare.arguments import add_tier, checked_tier

VERSION = 1


def main() -> None:
    """Read the command line, copy the folder, then write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_tier(parser)
    parser.add_argument("--format", help="name of the format (default: the last part of --source)")
    parser.add_argument("--source", required=True, type=Path, help="folder to copy")
    parser.add_argument("--copy", required=True, help="the copy's name on the tier, such as demo/npy; it is replaced")
    parser.add_argument("--record", required=True, type=Path, help="JSON file to write")
    args = parser.parse_args()
    if not args.source.is_dir():
        raise UserError(
            f"--source {args.source}: found no folder; allowed is one that write_format has written. "
            "Type snakemake results/formats/DATASET/FORMAT.json --config dataset=DATASET to write one."
        )
    with checked_tier(args) as kind:
        start = time.perf_counter()
        location = kind.location(args.options, args.copy)
        kind.place(args.options, args.source, location)
    seconds = time.perf_counter() - start
    size, files = tree_size(location.held_in or args.source)
    record = {"record": "placement", "tier": args.tier, "format": args.format or args.source.name, "uri": location.uri}
    write_json(args.record, {**record, "seconds": seconds, "bytes": size, "files": files})


if __name__ == "__main__":
    run_main(main)
