"""Runs a test in a fork of this process: for a library that a process can only use if it never forks afterwards."""

import os
import pickle
import traceback
from collections.abc import Callable

import pytest
import torch


def in_a_fork(test: Callable[[], object]) -> None:
    """Run `test` in a child process, and fail or skip as it does there."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        torch.set_num_threads(1)  # OpenMP's threads are not in the child
        _write(writing, _outcome(test))
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        said = file.read()
    _, status = os.waitpid(child, 0)
    kind, text = pickle.loads(said) if said else ("failed", f"the child ended with status {status}")
    if kind == "skipped":
        pytest.skip(text)
    if kind == "failed":
        pytest.fail(text, pytrace=False)


def _outcome(test: Callable[[], object]) -> tuple[str, str]:
    try:
        test()
    except pytest.skip.Exception as reason:
        return "skipped", str(reason)
    except BaseException:
        return "failed", traceback.format_exc()
    return "passed", ""


def _write(pipe: int, outcome: tuple[str, str]) -> None:
    with open(pipe, "wb") as file:
        pickle.dump(outcome, file)
