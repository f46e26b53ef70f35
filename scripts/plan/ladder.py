"""The ladder of optimisations: from a plain loop upwards, one change at a time; which settings each step has.

A step says what it does otherwise. What it leaves out is as on the step below; only a loader's own
options start again where the loader changes, since another loader has others.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scripts.common.errors import UserError

FOR_A_GPU = {"pin_memory", "device_prefetch"}  # settings that serve the copy to a GPU alone

Settings = dict[str, Any]


@dataclass(frozen=True)
class LadderStep:
    """One step of the ladder."""

    change: str  # in words
    loader: str
    tier: str
    settings: Mapping[str, Any]  # null for a setting that has no meaning here
    reason: str  # why it is no other measurement than the step below; empty where it is one


def ladder_steps(
    entries: Iterable[Mapping[str, Any]],
    tier: str,
    common: Iterable[str],
    first: Callable[[str], Settings],
    simplified: Callable[[str, Settings], Settings],
) -> Iterator[LadderStep]:
    """Yield the steps of the config's `ladder`, from the lowest.

    `common` are the settings that go from one loader to the next, `first(loader)` what a ladder begins with, and
    `simplified(loader, settings)` what of it makes a difference on this machine. Raises UserError for a step
    that says nothing but what the step below does.
    """
    common = set(common)
    below: LadderStep | None = None
    asked: Settings = {}  # of the step below, before it was simplified
    for number, entry in enumerate(entries):
        loader = entry["loader"] if below is None else entry.get("loader", below.loader)
        same = below is not None and loader == below.loader
        given = {key: value for key, value in entry.items() if key not in ("change", "loader")}
        settings = {**first(loader), **{key: asked[key] for key in asked if same or key in common}, **given}
        if same and settings == asked:
            raise UserError(
                f"config: ladder[{number}]: found no setting in {entry['change']!r} that differs from the step below; "
                "allowed is at least one. Say what it changes, such as workers: 2, or remove the step."
            )
        effective = simplified(loader, settings)
        unchanged = same and effective == below.settings
        changed = [key for key in given if given[key] != asked.get(key)]
        reason = _no_difference(changed, settings, effective["device"], loader) if unchanged else ""
        below, asked = LadderStep(entry["change"], loader, tier, effective, reason), settings
        yield below


def _no_difference(changed: list[str], settings: Settings, device: str, loader: str) -> str:
    if device == "cpu" and FOR_A_GPU.issuperset(changed):
        has = "has" if len(changed) == 1 else "have"
        return f"batches for the CPU are copied to no device: {' and '.join(changed)} {has} no effect there"
    values = ", ".join(f"{key}: {settings[key]}" for key in changed)
    return f"{values} makes no difference to {loader} with these settings: the step would repeat the one below"
