"""Describes and measures a storage tier: device, file system, and what reads of an item's size get from it.

    python -m scripts.prepare.profile_tier --kind posix --options '{"path": "/mnt/nvme"}' --tier nvme \\
        --item-bytes 640000 320000 --readers 1 2 4 --seconds 5 --out results/placed/demo/nvme.json
"""

import argparse
from pathlib import Path

from scripts.common.errors import UserError, run_main
from scripts.common.files import write_json
from scripts.machine import devices
from scripts.prepare.arguments import add_tier, checked_tier

VERSION = 1
# What a record has, whatever a kind can say of its storage.
UNKNOWN = dict.fromkeys(("path", "filesystem", "kind", "device", "model", "rotational", "scheduler", "emulated", "fio"))


def main() -> None:
    """Read the command line, profile the tier, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_tier(parser)
    sizes = "bytes of an item, one number or several: the sizes of random reads"
    parser.add_argument("--item-bytes", required=True, type=int, nargs="+", help=sizes)
    counts = "how many readers at once, one number or several; one is always measured (default: 1)"
    parser.add_argument("--readers", type=int, nargs="+", default=[1], help=counts)
    parser.add_argument("--seconds", type=float, default=5.0, help="longest time of each measurement (default: 5)")
    parser.add_argument("--out", required=True, type=Path, help="JSON file to write")
    args = parser.parse_args()
    if min(*args.item_bytes, *args.readers) < 1 or not args.seconds > 0:
        found = " ".join(["--item-bytes", *map(str, args.item_bytes), "--readers", *map(str, args.readers)])
        raise UserError(
            f"{found} --seconds {args.seconds}: allowed are numbers above 0. "
            "Type for example --item-bytes 640000 --readers 1 2 4 --seconds 5."
        )
    with checked_tier(args) as kind:
        profile = kind.profile(args.options, args.item_bytes, args.readers, args.seconds)
    profile = {**UNKNOWN, "reason": None, "uri": kind.location(args.options, "").uri, **profile}
    claimed = devices.misnamed(args.tier, profile["kind"]) if profile["kind"] else []
    warnings = [*claimed, *profile.get("warnings", ())]
    write_json(args.out, {"record": "tier", "tier": args.tier, **profile, "warnings": warnings})


if __name__ == "__main__":
    run_main(main)
