"""Progress of a long step: a bar on a terminal, and now and then a line in a log."""

import sys
from collections.abc import Iterable
from typing import Any, TextIO

from tqdm import tqdm

LINE_SECONDS = 10.0


class _Lines:
    """A text file that turns a bar's redrawing in place into lines."""

    def __init__(self, file: TextIO) -> None:
        self.file = file

    def write(self, text: str) -> None:
        text = text.replace("\r", "").rstrip()
        if text:
            self.file.write(text + "\n")

    def flush(self) -> None:
        self.file.flush()


def progress_bar(items: Iterable[Any] | None = None, *, total: int | None, name: str, unit: str) -> tqdm:
    """Return a tqdm bar over items, on stderr: redrawn in place on a terminal, a line every 10 s elsewhere.

    What takes less says nothing there.
    """
    if sys.stderr.isatty():
        return tqdm(items, total=total, desc=name, unit=unit)
    every = {"mininterval": LINE_SECONDS, "delay": LINE_SECONDS}
    return tqdm(items, total=total, desc=name, unit=unit, file=_Lines(sys.stderr), ascii=True, ncols=120, **every)
