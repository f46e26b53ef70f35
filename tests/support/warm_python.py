"""An interpreter that has imported torch, of which programs are forks: as they would be by themselves, 2 s sooner each.

It knows nothing of feedrate: nothing of that is on a program's path, or in its modules.

    python tests/support/warm_python.py < JSON objects, a line each
"""

import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

PATIENCE = 120  # seconds that a program may take
KEPT = {}  # what a program has at its end lives as long as the interpreter does


class WarmPython:
    """The interpreter as its tests use it; ends with the context."""

    def __enter__(self) -> "WarmPython":
        alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._server = subprocess.Popen(
            [sys.executable, Path(__file__)], env=alone, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._server.communicate()

    def run(self, program: Path, *arguments: str | Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess:
        """Run a program in its folder; return how it ended and what it wrote."""
        written = {name: program.with_suffix(f".{name}") for name in ("stdout", "stderr")}
        job = {"program": str(program), "arguments": [*map(str, arguments)], "environment": dict(environment)}
        print(
            json.dumps(job | {name: str(path) for name, path in written.items()}), file=self._server.stdin, flush=True
        )
        status = int(self._server.stdout.readline())
        said = {name: path.read_text(encoding="utf-8", errors="replace") for name, path in written.items()}
        return subprocess.CompletedProcess([program, *arguments], status, **said)


def main() -> None:
    """Fork for each line of stdin, and say how the fork ended; a fork runs its program and ends as it does."""
    import torch.utils.data  # noqa: F401

    for line in sys.stdin:
        job, number = json.loads(line), os.fork()
        if number == 0:
            be(job)
            return
        print(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]), flush=True)


def be(job: Mapping) -> None:
    """Be the program."""
    os.setsid()
    signal.alarm(PATIENCE)
    for name, number in (("stdout", 1), ("stderr", 2)):
        os.dup2(os.open(job[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(Path(job["program"]).parent)
    sys.argv = [job["program"], *job["arguments"]]
    sys.path[0] = str(Path(job["program"]).parent)
    KEPT.update(runpy.run_path(job["program"], run_name="__main__"))


if __name__ == "__main__":
    main()
