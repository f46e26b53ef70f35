"""Measures one loader once: a fresh process, one split, one set of settings; writes one JSON record.

A loader that cannot run, that delivers wrong data or that breaks gives a record too, with the reason and no speed.
"""

from scripts.common.errors import run_main
from scripts.common.files import write_json
from scripts.measure import by_hand, runner


def main() -> None:
    """Measure, and write the record; that of a run on several nodes is the first one's."""
    result, out = by_hand.run_of(by_hand.run_parser(__doc__).parse_args(), out="--out")
    if record := runner.by_itself(result):
        write_json(out, record)


if __name__ == "__main__":
    run_main(main)
