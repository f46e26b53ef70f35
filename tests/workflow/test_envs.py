"""The environments: what the lock pins, what each holds, and what the programs that run in it import."""

import ast
import re
import subprocess
import sys
import sysconfig
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.utils import canonicalize_name

from envs import make_envs
from envs.install_isolated import installed
from scripts.common import isolated, plugins
from tests.support.imports import reached_files
from tests.support.programs import PROJECT
from tests.support.workflow_rules import PLUGINS_OF, rules

OF_PLUGINS = ("loader_env", "format_env", 'env(plan.source["env"])')  # a rule's environment that a plug-in names


def project() -> dict:
    """Return pyproject.toml."""
    return tomllib.loads((PROJECT / "pyproject.toml").read_text())


LOCK = make_envs.locked_versions((PROJECT / "requirements.lock").read_text())
ENVIRONMENTS = sorted(path.stem for path in (PROJECT / "envs").glob("*.yaml"))
ISOLATED = project()["tool"]["feedrate"]["isolated"]


@cache
def pins(environment: str) -> dict[str, str]:
    """Return {canonical name: version} of an environment's pip packages."""
    dependencies = yaml.safe_load((PROJECT / "envs" / f"{environment}.yaml").read_text())["dependencies"]
    packages = next(entry["pip"] for entry in dependencies if isinstance(entry, dict))
    return {canonicalize_name(name): version for name, version in (package.split("==") for package in packages)}


# What is pinned


def test_the_environments_are_as_make_lock_writes_them():
    assert sorted([*make_envs.COMMON, *ISOLATED]) == ENVIRONMENTS
    for name in ENVIRONMENTS:
        if name in ISOLATED and not installed(name):
            continue  # what its packages need cannot be seen here
        written = (PROJECT / "envs" / f"{name}.yaml").read_text()
        assert written == make_envs.environment(name, project(), LOCK), f"envs/{name}.yaml is stale: run `make lock`"


def test_every_direct_requirement_is_locked_at_its_version():
    groups = project()["dependency-groups"]
    wanted = make_envs.locked_versions(
        "\n".join(
            text for name in groups if name not in ISOLATED for text in make_envs.group_requirements(groups, name)
        )
    )
    assert {name: LOCK.get(name) for name in wanted} == wanted, "requirements.lock is stale: run `make lock`"


def test_what_is_installed_is_what_is_locked():
    site = [sysconfig.get_path("purelib")]  # what another test has imported may have put its own copies on the path
    found = metadata.distributions(path=site)
    installed = {canonicalize_name(one.metadata["Name"]): one.version for one in found}
    assert {"torch", "snakemake"} <= installed.keys()
    other = {name: version for name, version in installed.items() if LOCK.get(name, version) != version}
    assert other == {}, "not the versions of the lock: run `pip install -r requirements.lock`"


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
            own = "--no-index --find-links $(WHEELS)"  # a folder that the user names, where there is no registry
            lines = [line.replace(own, "") for line in lines]
        assert [line for line in lines if places.search(line)] == [], f"in {path.relative_to(PROJECT)}"


# What is needed


@cache
def third_party(path: Path) -> frozenset[str]:
    """Return the dotted names that a file imports, inside functions too, of neither Python nor the project."""
    found = set()
    waiting: list[ast.AST] = [ast.parse(path.read_bytes())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif not (isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")):
            waiting += ast.iter_child_nodes(node)
    return frozenset(name for name in found if name.split(".")[0] not in {*sys.stdlib_module_names, "scripts"})


@cache
def distributions(module: str, environment: str) -> frozenset[str]:
    """Return the distributions that give `module`; of a name that several share, those that hold just that part."""
    with make_envs.seen_from(environment):
        owners = {canonicalize_name(name) for name in packages_of(environment).get(module.split(".")[0], [])}
        if len(owners) > 1 and "." in module:
            part = "/".join(module.split(".")[:2]) + "/"
            owners = {name for name in owners if any(str(file).startswith(part) for file in metadata.files(name) or ())}
    return frozenset(owners)


@cache
def packages_of(environment: str) -> dict[str, list[str]]:
    """Return {top-level name: distributions} of what is installed, with what an isolated environment has."""
    with make_envs.seen_from(environment):
        return dict(metadata.packages_distributions())


def programs() -> list[tuple[str, str, str, str | None]]:
    """Return (rule, environment, program, plug-in's module or None) for all that any rule may run."""
    found = []
    for rule in rules():
        for program in rule.programs:
            kind = PLUGINS_OF.get(program.rpartition(".")[2])
            for plugin in plugins.names(kind) if kind else [None]:
                conda = rule.parts["conda"]
                name = re.fullmatch(r'env\("(\w+)"\)', conda)
                assert name or conda in OF_PLUGINS, f"{rule.name}: conda {conda}"
                environment = name[1] if name else isolated.env_of(plugins.load(kind, plugin))
                found.append((rule.name, environment, program, plugin and f"scripts.{kind}.{plugin}"))
    return found


@pytest.mark.parametrize(("rule", "environment", "program", "plugin"), programs())
def test_an_environment_holds_what_its_programs_import(rule, environment, program, plugin):
    if environment in ISOLATED and not installed(environment):
        pytest.skip(f"{environment} is not installed: type `make isolated`")
    missing = {
        f"{module} ({path.relative_to(PROJECT)})"
        for path in reached_files(program, *([plugin] if plugin else []))
        for module in third_party(path)
        if not distributions(module, environment) & pins(environment).keys()
    }
    assert missing == set(), f"imported in rule {rule} and not in envs/{environment}.yaml"


def test_a_plugin_is_loaded_with_what_every_environment_has():
    """The plan, and programs in any environment, ask plug-ins what they are: heavy imports are inside functions."""
    text = (
        "import sys; from scripts.common import plugins; before = set(sys.modules); "
        "[plugins.load(kind, name) for kind in plugins.KINDS for name in plugins.names(kind)]; "
        "print(*{name.split('.')[0] for name in set(sys.modules) - before})"
    )
    done = subprocess.run([sys.executable, "-c", text], cwd=PROJECT, capture_output=True, text=True, check=True)
    everywhere = set.intersection(*(set(pins(name)) for name in ENVIRONMENTS))
    loaded = set(done.stdout.split()) - sys.stdlib_module_names - {"scripts", "__mp_main__"}
    assert {name for name in loaded if not distributions(name, "report") & everywhere} == set()
