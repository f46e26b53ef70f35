"""Git repositories as tests need them."""

import subprocess
from pathlib import Path


def git(folder: Path, *words: str) -> str:
    """Return what git says, called in `folder` as somebody whom no config of this machine knows."""
    person = ["-c", "user.name=Nobody", "-c", "user.email=nobody@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *person, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def committed(folder: Path) -> str:
    """Make `folder` a repository in which all its files are committed, and return the commit."""
    git(folder, "init")
    git(folder, "add", "--all")
    git(folder, "commit", "--message", "As it is")
    return git(folder, "rev-parse", "HEAD")
