"""Runs the programs that a report hands out, alone, on data in their format: for their tests and their benchmark."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from scripts.common import isolated, plugins
from scripts.common.corpus import Corpus
from tests.support.format_program import command as format_command
from tests.support.isolated_cases import is_isolated
from tests.support.loader_cases import write_format
from tests.support.programs import PROJECT
from tests.support.warm_python import WarmPython

READERS = 2


def data_of(corpus: Corpus, placed: Path, loader: str) -> Path:
    """Return the split's folder below `placed`, its format written if this loader is the first to ask for it."""
    name = plugins.load("loaders", loader).FORMAT
    folder = placed / name
    if not folder.exists():
        folder.mkdir(parents=True)
        if is_isolated(plugins.load("formats", name)):  # its library is in no process but its own
            subprocess.run(format_command(name, corpus, folder), check=True, capture_output=True)
        else:
            write_format(corpus, name, folder / "out", READERS)
    return folder / "out" / "train"


def run_program(
    text: str,
    env: str,
    folder: Path,
    *arguments: str | Path,
    environment: Mapping[str, str] = os.environ,
    warm: Callable[[str], WarmPython] | None = None,
) -> subprocess.CompletedProcess:
    """Run a program in `folder`, without feedrate on its path, in the environment `env` of its library.

    By an interpreter of its own; with `warm` by a fork of what that has for an environment.
    """
    program = folder / "program.py"
    program.write_text(text, encoding="utf-8")
    ring = PROJECT / "scripts" / "loaders" / "_ring" / "ring_reader.py"
    shutil.copy(ring, folder)  # which stands alone, to be copied
    own = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
    if isolated.folder(env).is_dir():
        own["PYTHONPATH"] = isolated.search_path(env)
    if warm:
        return warm(env).run(program, *arguments, environment=own)
    return subprocess.run(
        [sys.executable, program, *arguments], cwd=folder, env=own, capture_output=True, text=True, timeout=300
    )
