"""Installs what clashes with the main environment: each lock in envs/apart into a folder of its own.

Run it with the python of the environment. What is there as its lock says is left alone. A library that cannot be
installed here is named with the reason, and stops nothing: its loader is a row "not installed".
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from shutil import rmtree

ENVS = Path(__file__).resolve().parent
NOTE = "installed.lock"  # in the folder: the lock that it was made from


def folder(name: str) -> Path:
    """Return where the packages of an environment of its own are (`scripts/common/isolated.py` looks there)."""
    return Path(sys.prefix) / "apart" / name


def installed(name: str) -> bool:
    """Return whether the folder of an environment holds what its lock says."""
    note = folder(name) / NOTE
    return note.is_file() and note.read_bytes() == (ENVS / "apart" / f"{name}.lock").read_bytes()


def install(name: str, imported: str) -> str | None:
    """Install the lock of an environment into its folder, whole or not at all; return why it failed, or None.

    It has failed too where the module `imported` cannot be imported from there.
    """
    lock = ENVS / "apart" / f"{name}.lock"
    aside = folder(name).with_name(f".{name}.partial")
    rmtree(aside, ignore_errors=True)
    rmtree(folder(name), ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-build-isolation", "--no-compile", "--target", aside, "-r", lock]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        rmtree(aside, ignore_errors=True)
        lines = [line.strip() for line in done.stderr.splitlines()]
        said = [line for line in lines if "Error: " in line or line.startswith("ERROR: ")]
        return (said or lines or [f"pip ended with status {done.returncode}"])[0]
    tried = [sys.executable, "-c", f"import {imported}"]
    done = subprocess.run(tried, env={**os.environ, "PYTHONPATH": str(aside)}, capture_output=True, text=True)
    if done.returncode:
        rmtree(aside, ignore_errors=True)
        return f"`import {imported}` failed: {done.stderr.strip().splitlines()[-1]}"
    (aside / NOTE).write_bytes(lock.read_bytes())
    aside.rename(folder(name))
    return None


def main() -> None:
    """Install each lock that is not installed yet."""
    about = tomllib.loads((ENVS.parent / "pyproject.toml").read_text())["tool"]["feedrate"]
    for lock in sorted((ENVS / "apart").glob("*.lock")):
        if installed(lock.stem):
            continue
        print(f"Installing {lock.stem} apart from the other packages ...", flush=True)
        if reason := install(lock.stem, about["apart"][lock.stem]):
            needs = (
                f" It needs of the system: apt-get install {' '.join(about['system'][lock.stem])}"
                if lock.stem in about["system"]
                else ""
            )
            print(
                f"warning: {lock.stem} is not installed: {reason}{needs}\nAll else works; its loader will be a row "
                "with that reason. Mend it and type `make apart`.",
                file=sys.stderr,
            )


if __name__ == "__main__":
    main()
