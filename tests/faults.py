"""`make faults`: plants every fault by name, each in a project as it was prepared, and writes docs/reliability.md.

Ends with an error where a fault did harm or where what was said does not help. What cannot be planted on this machine
is a row with its reason.

    make faults              python -m tests.faults --only "copy: quota exceeded" --renew
"""

import argparse
import sys
import tempfile
from pathlib import Path

from scripts.common.versions import commit
from tests.support.faults.page import DOC, carried, page, record_of, renewed
from tests.support.faults.planting import FAULTS, planted, prepared
from tests.support.faults.registry import STAGES


def main() -> None:
    """Plant what is asked for, print a line for each, and write the page where all were."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="faults whose name or stage begins so")
    parser.add_argument("--renew", action="store_true", help="with --only: renew their rows of docs/reliability.md")
    arguments = parser.parse_args()
    chosen = [
        one
        for one in sorted(FAULTS.values(), key=lambda one: STAGES.index(one.stage))
        if not arguments.only or one.name.startswith(tuple(arguments.only)) or one.stage in arguments.only
    ]
    rows, begun = [], commit()
    with tempfile.TemporaryDirectory(prefix="feedrate-faults-") as folder, prepared(Path(folder)) as project:
        for one in chosen:
            rows.append(planted(one, project))
            print(f"{rows[-1].seconds:6.1f} s  {one.stage:8} {one.name}: {rows[-1].found}", flush=True)
            print(f"{'':18} {rows[-1].said}" if rows[-1].said else "", end="\n" if rows[-1].said else "", flush=True)
    found = record_of(rows, begun)
    if arguments.renew and arguments.only:
        found = renewed(carried(DOC.read_text(encoding="utf-8")), found)
    if arguments.renew or not arguments.only:
        DOC.write_text(page(found), encoding="utf-8")
    wrong = [row.fault for row in rows if not row.holds]
    if wrong or not rows:
        sys.exit(f"error: {'; '.join(wrong) or 'no fault by that name'}: not as it should be")


if __name__ == "__main__":
    main()
