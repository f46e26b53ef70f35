"""What the loader tests share: a corpus written in every format, requests for it, and a look at what is left open."""

import gc
import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import psutil

from scripts.common import plugins
from scripts.common.corpus import Corpus
from scripts.common.request import LoaderRequest
from scripts.machine.folders import location_of

BATCH_SIZE = 8
PATIENCE = 10
SHARED = multiprocessing.Value("i", 0)


def write_format(corpus: Corpus, name: str, folder: Path, readers: int) -> None:
    """Write both splits of a corpus in one format below `folder`."""
    for split, clips in corpus.counts.items():
        (folder / split).mkdir(parents=True)
        if clips:
            plugins.load("formats", name).write(corpus, split, folder / split, readers, lambda count: None)  # noqa: ARG005


def request_for(corpus: Corpus, loader: str, folder: Path, split: str = "train", **changes: Any) -> LoaderRequest:
    """Return a request for one split of the placed format in `folder`, with the loader's own settings at default."""
    options = {name: part["default"] for name, part in getattr(plugins.load("loaders", loader), "OPTIONS", {}).items()}
    arguments = {
        "location": location_of(folder / split),
        "clips": corpus.counts[split],
        "sample": corpus.sample,
        "classes": corpus.classes,
        "batch_size": BATCH_SIZE,
        "options": options | changes.pop("options", {}),
    }
    return LoaderRequest(**{**arguments, **changes})


def clip_order(epoch: Any, number: int) -> list[list[int]]:
    """Return the clip indices of each batch of one epoch."""
    return [batch["clip"].tolist() for batch in epoch(number)]


@contextmanager
def nothing_left_open() -> Iterator[None]:
    """Fail if the block leaves a child process or a file descriptor that was not there before.

    Python's own resource tracker and shared heap, one each a process and there until it ends, are started beforehand.
    A queue's thread that is to close a pipe may do so a moment later on a busy machine: it has `PATIENCE` seconds.
    """
    resource_tracker.ensure_running()
    assert SHARED.value == 0
    gc.collect()
    before, processes = _descriptors(), set(psutil.Process().children(recursive=True))
    yield
    until = time.monotonic() + PATIENCE
    while left := _left(before, processes):
        assert time.monotonic() < until, f"left open: {left}"
        time.sleep(0.05)


def _left(descriptors: dict[str, str], processes: set[psutil.Process]) -> list[str]:
    """Return what there is besides these file descriptors and child processes."""
    gc.collect()
    children = set(psutil.Process().children(recursive=True)) - processes
    found = {number: target for number, target in _descriptors().items() if descriptors.get(number) != target}
    return [*map(str, children), *map(str, found.items())]


def _descriptors() -> dict[str, str]:
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue  # the listing's own descriptor
    return found
