"""Installs what clashes with the main environment: each lock in envs/isolated into a folder of its own.

Run it with the python of the environment, as `python -m envs.install_isolated`. What is there as its lock says stays as
it is. A library that cannot be installed here is named with the reason, and stops nothing: its loader is a row "not
installed".
"""

import os
import subprocess
import sys
import tomllib
from shutil import rmtree

from scripts.common.files import PROJECT
from scripts.common.isolated import folder, lock

NOTE = "installed.lock"  # in the folder: the lock that it was made from


def installed(name: str) -> bool:
    """Return whether the folder of an environment holds what its lock says."""
    note = folder(name) / NOTE
    return note.is_file() and note.read_bytes() == lock(name).read_bytes()


def install(name: str, imported: str) -> str | None:
    """Install the lock of an environment into its folder, whole or not at all; return why it failed, or None.

    It has failed too where the module `imported` cannot be imported from there.
    """
    aside = folder(name).with_name(f".{name}.partial")
    rmtree(aside, ignore_errors=True)
    rmtree(folder(name), ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-build-isolation", "--no-compile", "--target", aside, "-r", lock(name)]
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
    (aside / NOTE).write_bytes(lock(name).read_bytes())
    aside.rename(folder(name))
    return None


def main() -> None:
    """Install each lock that is not installed yet."""
    about = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["feedrate"]
    for name, imported in sorted(about["isolated"].items()):
        if installed(name):
            continue
        print(f"Installing {name} into an isolated environment ...", flush=True)
        if reason := install(name, imported):
            system = about["system"].get(name)
            needs = f" It needs of the system: apt-get install {' '.join(system)}" if system else ""
            print(
                f"warning: {name} is not installed: {reason}{needs}\nAll else works; its loader will be a row "
                "with that reason. Fix it and type `make isolated`.",
                file=sys.stderr,
            )


if __name__ == "__main__":
    main()
