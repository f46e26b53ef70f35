"""Measures the in-memory ceiling by itself: the consumer on batches that stream through memory (measure/ceiling.py).

A session makes the same between its runs, in forks of its server, as its control run: the same work all the time,
which shows the machine's own noise. On a GPU the batches are in its memory.
"""

from scripts.common.errors import run_main
from scripts.measure import control_run
from scripts.measure.record import measure_afresh, with_settings
from scripts.plan.results import Bound, measured_from, parser_of


def main() -> None:
    """Measure the ceiling once in a fresh child process and write its record."""
    bound, out = measured_from(Bound, parser_of(Bound, __doc__).parse_args(), {"corpus": "--corpus", "out": "--out"})
    measure_afresh(with_settings(bound), out, control_run.new_record)


if __name__ == "__main__":
    run_main(main)
