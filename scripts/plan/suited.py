"""Why a result can never run, by what is known before there is any data: the plan asks, and each run again."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any, NamedTuple

from scripts.common.location import PATH, Location
from scripts.common.request import LoaderRequest, Share
from scripts.common.sample import Sample
from scripts.common.vocabulary import COLD, TASKS, ranks_of
from scripts.plan.sweep import Scenario


class Never(NamedTuple):
    """Why a result can never run."""

    reason: str
    settings: tuple[str, ...] = ()  # the names of those of its settings and scenarios that are the reason


def never(module: ModuleType, request: LoaderRequest, task: str, cache: str) -> Never | None:
    """Return why a loader can never deliver what is asked of it under these conditions, or None.

    `request`: as the plan knows it, without the number of items and of classes; its files need not be there.
    """
    if reason := request.location.unreadable(getattr(module, "READS", (PATH,))):
        return Never(reason)
    if reason := _without_reads(module, request, cache):
        return Never(reason, ("cache",))
    if reason := _of_task(task, request):
        return Never(reason, ("task",))
    if reason := Scenario(task, cache).unshared(request.world):
        return Never(reason, ("task", "cache", "world"))
    reason = module.never(request) if hasattr(module, "never") else None
    return Never(reason, ("device", *request.options) if request.options else ()) if reason else None


def request_of(module: ModuleType, settings: Mapping[str, Any], location: Location, sample: Sample) -> LoaderRequest:
    """Return what a loader is asked for, as far as it is known without data."""
    return LoaderRequest(
        location=location,
        items=0,
        sample=sample,
        classes=0,
        batch_size=settings["batch_size"],
        workers=settings["workers"] or 0,
        prefetch=settings["prefetch"] or 1,
        pin_memory=bool(settings["pin_memory"]),
        device_prefetch=settings["device_prefetch"] or 0,
        device=settings["device"],
        share=Share(world=ranks_of(settings)),
        options={name: settings[name] for name in getattr(module, "OPTIONS", {})},
    )


def _without_reads(module: ModuleType, request: LoaderRequest, cache: str) -> str | None:
    """Return why no epoch has this state of the page cache, or None."""
    if cache not in COLD:
        return None
    if getattr(module, "PRELOADS", False):
        return f"it reads everything when it is opened: no epoch is {cache}"
    reason = request.location.never(cache)
    return f"{reason}: measure on a tier that is a disk" if reason else None


def _of_task(name: str, request: LoaderRequest) -> str | None:
    """Return why a task is none of this kind of data, or of this device, or None."""
    task, kind = TASKS[name], request.sample.kind
    if task.kinds and kind not in task.kinds:
        return f"task {name} is for data of the kind {' or '.join(task.kinds)}, and the data set is of the kind {kind}"
    if task.devices and request.device not in task.devices:
        return f"task {name} needs device {' or '.join(task.devices)}"
    return None
