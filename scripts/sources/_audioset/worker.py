"""A process of its own for what may hang or crash: it is ended where it takes too long, and another takes its place."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any, NoReturn

START_SECONDS = 120.0  # until a new process is ready, however short the limit of a request is


class Died(Exception):
    """The process ended without an answer; its status is the text."""


class Worker:
    """Runs `serve(connection, *arguments)` in another process, which answers each request with one object."""

    def __init__(self, serve: Callable[..., None], *arguments: Any) -> None:
        self._serve = serve
        self._arguments = arguments
        self._process: Any = None
        self._connection: Connection | None = None

    def ask(self, seconds: float, *request: Any) -> Any:
        """Return the answer to `request`. Raises TimeoutError after `seconds` and Died; the process is then gone."""
        self.start()
        try:
            self._connection.send(request)
        except ConnectionError:  # it ended while nobody asked
            self._end()
        return self._receive(seconds)

    def _receive(self, seconds: float) -> Any:
        if not self._connection.poll(seconds):
            self.close()
            raise TimeoutError
        try:
            answer = self._connection.recv()
        except (EOFError, ConnectionError):
            self._end()
        if isinstance(answer, BaseException):
            self.close()
            raise answer
        return answer

    def _end(self) -> NoReturn:
        """Raise Died for the process that has ended."""
        self._process.join(5)
        status = self._process.exitcode
        self.close()
        raise Died(f"status {status}") from None

    def start(self) -> None:
        """Start the process where there is none, and wait until it is ready. Raises as `ask` does."""
        if self._process is None:
            self._start()
            self._receive(START_SECONDS)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_run, args=(theirs, self._serve, self._arguments), daemon=True)
        self._process.start()
        theirs.close()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._connection.close()
            self._process.kill()
            self._process.join()
            self._process = None


def _run(connection: Connection, serve: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Serve until the connection closes or the parent is gone, even if it was killed; Ctrl-C is the parent's to see."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        serve(connection, *arguments)
    except Exception as error:  # handed to the parent, whose it is to tell
        connection.send(error)
