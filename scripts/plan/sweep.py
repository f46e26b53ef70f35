"""Which combinations of settings make a difference to a loader, under which scenarios, and what each is called."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from scripts.common.vocabulary import WHOLE
from scripts.plan import config as configuration


@dataclass(frozen=True)
class Scenario:
    """What is done with the batches, and in which state the machine is."""

    task: str = "read"  # read, iterate, train or lightning
    cache: str = "warm"  # warm, cold or limited: the page cache when an epoch begins
    step_ms: float = 0  # an emulated training step after each batch
    size: str = WHOLE  # of the data: all items, or a part of them

    @property
    def suffix(self) -> list[str]:
        """What they add to a slug: nothing for reading all items with a warm cache and no step."""
        parts = [] if self.task == "read" else [self.task]
        parts += [] if self.cache == "warm" else [self.cache]
        parts += [f"step{self.step_ms:g}".replace(".", "_")] if self.step_ms else []
        return parts + ([] if self.size == WHOLE else [self.size])


def combinations(module: ModuleType, lists: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Yield every combination of the values in `lists` that makes a difference to a loader, each once."""
    simplify = getattr(module, "simplify", lambda settings: settings)
    known = (*configuration.understood(module), *getattr(module, "OPTIONS", {}))
    seen = set()
    for values in itertools.product(*lists.values()):
        settings = dict(zip(lists, values, strict=True))
        settings = {key: value if key in known else None for key, value in settings.items()}
        if settings["device"] == "cpu" and settings["pin_memory"]:
            settings["pin_memory"] = False  # page-locked memory serves the copy to a GPU alone
        if settings["device"] == "cpu" or not settings["device_prefetch"]:
            settings["device_prefetch"] = None  # nothing is copied ahead
        if settings.get("allocator") == "default":
            settings["allocator"] = None  # as it is: no name, no other result than before there was the setting
        if settings.get("world") == 1:
            del settings["world"]  # one process, as before there was the setting
        settings = simplify(settings)
        if slug(settings) not in seen:
            seen.add(slug(settings))
            yield settings


def slug(settings: Mapping[str, Any], scenario: Scenario = Scenario()) -> str:
    """Return settings as a file name, such as ``cpu-b32-w2-p2`` or, of a cold cache, ``cpu-b32-w2-p2-cold``.

    A setting that is null or false is left out.
    """
    short = {"batch_size": "b", "workers": "w", "prefetch": "p", "device_prefetch": "d"}
    parts = []
    for key, value in settings.items():
        if value is None or value is False:
            continue
        if key in ("device", "allocator"):
            parts.append(value)
        elif key == "pin_memory":
            parts.append("pin")
        elif value is True:
            parts.append(key)
        elif key in short:
            parts.append(f"{short[key]}{value}")
        else:
            parts.append(f"{key}_{value}".replace("-", "_").replace("/", "_"))
    return "-".join([*parts, *scenario.suffix])
