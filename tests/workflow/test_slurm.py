"""The workflow on a cluster: a real Slurm of one node, whose measuring job is cancelled once and then goes through."""

import json
import tempfile
from pathlib import Path

import pytest

from tests.support.one_node_slurm import awaited, jobs, lacking, run, slurm
from tests.support.workflow_copy import PATIENCE, ProjectCopy, folders

pytestmark = pytest.mark.skipif(bool(lacking()), reason=str(lacking()))
SOON = ("--slurm-init-seconds-before-status-checks", "1", "--latency-wait", "5")
CALL = ("--profile", "workflow/profiles/slurm", *SOON, "--cores", "1", "results/numpy_memmap.json")


@pytest.fixture
def cluster():
    with tempfile.TemporaryDirectory(prefix="feedrate-test-") as folder, slurm(Path(folder)):
        yield


@pytest.mark.usefixtures("cluster")
def test_a_cancelled_job_leaves_nothing_that_looks_finished_and_the_same_command_goes_on():
    with folders() as (disk, ram):
        project = ProjectCopy(disk / "project", ram, loaders=["numpy_memmap"])
        session = project.root / "results/runs/demo/session-only-numpy_memmap.json"
        result = project.root / "results/numpy_memmap.json"
        call = project.start(*CALL)
        awaited(lambda: any(job["JobState"] == "RUNNING" and measures(job) for job in jobs()), "the job", PATIENCE)
        [measuring] = filter(measures, jobs())
        run("scancel", measuring["JobId"])
        output, _ = call.communicate(timeout=PATIENCE)
        assert call.returncode != 0, output
        assert not session.exists() and not result.exists()
        output = project.snakemake(*CALL)
        assert "numpy_memmap on ram" in output and json.loads(result.read_text()) and session.exists()
        done = [job for job in jobs() if measures(job) and job["JobState"] == "COMPLETED"]
        assert len(done) == 1, "copies, proofs and the session are one job of one node"
        assert done[0]["OverSubscribe"] == "NO", "which it has for itself"
        others = [job for job in jobs() if not measures(job) and job["JobState"] == "COMPLETED"]
        assert others and all(job["OverSubscribe"] != "NO" for job in others), "data is prepared beside other jobs"
        assert not list(ram.rglob("*.npy")), "the copy in RAM is given back"


def measures(job: dict[str, str]) -> bool:
    """Return whether it is the job of the group `node`."""
    return "group_node" in job["Comment"] + job["JobName"] + job.get("StdOut", "")
