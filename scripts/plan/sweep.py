"""Which combinations of settings make a difference to a loader, under which scenarios, and what each is called."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from scripts.common.settings import part_of_slug, reduced, understood
from scripts.common.vocabulary import WHOLE


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
    known = (*understood(module.SETTINGS), *getattr(module, "OPTIONS", {}))
    seen = set()
    for values in itertools.product(*lists.values()):
        settings = dict(zip(lists, values, strict=True))
        settings = simplify(reduced({key: value if key in known else None for key, value in settings.items()}))
        if slug(settings) not in seen:
            seen.add(slug(settings))
            yield settings


def slug(settings: Mapping[str, Any], scenario: Scenario = Scenario()) -> str:
    """Return settings as a file name, such as ``cpu-b32-w2-p2`` or, of a cold cache, ``cpu-b32-w2-p2-cold``.

    A setting that makes no difference is left out.
    """
    parts = filter(None, (part_of_slug(key, value) for key, value in settings.items()))
    return "-".join([*parts, *scenario.suffix])
