"""How pytest-xdist shares the tests among its processes: `make test`."""

from typing import Any

import pytest

# One fixture, which takes longer than the tests, serves most tests of such a file: it is one process's. All others go
# to whichever process is free.
TOGETHER = tuple(
    f"test_{name}.py" for name in ("workflow", "conditions", "download_faults", "loaders", "browser", "report")
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
