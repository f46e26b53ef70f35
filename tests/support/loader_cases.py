"""What the loader tests share: a corpus written in every format, requests for it, and a look at what is left open."""

import gc
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.sharedctypes import RawValue
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil

from scripts.common import isolated, plugins
from scripts.common.corpus import Corpus
from scripts.common.location import PATH, Location
from scripts.common.request import LoaderRequest
from scripts.machine.folders import location_of
from tests.support.object_stores import ObjectStore

BATCH_SIZE = 8
PATIENCE = 10
RANDOM = "/dev/urandom"  # a native library opens it once in a process, and keeps it


def write_format(corpus: Corpus, name: str, folder: Path, readers: int) -> None:
    """Write both splits of a corpus in one format below `folder`."""
    for split, items in corpus.counts.items():
        (folder / split).mkdir(parents=True)
        if items:
            plugins.load("formats", name).write(corpus, split, folder / split, readers, lambda count: None)  # noqa: ARG005


def request_for(
    corpus: Corpus, loader: str, placed: Path | Location, split: str = "train", **changes: Any
) -> LoaderRequest:
    """Return a request for one split of a placed format, in a folder or elsewhere, with the loader's own settings."""
    location = placed if isinstance(placed, Location) else location_of(placed)
    options = {name: part["default"] for name, part in getattr(plugins.load("loaders", loader), "OPTIONS", {}).items()}
    arguments = {
        "location": location.split(split),
        "items": corpus.counts[split],
        "sample": corpus.sample,
        "classes": corpus.classes,
        "batch_size": BATCH_SIZE,
        "options": options | changes.pop("options", {}),
    }
    return LoaderRequest(**{**arguments, **changes})


def unsuited(module: ModuleType, request: LoaderRequest) -> str | None:
    """Return why a loader cannot deliver what is asked, on this machine or anywhere; or None."""
    chosen = [name for name in plugins.required(module, request.options) if name not in module.REQUIRES]
    if absent := [name for name in chosen if isolated.version_of(name, isolated.env_of(module)) is None]:
        return f"not installed: {', '.join(absent)}"
    asked = (getattr(module, name, None) for name in ("never", "unsuited"))
    return next(filter(None, (ask(request) for ask in asked if ask)), None)


class Placed:
    """A corpus in the formats that loaders have asked for: in folders, and in a bucket for those that read one."""

    def __init__(self, corpus: Corpus, folder: Path, store: ObjectStore | None) -> None:
        self.corpus, self.folder, self.store = corpus, folder, store

    def location(self, loader: str) -> Location:
        """Return where the loader's format is, written and placed if it is the first to ask for it."""
        module = plugins.load("loaders", loader)
        folder = self.folder / module.FORMAT
        if not folder.exists():
            write_format(self.corpus, module.FORMAT, folder, readers=4)
        first = getattr(module, "READS", (PATH,))[0]
        if first == PATH:
            return location_of(folder)
        location = self.store.place(folder, module.FORMAT)
        return self.store.as_aistore(location) if first == "ais" else location


def item_order(epoch: Any, number: int) -> list[list[int]]:
    """Return the item indices of each batch of one epoch."""
    return [batch["item"].tolist() for batch in epoch(number)]


@contextmanager
def nothing_left_open() -> Iterator[None]:
    """Fail if the block leaves a child process or a file descriptor that was not there before.

    Python's own resource tracker and shared heap, one each a process and there until it ends, are started beforehand.
    A queue's thread that is to close a pipe may do so a moment later on a busy machine: it has `PATIENCE` seconds.
    """
    resource_tracker.ensure_running()
    RawValue("b")
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
        with suppress(FileNotFoundError):  # the listing's own descriptor
            found[number] = os.readlink(f"/proc/self/fd/{number}")
    return {number: target for number, target in found.items() if target != RANDOM}
