"""Which version of the code made a result: numbers that people raise, the hash of a user's own file, and the commit.

Snakemake runs a stage again when its version changes (`params: version=...` in workflow/rules). What a stage writes
changes with its VERSION: whoever changes what a program or a plug-in writes raises the number in that file. Nothing
else makes data again: no word, no comment, no other Python. tests/formats/test_golden.py keeps the numbers honest.
"""

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from scripts.common.files import PROJECT

CODE = ("scripts", "workflow", "envs", "pyproject.toml", "requirements.lock")  # beside the config, all that a run does


def stage_version(program: str, *plugins: ModuleType) -> str:
    """Return the VERSION of a program, such as "prepare.write_format", and of its plug-ins, joined: ``1.1.2``.

    The program's is read from its text: it imports libraries that the plan may not have.
    """
    path = PROJECT.joinpath("scripts", *program.split(".")).with_suffix(".py")
    (own,) = re.findall(r"(?m)^VERSION = (\d+)$", path.read_text(encoding="utf-8"))
    return ".".join(map(str, [own, *(plugin.VERSION for plugin in plugins)]))


def loader_version(loader: ModuleType) -> str:
    """Return the VERSION of a loader; of a user's own file the hash of it and of what it imports beside it."""
    if hasattr(loader, "OWN_FILE"):
        return hash_of([loader.OWN_FILE, *loader.LOCAL_IMPORTS])
    return str(getattr(loader, "VERSION", 1))


def hash_of(files: Iterable[Path | str]) -> str:
    """Return 16 hexadecimal digits that change when a byte of one of the files does."""
    total = hashlib.sha256()
    for file in files:
        total.update(hashlib.sha256(Path(file).read_bytes()).digest())
    return total.hexdigest()[:16]


def commit(project: Path = PROJECT) -> str | None:
    """Return the first 12 digits of the commit that is checked out, and ``-dirty`` where code was changed since.

    None where that cannot be said: the folder is no git repository of its own, or there is no git.
    """
    if not (project / ".git").exists():  # a repository around the folder would answer instead
        return None
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    git = ["git", "-C", str(project), "--no-optional-locks"]
    try:
        found, changed = (
            subprocess.run(
                [*git, *words], env=environment, capture_output=True, text=True, check=True, timeout=10
            ).stdout.strip()
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--", *CODE])
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found[:12] + ("-dirty" if changed else "")
