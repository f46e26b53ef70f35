"""How pytest-xdist shares the tests among its processes, what many tests ask for, and what is said of skipped ones."""

import gc
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from typing import Any

import pytest

from tests.support.programs import PROJECT

os.environ["PYTHONPATH"] = str(PROJECT)  # of the programs that tests start, in whichever folder
os.environ["OMP_NUM_THREADS"] = "1"  # tests run beside one another; what is measured says its threads itself

# One fixture, which takes longer than the tests, serves most tests of such a file: it is one process's. All others go
# to whichever process is free.
TOGETHER = tuple(
    f"test_{name}.py"
    for name in (
        *("workflow", "scenarios", "download_faults", "loaders", "browser", "report", "light"),
        *("machines", "parts", "one_figure", "figures", "programs", "faults", "code", "verdicts"),
        *("forms", "charts", "extending", "envs", "kinds", "download_parts", "part", "golden"),
    )
)

# Tests that take long, most of them by waiting: they come before the others that stand alone, so that no process ends
# with one of them while the rest have nothing to do.
LONG = ("tests/workflow/", "test_isolated.py", "test_object_faults.py", "test_own_loader.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long tests first."""
    items.sort(key=lambda item: not any(part in item.nodeid for part in LONG))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return the scheduler that keeps the files above together; the largest first."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return file if file.endswith(TOGETHER) else nodeid

    return Together(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Take what is imported by now out of the garbage collector's way.

    With torch, DALI and the rest a collection takes 0.2 s, and 0.4 s in a fork, whose pages it copies.
    """
    gc.collect()
    gc.freeze()


# Why tests are skipped (what their reasons have in common), in words that say what would run them.
WANTED = {
    r"GPU|cuda": "want an NVIDIA GPU: run them on a machine that has one",
    r"make isolated": "want a library in an isolated environment: type make isolated",
    r"config\.yaml was edited": "want config.yaml as it is committed: put your edits aside (git stash), or copy them",
    r"cannot mount|can be mounted|to mount": "want to mount a small file system: run them as root, outside a container",
    r"control group|not permitted|no controller|no block device": "want control groups of version 2 that may be "
    "written: run them as root, outside a container",
    r"cachestat": "want the system call cachestat: run them on Linux 6.5 or later",
    r"FFCV's compiled code": "want more cores: run them where this process may use at least two",
    r"fio": "want fio: sh envs/system_packages.sh installs it where it may",
    r"playwright|axe|chrom|^none of": "want a browser: sh envs/test_browser.sh installs one where it may",
    r"pdftotext": "want pdftotext: install poppler-utils",
    r"pillow-simd": "want Pillow-SIMD in Pillow's place: pip install pillow-simd, in an environment of its own",
    r"simplejpeg decodes JPEG": "are of a decoder of JPEG on PNG files: nothing is to be done",
    r"torch\.compile": "want a C++ compiler and Python's headers: install g++ and python3-dev",
    r"C compiler": "want a C compiler: install gcc",
    r"network namespaces": "want network namespaces: run them as root, with iproute2, outside a container",
    r"mount namespace|bound its processes": "want namespaces and setpriv: run them as root, outside a container",
    r"SeaweedFS": "want SeaweedFS: type make test, which installs what is locked",
    r"setpriv": "want setpriv: install util-linux",
    r"Slurm": "want a Slurm that they may start: install slurm-wlm and munge, as root, where none is set up",
    r"could not import": "want a library that is not installed: type make test, which installs what is locked",
}
ROOM_GB = 6  # free in the temporary folder when all tests begin: data, indices and reports of whole sessions
KEPT = "feedrate/skipped"  # of `make test`'s first call of pytest, until its second one says it


def wanted(reason: str) -> str:
    """Return what would run the tests that were skipped for this reason; the reason itself where nobody has said it."""
    return next((words for pattern, words in WANTED.items() if re.search(pattern, reason)), f"were skipped: {reason}")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say how many tests were skipped, why, and what would run them: a line for each thing that they want.

    Where tests failed, say too if it may be for want of room.
    """
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free / 1e9
    if terminalreporter.stats.get("failed") and free < ROOM_GB:
        terminalreporter.write_line(
            f"{folder} has {free:.1f} GB free, and all tests want {ROOM_GB}: some may fail for want of room. "
            "Free some, or name another folder: TMPDIR=/a/short/path"
        )
    reasons = (report.longrepr[2] for report in terminalreporter.stats.get("skipped", ()))
    found = Counter(wanted(reason.removeprefix("Skipped: ")) for reason in reasons)
    cache = getattr(config, "cache", None)  # there is none with -p no:cacheprovider
    if cache and config.option.markexpr == "not alone":
        cache.set(KEPT, found)
    elif cache and config.option.markexpr == "alone":
        found += Counter(cache.get(KEPT, {}))
        cache.set(KEPT, {})
    if found:
        terminalreporter.section("not run")
    for words, count in found.most_common():
        terminalreporter.write_line(f"{count} {words}")


@pytest.fixture
def shipped() -> str:
    """The text of config.yaml as it is shipped; a test that asks for it is skipped where somebody edited the file."""
    edited = ["git", "diff", "--quiet", "HEAD", "--", "config.yaml"]  # 1: it differs; 128 and 129: no repository
    if subprocess.run(edited, cwd=PROJECT, capture_output=True).returncode == 1:
        pytest.skip("config.yaml was edited: what it ships is tested where it is as committed")
    return (PROJECT / "config.yaml").read_text()
