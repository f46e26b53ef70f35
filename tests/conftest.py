"""How pytest-xdist shares the tests among its processes (`make test`), and what many tests ask for."""

import os
import subprocess
from typing import Any

import pytest

from tests.support.programs import PROJECT

os.environ["PYTHONPATH"] = str(PROJECT)  # of the programs that tests start, in whichever folder

# One fixture, which takes longer than the tests, serves most tests of such a file: it is one process's. All others go
# to whichever process is free.
TOGETHER = tuple(
    f"test_{name}.py" for name in ("workflow", "conditions", "download_faults", "loaders", "browser", "report", "light")
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return the scheduler that keeps the files above together; the largest first."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return file if file.endswith(TOGETHER) else nodeid

    return Together(config, log)


@pytest.fixture
def shipped() -> str:
    """The text of config.yaml as it is shipped; a test that asks for it is skipped where somebody edited the file."""
    edited = ["git", "diff", "--quiet", "HEAD", "--", "config.yaml"]  # 1: it differs; 128 and 129: no repository
    if subprocess.run(edited, cwd=PROJECT, capture_output=True).returncode == 1:
        pytest.skip("config.yaml was edited: what it ships is tested where it is as committed")
    return (PROJECT / "config.yaml").read_text()
