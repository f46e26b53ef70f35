"""An interpreter that has imported a slow library, of which programs are forks: as by themselves, only sooner.

It knows nothing of feedrate: nothing of that is on a program's path, or in its modules.

    python tests/support/warm_python.py torch.utils.data < JSON objects, a line each
"""

import gc
import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

KEPT = {}  # what a program has at its end lives as long as the interpreter does


class WarmPython:
    """The interpreter as its tests use it; ends with the context."""

    def __init__(self, imported: str = "torch.utils.data", path: str = "", patience: int = 120) -> None:
        """Import this module, or several with commas between, with `path` as PYTHONPATH.

        A program is killed after `patience` seconds.
        """
        self._imported, self._path, self._patience = imported, path, patience

    def __enter__(self) -> "WarmPython":
        alone = {**os.environ, "PYTHONPATH": self._path}
        program = [sys.executable, Path(__file__), self._imported]
        self._server = subprocess.Popen(program, env=alone, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.communicate()

    def run(self, program: Path, *arguments: str | Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess:
        """Run a program in its folder; return how it ended and what it wrote."""
        written = {name: program.with_suffix(f".{name}") for name in ("stdout", "stderr")}
        path = [str(program.parent)]  # and what the interpreter has
        job = {"program": str(program), "folder": str(program.parent), "path": path}
        status = self._ended(job, arguments, environment, written)
        said = {name: path.read_text(encoding="utf-8", errors="replace") for name, path in written.items()}
        return subprocess.CompletedProcess([program, *arguments], status, **said)

    def run_module(
        self, module: str, folder: Path, *arguments: str, environment: Mapping[str, str], written: Path
    ) -> int:
        """Run `python -m module` in a folder; return how it ended. What it says goes to the file `written`."""
        path = [str(folder), *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
        job = {"module": module, "folder": str(folder), "path": path}
        return self._ended(job, arguments, environment, {"stdout": written, "stderr": written})

    def _ended(
        self,
        job: Mapping[str, Any],
        arguments: tuple[str | Path, ...],
        environment: Mapping[str, str],
        written: Mapping[str, Path],
    ) -> int:
        for path in written.values():
            path.unlink(missing_ok=True)
        asked = {"arguments": [*map(str, arguments)], "environment": dict(environment), "patience": self._patience}
        files = {name: str(path) for name, path in written.items()}
        print(json.dumps({**job, **asked, **files}), file=self._server.stdin, flush=True)
        number = int(self._server.stdout.readline())
        try:
            return int(self._server.stdout.readline())
        except BaseException:  # the test is interrupted
            os.killpg(number, signal.SIGINT)
            raise


def main() -> None:
    """Fork for each line of stdin, say its process and then how that ended; a fork ends as its program does."""
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # for what a library says as it is imported
    for module in sys.argv[1].split(","):
        import_module(module)
    gc.collect()
    gc.freeze()  # a collection in a fork would copy all of it
    for line in sys.stdin:
        job, number = json.loads(line), os.fork()
        if number == 0:
            be(job)
            return
        print(number, file=said, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]), file=said, flush=True)


def be(job: Mapping[str, Any]) -> None:
    """Be the program."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which what is started in the background would ignore
    signal.alarm(job["patience"])
    for name, number in (("stdout", 1), ("stderr", 2)):
        os.dup2(os.open(job[name], os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["folder"])
    sys.path[:1] = job["path"]
    if "module" in job:
        sys.argv[1:] = job["arguments"]
        KEPT.update(runpy.run_module(job["module"], run_name="__main__", alter_sys=True))
    else:
        sys.argv = [job["program"], *job["arguments"]]
        KEPT.update(runpy.run_path(job["program"], run_name="__main__"))


if __name__ == "__main__":
    main()
