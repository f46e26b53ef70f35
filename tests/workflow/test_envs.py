"""The environments: what the lock pins, what each holds, and what the programs that run in it import."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.utils import canonicalize_name

from scripts.common import plugins
from tests.support.programs import PROJECT
from tests.support.workflow_rules import PLUGINS_OF, rules

TORCH = {"torch": "2.", "torchaudio": "2.", "torchcodec": "0."}  # what stands before the number of their release


def make_envs():
    """Return envs/make_envs.py as a module."""
    sys.path.insert(0, str(PROJECT / "envs"))
    try:
        return importlib.import_module("make_envs")
    finally:
        sys.path.pop(0)


def project() -> dict:
    """Return pyproject.toml."""
    return tomllib.loads((PROJECT / "pyproject.toml").read_text())


# Conda environments that a plug-in names, and which it is where the plug-in names none.
OF_PLUGINS = {"loader_env": None, "format_env": "formats", "env(plan.source_env)": "corpus"}
LOCK = make_envs().locked_versions((PROJECT / "requirements.lock").read_text())
ENVIRONMENTS = sorted(path.stem for path in (PROJECT / "envs").glob("*.yaml"))


@cache
def pins(environment: str) -> dict[str, str]:
    """Return {canonical name: version} of an environment's pip packages."""
    dependencies = yaml.safe_load((PROJECT / "envs" / f"{environment}.yaml").read_text())["dependencies"]
    packages = next(entry["pip"] for entry in dependencies if isinstance(entry, dict))
    return {canonicalize_name(name): version for name, version in (package.split("==") for package in packages)}


# What is pinned


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_an_environment_pins_what_the_lock_pins(environment):
    lock = make_envs().versions_of(environment, LOCK)
    other = {name: version for name, version in pins(environment).items() if lock.get(name) != version}
    assert other == {}, "pins that differ from the lock: run `make lock`"


def test_the_environments_are_as_make_lock_writes_them():
    module = make_envs()
    assert sorted(module.ENVIRONMENTS) == ENVIRONMENTS
    for name in module.ENVIRONMENTS:
        if module.apart_lock(name).is_file() and not module.installed(name):
            continue  # what its packages need cannot be seen here
        written = (PROJECT / "envs" / f"{name}.yaml").read_text()
        assert written == module.environment(name, project(), LOCK), f"envs/{name}.yaml is stale: run `make lock`"


def test_every_direct_requirement_is_locked_at_its_version():
    module = make_envs()
    groups, apart = project()["dependency-groups"], project()["tool"]["feedrate"]["apart"]
    wanted = module.locked_versions(
        "\n".join(text for name in groups if name not in apart for text in module.group_requirements(groups, name))
    )
    assert {name: LOCK.get(name) for name in wanted} == wanted, "requirements.lock is stale: run `make lock`"


def test_what_is_installed_is_what_is_locked():
    installed = {canonicalize_name(found.metadata["Name"]): found.version for found in metadata.distributions()}
    other = {name: version for name, version in installed.items() if LOCK.get(name, version) != version}
    assert other == {}, "not the versions of the lock: run `pip install -r requirements.lock`"


def test_torch_and_its_companions_are_of_one_release():
    """torchaudio 2.N and torchcodec 0.N are built for torch 2.N."""
    for where, found in {"requirements.lock": LOCK, **{name: pins(name) for name in ENVIRONMENTS}}.items():
        releases = {
            package: found[package].removeprefix(prefix).split(".")[0]
            for package, prefix in TORCH.items()
            if package in found
        }
        assert len(set(releases.values())) <= 1, f"{where}: {releases}"


def test_nothing_names_an_index():
    """Where packages come from is the user's own setting of pip and conda."""
    places = re.compile(
        r"[a-z+]+://|--(extra-)?index-url|--find-links|--trusted-host|--no-index|(^|\s)-[if] |PIP_\w*(INDEX|LINKS|HOST)"
    )
    files = ["requirements.lock", "pyproject.toml", "Makefile", ".ci/run", "envs/system_packages.sh"]
    for path in [*(PROJECT / name for name in files), *sorted((PROJECT / "envs").glob("**/*.[yl]*"))]:
        lines = path.read_text().splitlines()
        if path.name in ("Makefile", "run", "system_packages.sh"):  # there -f and -i are options of other programs too
            lines = [re.sub(r"(^|\s)-[if] ", " ", line) for line in lines]
        assert [line for line in lines if places.search(line)] == [], f"in {path.relative_to(PROJECT)}"


# What the system needs

STANDS = {"id": "echo {user}", "apt-get": 'echo "$@" >> {log}; exit {status}', "env": 'shift; exec "$@"'}


