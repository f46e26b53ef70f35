"""Which code of feedrate made a number."""

import os
import subprocess
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
CODE = ("scripts", "workflow", "envs", "pyproject.toml", "requirements.lock")  # beside the config, all that a run does


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
