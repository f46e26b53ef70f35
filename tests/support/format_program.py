"""Runs write_format.py as a user would, and asks it for its peak memory: for the tests and the benchmark."""

import subprocess
import sys
from pathlib import Path

from scripts.common.corpus import Corpus
from tests.support.programs import PROJECT, program_line

MEASURED = """
import runpy, sys
sys.path.insert(0, {folder!r})
_, module, *sys.argv[1:] = {arguments!r}
runpy.run_module(module, run_name="__main__", alter_sys=True)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def command(name: str, corpus: Corpus, folder: Path) -> list[str]:
    """Return the command line that writes format `name` to `folder`/out, with its record in `folder`/out.json."""
    options = ["--format", name, "--corpus", corpus.root, "--readers", "2"]
    places = ["--out", folder / "out", "--record", folder / "out.json"]
    return [str(part) for part in (*program_line("write_format"), *options, *places)]


def peak_bytes(name: str, corpus: Corpus, folder: Path) -> int:
    """Run the program and return the most memory that it had resident at once, mapped files included.

    Read from the kernel's VmHWM, which starts at zero with the program; what `getrusage` tells of a child may still be
    its parent's.
    """
    code = MEASURED.format(folder=str(PROJECT), arguments=command(name, corpus, folder)[1:])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1]) * 1024