@pytest.mark.parametrize(
    ("programs", "user", "status", "said", "asked"),
    [
        (["chromium", "pdftotext"], 0, 0, "", ""),
        (["google-chrome", "pdftotext"], 1000, 0, "", ""),
        (["chromium"], 0, 0, "Installing poppler-utils through apt", "--no-install-recommends poppler-utils"),
        (["pdftotext"], 0, 0, "Installing chromium through apt", "install -y -qq --no-install-recommends chromium"),
        ([], 0, 1, "note: tests that open the report", "update"),
        ([], 1000, 0, "apt-get install chromium poppler-utils", ""),
    ],
)
def test_a_browser_for_the_tests_is_installed_where_one_may_and_else_said_to_be_absent(
    tmp_path, programs, user, status, said, asked
):
    log = tmp_path / "asked"
    stands = {name: text.format(user=user, log=log, status=status) for name, text in STANDS.items()}
    for name, text in (stands | dict.fromkeys(programs, "exit 1")).items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    command = ["/bin/sh", PROJECT / "envs" / "test_browser.sh"]
    done = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout if said else done.stdout == ""
    assert (asked in log.read_text()) if asked else not log.exists()


# What is needed


@pytest.mark.parametrize("name", plugins.names("loaders"))
def test_a_loader_finds_what_it_requires_in_its_environment(name):
    loader = plugins.load("loaders", name)
    missing = {canonicalize_name(package) for package in loader.REQUIRES} - pins(loader.ENV).keys()
    assert missing == set(), f"not in envs/{loader.ENV}.yaml: name it in the group {loader.ENV!r} of pyproject.toml"


@cache
def imports(path: Path, everywhere: bool) -> frozenset[str]:
    """Return the dotted names that a file imports, if `everywhere` within functions too; without those for types."""
    found = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        for child in ast.iter_child_nodes(node):
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            typing_only = isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING")
            if not typing_only and (everywhere or not function):
                waiting.append(child)
    return frozenset(found)


def own_file(module: str) -> Path | None:
    """Return the project's file that `import module` reads, or None."""
    path = PROJECT.joinpath(*module.split(".")).with_suffix(".py")
    return path if path.is_file() else None


def third_party(files: dict[Path, bool]) -> dict[str, Path]:
    """Return {dotted name: the file that imports it} for the `files` (True: also within functions) and what they reach.

    A file that some other reaches within a function counts as a whole, since any of its functions may be called.
    """
    found: dict[str, Path] = {}
    seen: set[tuple[Path, bool]] = set()
    waiting = list(files.items())
    while waiting:
        path, everywhere = waiting.pop()
        if (path, everywhere) in seen:
            continue
        seen.add((path, everywhere))
        for module in imports(path, everywhere):
            top = module.split(".")[0]
            if own := own_file(module):
                waiting.append((own, everywhere))
            elif top not in sys.stdlib_module_names and top != "scripts":
                found.setdefault(module, path)
    return found


@cache
def distributions(module: str, environment: str) -> frozenset[str]:
    """Return the distributions that give `module`; of a name that several share, those that hold just that part."""
    with make_envs().seen_from(environment):
        owners = {canonicalize_name(name) for name in packages_of(environment).get(module.split(".")[0], [])}
        if len(owners) > 1 and "." in module:
            part = "/".join(module.split(".")[:2]) + "/"
            owners = {name for name in owners if any(str(file).startswith(part) for file in metadata.files(name) or ())}
    return frozenset(owners)


@cache
def packages_of(environment: str) -> dict[str, list[str]]:
    """Return {top-level name: distributions} of what is installed, with what lies apart for an environment."""
    with make_envs().seen_from(environment):
        return dict(metadata.packages_distributions())


def programs() -> list[tuple[str, str, str, str | None]]:
    """Return (rule, environment, program, plug-in or None) for all that any rule may run."""
    found = []
    for rule in rules():
        for program in rule.programs:
            stem = program.rpartition(".")[2]
            kind = PLUGINS_OF.get(stem)
            for plugin in plugins.names(kind) if kind else [None]:
                conda = rule.parts["conda"]
                name = re.fullmatch(r'env\("(\w+)"\)', conda)
                assert name or conda in OF_PLUGINS, f"{rule.name}: conda {conda}"
                environment = name[1] if name else getattr(plugins.load(kind, plugin), "ENV", OF_PLUGINS[conda])
                found.append((rule.name, environment, program, plugin))
    return found


@pytest.mark.parametrize(("rule", "environment", "program", "plugin"), programs())
def test_an_environment_holds_what_its_programs_import(rule, environment, program, plugin):
    if make_envs().apart_lock(environment).is_file() and not make_envs().installed(environment):
        pytest.skip(f"{environment} is not installed: type `make apart`")
    stem = program.rpartition(".")[2]
    files = {own_file(program): True}
    if plugin:
        files[PROJECT / "scripts" / PLUGINS_OF[stem] / f"{plugin}.py"] = True
    asked = {kind for path in reached(files) for kind in re.findall(r'plugins\.load\("(\w+)"', path.read_text())}
    for kind in asked - {PLUGINS_OF.get(stem)}:
        files |= {PROJECT / "scripts" / kind / f"{name}.py": False for name in plugins.names(kind)}
    missing = {
        f"{module} ({path.relative_to(PROJECT)})"
        for module, path in third_party(files).items()
        if not distributions(module, environment) & pins(environment).keys()
    }
    assert missing == set(), f"imported in rule {rule} and not in envs/{environment}.yaml"


def reached(files: dict[Path, bool]) -> set[Path]:
    """Return the project's files that `files` import, themselves among them."""
    found, waiting = set(), list(files)
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += [own for module in imports(path, True) if (own := own_file(module))]
    return found
