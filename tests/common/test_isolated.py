"""Environments of their own: their locks, how a program enters one, and the contract suites of their plug-ins."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.common import isolated, plugins
from scripts.common.corpus import SPLITS
from scripts.prepare import write_format
from tests.support.made_corpus import make_corpus
from tests.workflow.test_envs import LOCK, PROJECT, make_envs, project

ENVS = sorted(path.stem for path in (PROJECT / "envs" / "apart").glob("*.lock"))
every_env = pytest.mark.parametrize("env", ENVS)
# numba's own clean-up of compiled functions fails in cycles that the collector breaks: noise, on standard error.
NOISY = {"ffcv": ["-W", "ignore::pytest.PytestUnraisableExceptionWarning"]}
PROGRAM = """
import multiprocessing, os, subprocess, sys
from importlib import metadata
sys.path.insert(0, {scripts!r})
from scripts.common import isolated as apart
sys.prefix = {prefix!r}
def version(_=None):
    return metadata.version("thing")
if __name__ == "__main__":
    apart.enter("clash")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        spawned = pool.map(version, [None])[0]
    print(os.getpid(), version(), spawned, os.environ["PYTHONPATH"], *sys.argv[1:])
"""


def installed_or_skip(env: str) -> None:
    """Skip the test where the environment could not be installed."""
    if not make_envs().installed(env):
        pytest.skip(f"{env} is not installed: type `make apart`")


# The locks


def test_every_environment_apart_has_its_lock():
    assert sorted(project()["tool"]["feedrate"]["apart"]) == ENVS


@every_env
def test_a_lock_holds_what_differs_and_nothing_else(env):
    module = make_envs()
    own = module.locked_versions(module.apart_lock(env).read_text())
    assert own and {name: version for name, version in own.items() if LOCK.get(name) == version} == {}
    wanted = module.locked_versions("\n".join(module.group_requirements(project()["dependency-groups"], env)))
    assert {name: {**LOCK, **own}.get(name) for name in wanted} == wanted, "stale: run `make lock`"


@every_env
def test_every_requirement_is_met(env):
    """With the folder first on the path, each package of the environment finds what it requires, as it takes it."""
    installed_or_skip(env)
    module = make_envs()
    unmet = []
    with module.seen_from(env):
        for name in module.closure(module.group_requirements(project()["dependency-groups"], env)):
            for requirement in map(Requirement, metadata.requires(name) or []):
                if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                    version = metadata.version(requirement.name)
                    unmet += [] if requirement.specifier.contains(version, prereleases=True) else [(name, requirement)]
    assert unmet == []


@every_env
def test_a_folder_hides_nothing_of_python_itself(env):
    """The folder comes before the standard library on the path."""
    installed_or_skip(env)
    names = {path.name.split(".")[0] for path in make_envs().folder(env).iterdir()}
    assert names & sys.stdlib_module_names == set()


# Entering


@pytest.fixture
def environments(tmp_path) -> Path:
    """A prefix with an environment apart called `clash`, and, elsewhere, the main version of what it has."""
    for folder, version in (("prefix/apart/clash", "1"), ("main", "2")):
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
    path = f"{environments}/prefix/apart/clash:{environments}/main"
    assert entered(environments, "prefix") == (True, ["1", "1", path, "one", "--two=3"])


def test_without_such_a_folder_nothing_happens(environments):
    """As with conda, whose environments are complete."""
    path = f"{environments}/main"
    assert entered(environments, "elsewhere") == (True, ["2", "2", path, "one", "--two=3"])


def test_the_installer_and_the_programs_mean_the_same_folder():
    assert make_envs().folder("clash") == isolated.folder("clash")


# A library that is absent


def test_a_format_without_its_library_is_recorded_with_the_reason(tmp_path):
    """Two empty splits that nobody reads, and a record without figures."""
    module = plugins.load("formats", "litdata")
    absent = type("Module", (), {"ENV": "litdata", "REQUIRES": ("json", "no_such_library")})
    reason = write_format.not_installed(absent)
    assert reason == "not installed: no_such_library (No module named 'no_such_library')"
    corpus = make_corpus(tmp_path / "corpus")
    record = write_format.without_data("litdata", corpus, tmp_path / "out", reason)
    assert sorted(path.name for path in (tmp_path / "out").rglob("*")) == sorted(SPLITS)
    assert record["reason"] == reason and record["clip_bytes"] == module.BYTES_PER_CLIP(corpus.samples)
    assert {record[key] for key in ("seconds", "bytes", "files", "clips", "clips_per_second")} == {None}


def test_a_format_of_the_main_environment_must_find_its_libraries():
    assert write_format.not_installed(type("Module", (), {"REQUIRES": ("no_such_library",)})) is None


@pytest.mark.parametrize("name", [n for n in plugins.names("formats") if hasattr(plugins.load("formats", n), "ENV")])
def test_who_reads_a_format_apart_needs_its_environment(name):
    """So that none of them reads what was not written."""
    env = plugins.load("formats", name).ENV
    loaders = [plugins.load("loaders", loader) for loader in plugins.names("loaders")]
    readers = [loader for loader in loaders if name == loader.FORMAT]
    own = {
        canonicalize_name(package) for package in make_envs().locked_versions(make_envs().apart_lock(env).read_text())
    }
    assert readers
    for loader in readers:
        assert env == loader.ENV and own.intersection(map(canonicalize_name, loader.REQUIRES))


# The contract


@pytest.mark.parametrize("kind", ["formats", "loaders"])
@every_env
def test_plugins_keep_their_contract(env, kind):
    """The suites of formats and of loaders, in a process that has entered the environment."""
    installed_or_skip(env)
    names = [name for name in plugins.names(kind) if getattr(plugins.load(kind, name), "ENV", None) == env]
    assert names
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *NOISY.get(env, [])]
    done = subprocess.run(
        [*command, f"tests/{kind}/test_{kind}.py", "-k", " or ".join(names)],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": isolated.search_path(env, os.environ.get("PYTHONPATH", ""))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
