"""Which environment a plug-in runs in, and how a program enters an isolated one where there is no conda.

A library whose requirements clash with `requirements.lock` has a lock of its own, `envs/isolated/NAME.lock`: what it
adds, and what it needs in another version. `make` installs it into `isolated/NAME` below the main environment's folder
(`envs/install_isolated.py`). A process that runs a plug-in with `ENV = "NAME"` is started with that folder first on the
path (`measure/launch.py`), or starts itself again so: its versions are found before the main ones, by `import` and by
`importlib.metadata` alike, in this process and in all that it starts. With conda there is no such folder:
`envs/NAME.yaml` is complete.
"""

import os
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType

from scripts.common.files import PROJECT

VARIABLE = "PYTHONPATH"
DEFAULT = "loaders"  # the environment of every plug-in that names none


def env_of(plugin: ModuleType) -> str:
    """Return the name of the environment that a plug-in runs in."""
    return getattr(plugin, "ENV", DEFAULT)


def lock(env: str) -> Path:
    """Return the path of an environment's own lock, which only isolated ones have."""
    return PROJECT / "envs" / "isolated" / f"{env}.lock"


def folder(env: str) -> Path:
    """Return the folder for the packages of an isolated environment, whether or not they are installed."""
    return Path(sys.prefix) / "isolated" / env


def search_path(env: str, before: str = "") -> str:
    """Return the PYTHONPATH `before` with the folder of `env` in front of it."""
    return os.pathsep.join([str(folder(env)), *([before] if before else [])])


def environment(env: str) -> dict[str, str]:
    """Return what a process of `env` has in its environment beside that of this one; nothing where no folder is."""
    before = os.environ.get(VARIABLE, "")
    entered = not folder(env).is_dir() or before.split(os.pathsep)[0] == str(folder(env))
    return {} if entered else {VARIABLE: search_path(env, before)}


def enter(env: str) -> None:
    """Start this program again with the packages of `env` first on its path, once; return where there are none.

    The process keeps its number, so that whoever started it can wait for it and stop it as before. Call it before
    anything heavy is imported.
    """
    if more := environment(env):
        sys.stdout.flush()
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **more})


def version_of(distribution: str, env: str) -> str | None:
    """Return the version that a process of `env` imports; None where it is absent."""
    found = metadata.distributions(name=distribution, path=[str(folder(env)), *sys.path])
    return next((one.version for one in found), None)
