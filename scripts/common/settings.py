"""The settings of the sweep, each one row: what config.yaml may say, slug, words, column, and what a loader is asked.

One more setting is one more row here, and the code that acts on it: `request.setting(NAME)`. What a loader alone knows
is in its OPTIONS, which need a schema and a default.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

ABSENT = object()  # of a setting that a result does not have at all


class Setting(NamedTuple):
    """A setting; its values in a result are None where a loader does not have it."""

    schema: Mapping[str, Any]  # JSON schema of a value
    default: list[Any]  # in `sweep`
    about: str  # in docs and in the tables
    plain: Any = ABSENT  # the value with which all is as if there were no such setting; what a run by hand has
    off: Any = None  # what stands in a result that has the plain value, or cannot use another one
    without: Any = ABSENT  # a request's value where there is none; ABSENT: requests do not have it
    useful: Callable[[Mapping[str, Any]], bool] = lambda _settings: True  # beside these others
    of_all: bool = False  # acts on every loader; otherwise on those that have it in SETTINGS
    short: str = ""  # its part of a slug, with {} for the value; "": its name and the value
    words: Callable[[Any], str] | None = None  # what people read; None: name=value
    column: str | None = None  # heading of a column of its own, which may be its name (""); None: in `options`
    lists: Mapping[str, Any] = {}  # what the schema says of the list
    apart: bool = False  # part of the scenario: results compare within one value only
    proven: bool = True  # whether items are proven with it


def _count(word: str, plural: str) -> Callable[[int], str]:
    return lambda value: word if value == 1 else plural.format(value)


def _on_gpu(settings: Mapping[str, Any]) -> bool:
    return settings["device"] != "cpu"


def _with_workers(settings: Mapping[str, Any]) -> bool:
    return bool(settings["workers"])


TABLE = {
    "device": Setting(
        {"enum": ["auto", "cpu", "cuda"]},
        ["auto"],
        "`cpu` or `cuda`",
        without="cpu",
        of_all=True,
        short="{}",
        words=lambda _value: "",
        column="Device",
        apart=True,
    ),
    "batch_size": Setting(
        {"type": "integer", "minimum": 1},
        [32],
        "items in a batch",
        without=32,
        of_all=True,
        short="b{}",
        words="batch {}".format,
        column="Batch",
    ),
    "workers": Setting(
        {"type": ["integer", "string"], "minimum": 0, "maximum": 1024, "pattern": "^guide$"},
        [0, "guide"],
        "worker processes, or threads; blank: no such setting",
        without=0,
        short="w{}",
        words=_count("1 worker", "{} workers"),
        column="",
        lists={"type": ["string", "array"], "pattern": "^(auto|all_but_one)$"},
    ),
    "prefetch": Setting(
        {"type": "integer", "minimum": 1},
        [2],
        "batches that each worker makes ahead",
        without=1,
        short="p{}",
        words="prefetch {}".format,
        column="",
    ),
    "pin_memory": Setting(
        {"type": "boolean"},
        [True],
        "whether batches are in page-locked memory",  # which serves the copy to a GPU alone
        plain=False,
        off=False,
        without=False,
        useful=_on_gpu,
        short="pin",
        words=lambda value: "pinned memory" if value else "",
        column="",
    ),
    "start_method": Setting(
        {"enum": ["fork", "forkserver", "spawn"]},
        ["fork"],
        "how worker processes are started",
        plain="fork",
        without="fork",
        useful=_with_workers,
        short="{}",
    ),
    "persistent_workers": Setting(
        {"type": "boolean"},
        [True],
        "whether workers stay from one epoch to the next",
        plain=True,
        without=True,
        useful=_with_workers,
        short="anew",
        words=lambda _value: "workers started in each epoch",
    ),
    "device_prefetch": Setting(
        {"type": "integer", "minimum": 0, "maximum": 64},
        [0],
        "batches copied ahead to the GPU",
        plain=0,
        without=0,
        useful=_on_gpu,
        of_all=True,
        short="d{}",
    ),
    "allocator": Setting(
        {"enum": ["default", "keep", "jemalloc", "tcmalloc", "mimalloc"]},
        ["default"],
        "of memory, in the measuring process and its workers",
        plain="default",
        of_all=True,
        short="{}",
    ),
    "world": Setting(
        {"type": "integer", "minimum": 1, "maximum": 64, "description": "processes that share an epoch"},
        [1],
        "processes that share an epoch, each with its own loader",
        plain=1,
        off=ABSENT,
        of_all=True,
        words=_count("", "{} ranks"),
        column="Ranks",
        apart=True,
    ),
    "transform": Setting(
        {"type": "string", "minLength": 1},
        ["none"],
        "what is done with each item once it is read; blank: nothing",
        plain="none",
        without="none",
        of_all=True,
        short="{}",
        words=str,
        column="Transform",
        apart=True,
        proven=False,
    ),
    "transform_in": Setting(
        {"enum": ["worker", "device"]},
        ["worker"],
        "where that is done: item by item in a worker, or with whole batches on the device",
        plain="worker",
        without="worker",
        useful=lambda settings: settings.get("transform") not in (None, "none"),
        of_all=True,
        short="on_{}",
        proven=False,
    ),
}
IN_COLUMNS = tuple(name for name, row in TABLE.items() if row.column is not None)  # others are in `options`
BY_HAND = {"device": "cpu", "batch_size": 32, "workers": 0, "prefetch": 2}  # those that have no plain value
OF_WORKERS = ("workers", "prefetch", "pin_memory")  # of what has workers, be they processes or threads
OF_DATA_LOADER = (*OF_WORKERS, "start_method", "persistent_workers")  # of a map-style data set in torch's DataLoader


def type_of(name: str) -> type:
    """Return the type of a setting's values in the tables."""
    told = TABLE[name].schema.get("type", "string")
    return {"integer": int, "boolean": bool}.get(told if isinstance(told, str) else told[0], str)


def schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON schema of each setting's list in `sweep`, with its default, by name."""
    array = {"type": "array", "minItems": 1, "uniqueItems": True}
    return {
        name: {**array, **row.lists, "items": dict(row.schema), "default": list(row.default)}
        for name, row in TABLE.items()
    }


def understood(own: tuple[str, ...]) -> tuple[str, ...]:
    """Return the settings that act on a loader whose SETTINGS are `own`, in the order of the table."""
    return tuple(name for name, row in TABLE.items() if row.of_all or name in own)


def by_hand() -> dict[str, list[Any]]:
    """Return the values of a run by hand, each a list of one."""
    return {name: [BY_HAND.get(name, row.plain)] for name, row in TABLE.items()}


def reduced(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings in which each that makes no difference is as if it were not there."""
    found = dict(settings)
    for name, row in TABLE.items():
        if found.get(name) is not None and (found[name] == row.plain or not row.useful(settings)):
            found[name] = row.off
    return {name: value for name, value in found.items() if value is not ABSENT}


def as_proven(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings under which items are proven that are delivered under these."""
    changed = {name: row.off for name, row in TABLE.items() if not row.proven and name in settings}
    return {**settings, **changed}


def part_of_slug(name: str, value: Any) -> str:
    """Return the part of a slug that a setting or option adds; nothing for one that makes no difference."""
    row = TABLE.get(name)
    if value is None or value is (row.off if row else False):
        return ""
    if row and row.short:
        return row.short.format(value)
    return name if value is True else f"{name}_{value}".replace("-", "_").replace("/", "_")


def asked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a loader's request has, by name."""
    found = {name: row.without for name, row in TABLE.items() if row.without is not ABSENT}
    return {name: without if settings.get(name) is None else settings[name] for name, without in found.items()}


def settings_text(settings: Mapping[str, Any]) -> str:
    """Return settings but the device in words, e.g. ``2 ranks, batch 32, 2 workers, prefetch 2, gather=batch``."""
    told = {name: value for name, value in settings.items() if value is not None}
    first = sorted(IN_COLUMNS, key=lambda name: name != "world")
    parts = [TABLE[name].words(told[name]) for name in first if name in told]
    for name in sorted(told.keys() - set(IN_COLUMNS)):
        words = TABLE[name].words if name in TABLE else None
        parts.append(words(told[name]) if words else f"{name}={told[name]}")
    return ", ".join(filter(None, parts))
