"""Faults of whole calls of Snakemake, in a copy of the project: two at once, and one that is killed."""

import os
import signal

from tests.support.faults.project import Project
from tests.support.faults.registry import Outcome, fault
from tests.support.held_calls import WANTED, alive, held_project, until
from tests.support.workflow_copy import PATIENCE


@fault(
    "two workflows at once in one folder",
    "plan",
    "the second names the first and stops",
    r"fetch_clips \(process \d+\), of Snakemake \(process \d+\)",
)
def _(_: Project) -> Outcome:
    with held_project() as (project, held):
        first = project.start(WANTED, path=str(held))
        until((held / "held").exists, first)
        second = project.call("--nolock", WANTED)
        (held / "released").touch()
        output, _ = first.communicate(timeout=PATIENCE)
        assert first.returncode == 0, output[-2000:]
        return Outcome(second.output, half=not (project.root / WANTED).is_file(), wrong=second.status == 0)


@fault(
    "Snakemake alone is killed",
    "plan",
    "the next call names the job that is left; after its end it goes on",
    r"whose Snakemake is gone|type: kill \d+",
)
def _(_: Project) -> Outcome:
    with held_project() as (project, held):
        first = project.start(WANTED, path=str(held))
        until((held / "held").exists, first)
        first.kill()
        first.wait()
        first.stdout.close()
        left = int((held / "held").read_text())
        second = project.call("--nolock", WANTED)
        os.kill(left, signal.SIGTERM)
        until(lambda: not alive(left))
        half = (project.root / WANTED).exists()
        project.snakemake(WANTED)
        return Outcome(second.output, half=half, lost=not (project.root / WANTED).is_file(), wrong=second.status == 0)
