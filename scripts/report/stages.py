"""What a call of Snakemake says while it works: a line a stage, warnings, what fails. Its log has the rest."""

import logging
import sys
import time
from collections import Counter

from snakemake.logging import logger
from snakemake_interface_logger_plugins.common import LogEvent

NOISE = ("Config file", "Assuming unrestricted", "Building DAG", "Using shell", "Conda environments", "Select jobs")
NOISE += ("Creating report", "Adding ", "Missing metadata", "Report created", "Complete log", "Elapsed time")
NOISE += ("Removing temporary output", "DAG of jobs will", "Updating checkpoint")


def show_stages() -> None:
    """Have what Snakemake says of its jobs on the terminal replaced by the stages; its log file stays as it is."""
    for handler in [one for one in logger.handlers if one.name == "DefaultStreamHandler"]:
        logger.removeHandler(handler)
        logger.addHandler(Stages(handler))


class Stages(logging.Handler):
    """Counts the jobs of each rule: one line redrawn in place on a terminal, else a line a rule when its last job ends.

    `plain` is Snakemake's own handler, which says what is a warning or an error.
    """

    def __init__(self, plain: logging.Handler) -> None:
        super().__init__()
        self.plain, self.inplace = plain, sys.stderr.isatty()
        self.jobs: dict[str, int] = {}  # of each rule
        self.rules: dict[int, str] = {}  # by a job's id
        self.began: dict[str, float] = {}
        self.done: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        """Show a message of Snakemake, or count what it tells."""
        event = getattr(record, "event", None)
        if event == LogEvent.RUN_INFO:
            self.jobs = dict(record.stats)
        elif event == LogEvent.JOB_INFO:
            self.rules[record.jobid] = record.rule_name
            self.began.setdefault(record.rule_name, time.monotonic())
        elif event == LogEvent.JOB_FINISHED and self.rules.get(record.job_id, "all") != "all":
            self._finished(self.rules[record.job_id])
        elif record.levelno >= logging.WARNING or (event is None and not str(record.msg).startswith(NOISE)):
            self.plain.handle(record)

    def _finished(self, rule: str) -> None:
        self.done[rule] += 1
        done, planned, name = self.done[rule], self.jobs.get(rule, 0), rule.replace("_", " ")
        seconds = time.monotonic() - self.began[rule]
        ended = done >= planned
        if self.inplace or ended:
            of = f" of {planned}" if done <= planned else ""  # more: a checkpoint has added some
            text = f"{name}: {done}{of} in {seconds:.0f} s"
            print(f"\r\033[K{text}" if self.inplace else text, end="\n" if ended else "", file=sys.stderr, flush=True)
