"""Why a result can never run, by what is known before there is any data: the plan asks, and each run again."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any, NamedTuple

from scripts.common.location import PATH, Location
from scripts.common.request import LoaderRequest, Share
from scripts.common.sample import Sample
from scripts.common.settings import asked
from scripts.common.vocabulary import COLD, CROPS, EXACT, ITEMS, NO_CHECK, ONE_PROCESS, SLICE, TASKS, ranks_of


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
    if cache in COLD:
        if getattr(module, "PRELOADS", False):
            return Never(f"it reads everything when it is opened: no epoch is {cache}", ("cache",))
        if reason := request.location.never(cache):
            return Never(f"{reason}: measure on a tier that is a disk", ("cache",))
    kinds, devices, kind = TASKS[task].kinds, TASKS[task].devices, request.sample.kind
    if kinds and kind not in kinds:
        of_kind = f"is for data of the kind {' or '.join(kinds)}, and the data set is of the kind {kind}"
        return Never(f"task {task} {of_kind}", ("task",))
    if devices and request.device not in devices:
        return Never(f"task {task} needs device {' or '.join(devices)}", ("task",))
    if request.world > 1 and (task in ONE_PROCESS or cache != "warm"):
        reason = f"they are measured from a warm cache, not from a {cache} one"
        if task in ONE_PROCESS:
            reason = f"{task} trains in one process; their training is sweep.task: [ddp]"
        return Never(f"{request.world} ranks: {reason}", ("task", "cache", "world"))
    if hasattr(module, "OWN_FILE") and kind == CROPS and module.CHECK == EXACT:
        reason = "a file of your own delivers pieces of recordings of its own choice: write CHECK = "
        return Never(f'{reason}"slice", "items" or "none" in it (docs/own_loader.md)')
    if getattr(module, "CHECK", EXACT) != EXACT:
        if task not in ("read", "iterate"):
            return Never(f"task {task} needs the corpus's items, and this file has items of its own (CHECK)", ("task",))
        if request.world > 1 and module.CHECK == SLICE:
            reason = f'pieces of recordings (CHECK = "{SLICE}") are looked at in one process; ranks need "{ITEMS}"'
            return Never(f'{reason} or "{NO_CHECK}"', ("world",))
        if request.device_prefetch and request.device != "cpu":
            reason = "batches of items of its own (CHECK) are copied when they come, not ahead"
            return Never(reason, ("device_prefetch",))
        if cache != "warm":
            reason = "nobody knows which bytes items of its own (CHECK) read, so none can be held to be read"
            return Never(f"{reason} from a {cache} cache", ("cache",))
    reason = module.never(request) if hasattr(module, "never") else None
    return Never(reason, ("device", *request.options) if request.options else ()) if reason else None


def request_of(
    module: ModuleType,
    settings: Mapping[str, Any],
    location: Location,
    sample: Sample,
    sample_rate: int | None = None,
) -> LoaderRequest:
    """Return the request of a loader, as far as it is known without data. `sample_rate`: Hz, of audio."""
    return LoaderRequest(
        location=location,
        items=0,
        sample=sample,
        sample_rate=sample_rate,
        classes=0,
        **asked(settings),
        share=Share(world=ranks_of(settings)),
        options={name: settings[name] for name in getattr(module, "OPTIONS", {})},
    )
