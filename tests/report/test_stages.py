"""What a call says while it works: a line a stage, and every warning and error of Snakemake's."""

import logging

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from scripts.report.stages import Stages


@pytest.fixture
def logger():
    """A logger that says what Snakemake's own handler would say, and the stages."""
    plain = logging.Handler()
    plain.said = []
    plain.emit = lambda record: plain.said.append(record.msg)
    found = logging.Logger("made")
    found.addHandler(Stages(plain))
    found.said = plain.said
    return found


def tell(logger, event, level=logging.INFO, text="", **extra):
    logger.log(level, text, extra={"event": event, **extra})


def test_a_rule_is_a_line_when_its_last_job_has_ended(logger, capsys):
    tell(logger, LogEvent.RUN_INFO, text="Job stats: ...", stats={"write_format": 2, "make_tables": 1, "total": 3})
    for job, rule in ((1, "write_format"), (2, "write_format"), (3, "make_tables")):
        logger.info("Select jobs to execute...")
        tell(logger, LogEvent.JOB_INFO, jobid=job, rule_name=rule)
        tell(logger, LogEvent.JOB_FINISHED, text="Finished", job_id=job)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("write format: 2 of 2 ") and second.startswith("make tables: 1 of 1 ")
    assert logger.said == []


def test_warnings_errors_and_that_nothing_is_to_be_done_are_said_in_full(logger, capsys):
    tell(logger, LogEvent.JOB_ERROR, logging.ERROR, "Error in rule write_format")
    logger.warning("a warning")
    logger.info("Nothing to be done (all requested files are present and up to date).")
    logger.info("Building DAG of jobs...")
    logger.info("Removing temporary output results/formats/demo/part/npy.")
    assert [said.split()[0] for said in logger.said] == ["Error", "a", "Nothing"]
    assert capsys.readouterr().err == ""
