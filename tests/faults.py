"""`make faults`: plant every fault in a tiny project of which each stage has run; write results/reliability.md.

It ends with status 1 if a fault did harm or a message does not say what to do. A fault that this machine cannot plant
is a row with the reason.

    make faults              python -m tests.faults --only placed "report: disk full"
"""

import argparse
import sys
import tempfile
from pathlib import Path

from scripts.common.files import read_json, whole_file, write_json
from scripts.common.versions import commit
from tests.support.faults.page import PAGE, RECORD, page, record_of
from tests.support.faults.planting import FAULTS, planted, prepared
from tests.support.faults.registry import STAGES


def main() -> None:
    """Plant the chosen faults, print a line for each, and write the record and its page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    only = "stages, or how names of faults begin: only their rows of the record are renewed"
    parser.add_argument("--only", nargs="*", default=[], help=only)
    arguments = parser.parse_args()
    chosen = [
        one
        for one in sorted(FAULTS.values(), key=lambda one: STAGES.index(one.stage))
        if not arguments.only or one.name.startswith(tuple(arguments.only)) or one.stage in arguments.only
    ]
    if not chosen:
        parser.error(f"found neither a stage nor a fault {arguments.only}; the stages are {', '.join(STAGES)}")
    rows, begun = [], commit() or "none"
    with tempfile.TemporaryDirectory(prefix="feedrate-faults-") as folder, prepared(Path(folder)) as project:
        for one in chosen:
            rows.append(planted(one, project))
            print(f"{rows[-1].seconds:6.1f} s  {one.stage:8} {one.name}: {rows[-1].found}", flush=True)
            if rows[-1].said:
                print(f"{'':18} {rows[-1].said}", flush=True)
    record = record_of(rows, begun, read_json(RECORD) if arguments.only and RECORD.is_file() else None)
    write_json(RECORD, record)
    with whole_file(PAGE) as file:
        file.write(page(record))
    if wrong := [row.fault for row in rows if not row.holds]:
        sys.exit(f"error: not as expected: {'; '.join(wrong)}")


if __name__ == "__main__":
    main()
