"""Tests of loaders by obstore run in forks: its runtime is there until the process ends, which cannot fork after it."""

from typing import Any

import pytest

from scripts.common import plugins
from tests.support.forked import in_a_fork


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Do not mind that Lhotse leaves it to the collector to close a tar shard."""
    for item in items:
        if hasattr(item, "callspec") and item.callspec.params.get("loader") == "lhotse_shar":
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"))


@pytest.fixture(autouse=True)
def no_pause(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the 5 s for which Hugging Face's library sleeps at the end of an epoch."""
    given = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    if given.get("loader") == "hf_stream":
        monkeypatch.setattr("datasets.config.SLEEP_TIME_ON_THREADS_SHUTDOWN", 0.01)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test of such a loader in a fork; leave others to pytest."""
    given = pyfuncitem.callspec.params if hasattr(pyfuncitem, "callspec") else {}
    if not _by_obstore(given.get("loader")):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    def test() -> None:
        if given.get("workers") == 0:
            _start_runtime()
        pyfuncitem.obj(**arguments)

    in_a_fork(test)
    return True


def _by_obstore(loader: Any) -> bool:
    return loader in plugins.names("loaders") and "obstore" in plugins.load("loaders", loader).REQUIRES


def _start_runtime() -> None:
    """Have the runtime, and what it keeps open, in this process before a test looks at what is left open."""
    import obstore

    obstore.put(obstore.store.MemoryStore(), "name", b"content")
