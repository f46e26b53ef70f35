"""Isolated environments: their locks, how a program enters one, and the contract suites of their plug-ins."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from envs import make_envs
from envs.install_isolated import installed
from scripts.common import isolated, plugins
from scripts.common.corpus import SPLITS
from scripts.common.errors import UserError
from scripts.prepare import write_format
from tests.support.isolated_cases import is_isolated
from tests.support.made_corpus import make_corpus
from tests.workflow.test_envs import LOCK, PROJECT, project

ENVS = sorted(path.stem for path in (PROJECT / "envs" / "isolated").glob("*.lock"))
every_env = pytest.mark.parametrize("env", ENVS)
# numba's own clean-up of compiled functions fails in cycles that the collector breaks: noise, on standard error.
NOISY = {"ffcv": ["-W", "ignore::pytest.PytestUnraisableExceptionWarning"]}
IN_TIME = ["-o", "timeout=300"]  # seconds of a test, sooner than this one's own end, so that it is named
SOON = {"FORCE_DOWNLOAD_TIME": "1", "MAX_WAIT_TIME": "3"}  # seconds that LitData waits for a chunk, not two minutes
PROGRAM = """
import multiprocessing, os, subprocess, sys
from importlib import metadata
sys.path.insert(0, {scripts!r})
from scripts.common import isolated
sys.prefix = {prefix!r}
def version(_=None):
    return metadata.version("thing")
if __name__ == "__main__":
    isolated.enter("clash")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        spawned = pool.map(version, [None])[0]
    print(os.getpid(), version(), spawned, os.environ["PYTHONPATH"], *sys.argv[1:])
"""


def installed_or_skip(env: str) -> None:
    """Skip the test where the environment could not be installed."""
    if not installed(env):
        pytest.skip(f"{env} is not installed: type `make isolated`")


# The locks


def test_every_isolated_environment_has_its_lock():
    assert sorted(project()["tool"]["feedrate"]["isolated"]) == ENVS


@every_env
def test_a_lock_holds_what_differs_and_nothing_else(env):
    own = make_envs.locked_versions(isolated.lock(env).read_text())
    assert own and {name: version for name, version in own.items() if LOCK.get(name) == version} == {}
    wanted = make_envs.locked_versions("\n".join(make_envs.group_requirements(project()["dependency-groups"], env)))
    assert {name: {**LOCK, **own}.get(name) for name in wanted} == wanted, "stale: run `make lock`"


@every_env
def test_every_requirement_is_met(env):
    """With the folder first on the path, each package of the environment finds what it requires, as it takes it."""
    installed_or_skip(env)
    unmet = []
    with make_envs.seen_from(env):
        for name in make_envs.closure(make_envs.group_requirements(project()["dependency-groups"], env)):
            for requirement in map(Requirement, metadata.requires(name) or []):
                if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                    version = metadata.version(requirement.name)
                    unmet += [] if requirement.specifier.contains(version, prereleases=True) else [(name, requirement)]
    assert unmet == []


@every_env
def test_a_folder_hides_nothing_of_python_itself(env):
    """The folder comes before the standard library on the path."""
    installed_or_skip(env)
    names = {path.name.split(".")[0] for path in isolated.folder(env).iterdir()}
    assert names & sys.stdlib_module_names == set()


# Entering


@pytest.fixture
def environments(tmp_path) -> Path:
    """A prefix with an isolated environment called `clash`, and, elsewhere, the main version of what it has."""
    for folder, version in (("prefix/isolated/clash", "1"), ("main", "2")):
        about = tmp_path / folder / f"thing-{version}.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: thing\nVersion: {version}\n")
    return tmp_path


def entered(folder: Path, prefix: str) -> tuple[bool, list[str]]:
    """Run a program that enters `clash`; return whether it kept its process number, and what else it printed."""
    program = folder / "program.py"
    program.write_text(PROGRAM.format(scripts=str(PROJECT), prefix=str(folder / prefix)))
    environment = {**os.environ, "PYTHONPATH": str(folder / "main")}
    command = [sys.executable, "-W", "error", program, "one", "--two=3"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        printed = process.communicate(timeout=300)[0].split()
    return int(printed[0]) == process.pid, printed[1:]


def test_a_program_sees_the_versions_of_its_environment(environments):
    """In it and in what it spawns, with its arguments and its process number."""
    path = f"{environments}/prefix/isolated/clash:{environments}/main"
    assert entered(environments, "prefix") == (True, ["1", "1", path, "one", "--two=3"])


def test_without_such_a_folder_nothing_happens(environments):
    """As with conda, whose environments are complete."""
    path = f"{environments}/main"
    assert entered(environments, "elsewhere") == (True, ["2", "2", path, "one", "--two=3"])


# A library that is absent


def test_a_format_without_its_library_is_recorded_with_the_reason(tmp_path):
    """Two empty splits that nobody reads, and a record without figures."""
    module = plugins.load("formats", "litdata")
    absent = type("Module", (), {"ENV": "litdata", "REQUIRES": ("json", "no_such_library")})
    reason = write_format.not_installed("litdata", absent)
    assert reason == "not installed: no_such_library (No module named 'no_such_library')"
    corpus = make_corpus(tmp_path / "corpus")
    record = write_format.without_data("litdata", corpus, tmp_path / "out", reason)
    assert sorted(path.name for path in (tmp_path / "out").rglob("*")) == sorted(SPLITS)
    assert record["reason"] == reason and record["item_bytes"] == module.BYTES_PER_ITEM(corpus.sample)
    assert {record[key] for key in ("seconds", "bytes", "files", "items", "items_per_second")} == {None}


def test_a_format_of_the_common_environment_must_find_its_libraries():
    with pytest.raises(UserError, match="no_such_library"):
        write_format.not_installed("npy", type("Module", (), {"REQUIRES": ("no_such_library",)}))


@pytest.mark.parametrize("name", [n for n in plugins.names("formats") if is_isolated(plugins.load("formats", n))])
def test_who_reads_a_format_of_an_isolated_environment_needs_it_too(name):
    """So that none of them reads what was not written."""
    env = plugins.load("formats", name).ENV
    loaders = [plugins.load("loaders", loader) for loader in plugins.names("loaders")]
    readers = [loader for loader in loaders if name == loader.FORMAT]
    own = make_envs.locked_versions(isolated.lock(env).read_text())
    assert readers
    for loader in readers:
        assert env == isolated.env_of(loader) and own.keys() & set(map(canonicalize_name, loader.REQUIRES))


# The contract


@every_env
def test_plugins_keep_their_contract(env):
    """In a process that has entered the environment: the suites of both kinds, and of object storage that fails."""
    installed_or_skip(env)
    found = [
        [name for name in plugins.names(kind) if isolated.env_of(plugins.load(kind, name)) == env]
        for kind in ("formats", "loaders")
    ]
    assert all(found)
    names = {name for of_kind in found for name in of_kind}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *IN_TIME, *NOISY.get(env, [])]
    of_loaders = ("loaders", "kinds", "object_faults", "caches")
    suites = ["tests/formats/test_formats.py", *(f"tests/loaders/test_{suite}.py" for suite in of_loaders)]
    done = subprocess.run(
        [*command, *suites, "-k", " or ".join(sorted(names))],
        cwd=PROJECT,
        env={**os.environ, **SOON, "PYTHONPATH": isolated.search_path(env, os.environ.get("PYTHONPATH", ""))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
