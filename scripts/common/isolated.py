"""Environments of their own, without conda: what a library needs beside, or in place of, the main packages.

A library whose requirements clash with `requirements.lock` has a lock of its own, `envs/apart/NAME.lock`: what it adds,
and what it needs in another version. `make` installs it into `apart/NAME` below the main environment's folder
(`envs/install_apart.py`). A program that runs a plug-in with `ENV = "NAME"` starts itself again with that folder first
on the path, so that its versions are found before the main ones, by `import` and by `importlib.metadata` alike, in this
process and in all that it starts. With conda there is no such folder: `envs/NAME.yaml` is complete.
"""

import os
import sys
from pathlib import Path

VARIABLE = "PYTHONPATH"


def folder(env: str) -> Path:
    """Return where the packages of an environment of its own lie, whether or not there is one."""
    return Path(sys.prefix) / "apart" / env


def search_path(env: str, before: str = "") -> str:
    """Return the PYTHONPATH `before` with the folder of `env` in front of it."""
    return os.pathsep.join([str(folder(env)), *([before] if before else [])])


def enter(env: str) -> None:
    """Start this program again with the packages of `env` first on its path, once; return where there are none.

    The process keeps its number, so that whoever started it can wait for it and stop it as before. Call it before
    anything heavy is imported.
    """
    before = os.environ.get(VARIABLE, "")
    if folder(env).is_dir() and before.split(os.pathsep)[0] != str(folder(env)):
        sys.stdout.flush()
        os.execve(sys.executable, sys.orig_argv, {**os.environ, VARIABLE: search_path(env, before)})
