"""The same small model goes through torch.compile before it is trained in the bare loop.

A faster model needs a faster loader. Each shape of a batch is compiled when it first comes, before epochs are timed.
"""

import os
import shutil
import sysconfig
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config

from scripts.common.request import LoaderRequest
from scripts.measure import training
from scripts.measure.protocol import Times


def unsuited(request: LoaderRequest) -> str | None:
    """Return what torch.compile lacks on this machine, or None.

    It writes C++ for a CPU, and for a GPU Triton's kernels, whose launchers are C: both want Python's headers.
    """
    language, variable, known = ("C++", "CXX", ("g++",)) if request.device == "cpu" else ("C", "CC", ("gcc", "clang"))
    compilers = [os.environ[variable]] if variable in os.environ else known
    if not any(map(shutil.which, compilers)):
        missing = " or ".join(compilers)
        return f"torch.compile needs a {language} compiler, and {missing} is not there: apt-get install {known[0]}"
    headers = Path(sysconfig.get_paths()["include"])
    if not (headers / "Python.h").is_file():
        return f"torch.compile needs Python's headers, and {headers} has none: apt-get install python3-dev"
    return None


def times(run: Any) -> Times:
    """Return the times of a training; what came of it is noted in the run's record."""
    return run.trained(run_compiled)


def run_compiled(opened: Any, verifier: Any, task: training.Task) -> Any:
    """Train as `training.run_bare`, whose arguments these are."""
    return training.run_bare(opened, verifier, replace(task, make=compiled))


def compiled(inputs: int, seed: int) -> Any:
    """Return the autoencoder, compiled when it is first called; the compiler starts no processes of its own."""
    torch._inductor.config.compile_threads = 1
    return torch.compile(training.autoencoder(inputs, seed))
