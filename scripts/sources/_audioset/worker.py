"""A process of its own for what may hang or crash: it is ended where it takes too long, and another takes its place."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from scripts.machine.server_process import end_with

START_SECONDS = 120.0  # until a new process is ready, however short the limit of a request is
_answer: Callable[..., Any]  # of the process: what answers requests


class Died(Exception):
    """The process ended without an answer."""


class Worker:
    """Has `make(*arguments)` in another process, and calls there what it returned, with each request."""

    def __init__(self, make: Callable[..., Callable[..., Any]], *arguments: Any) -> None:
        self._made_by = make, arguments
        self._pool: ProcessPoolExecutor | None = None
        self.process = 0  # its number

    def ask(self, seconds: float, *request: Any) -> Any:
        """Return the answer to `request`. Raises TimeoutError after `seconds` and Died; the process is then gone."""
        self.start()
        return self._call(seconds, _asked, *request)

    def start(self) -> None:
        """Start the process where there is none, and wait until it is ready. Raises as `ask` does, and as `make`."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin, (os.getpid(),))
            self.process = self._call(START_SECONDS, os.getpid)
            self._call(START_SECONDS, _make, *self._made_by)

    def _call(self, seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return self._pool.submit(function, *arguments).result(seconds)
        except BrokenProcessPool as broken:
            self.close()
            raise Died from broken
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the process."""
        if self._pool is not None:
            for child in multiprocessing.active_children():
                if child.pid == self.process:
                    child.kill()
            self._pool.shutdown()
            self._pool = None


def _begin(parent: int) -> None:
    """End with the parent, even if it is killed; Ctrl-C is the parent's to see."""
    end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _make(make: Callable[..., Callable[..., Any]], arguments: tuple[Any, ...]) -> None:
    global _answer
    _answer = make(*arguments)


def _asked(*request: Any) -> Any:
    return _answer(*request)
