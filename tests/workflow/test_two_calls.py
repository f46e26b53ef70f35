"""Two calls of Snakemake in one folder: who is still at work is said."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.held_calls import WANTED, alive, held_project, until
from tests.support.workflow_copy import PATIENCE, ProjectCopy


@pytest.fixture
def place() -> Iterator[tuple[ProjectCopy, Path]]:
    with held_project() as found:
        yield found


def test_what_a_killed_snakemake_left_at_work_is_named_until_it_has_ended(place):
    project, held = place
    first = project.start(WANTED, path=str(held))
    until((held / "held").exists, first)
    first.kill()
    first.wait()
    orphan = int((held / "held").read_text())
    assert alive(orphan)
    for arguments in (["--nolock", WANTED], ["--unlock"], [WANTED]):
        said = project.call(*arguments)
        assert said.status != 0 or arguments == ["--unlock"], f"{arguments} went on beside the job of the killed call"
        assert f"fetch_clips (process {orphan}), whose Snakemake is gone" in said.output, said.output[-2000:]
        assert f"type: kill {orphan}" in said.output and "Traceback" not in said.output
    assert alive(orphan), "looking disturbed it"
    os.kill(orphan, signal.SIGTERM)
    until(lambda: not alive(orphan))
    first.stdout.close()
    project.snakemake(WANTED)
    assert (project.root / WANTED).is_file()
    assert project.planned(WANTED) == []


def test_a_second_call_names_the_one_that_lives(place):
    project, held = place
    first = project.start(WANTED, path=str(held))
    until((held / "held").exists, first)
    for arguments in ([WANTED], ["--nolock", WANTED]):
        said = project.call(*arguments)
        assert said.status != 0, f"{arguments} went on beside another call"
        assert re.search(rf"fetch_clips \(process \d+\), of Snakemake \(process {first.pid}\)", said.output), (
            said.output
        )
        assert "type: kill" not in said.output
    (held / "released").touch()
    output, _ = first.communicate(timeout=PATIENCE)
    assert first.returncode == 0, output[-3000:]
    assert project.planned(WANTED) == []
