"""How large the data is, and what of it this machine can hold: of that depends what is measured with all items."""

from types import ModuleType
from typing import TYPE_CHECKING, Any

from scripts.common import plugins
from scripts.common.files import read_json
from scripts.common.vocabulary import COLD, CROPS, PART, WHOLE
from scripts.machine import own_group
from scripts.plan.suited import Never

if TYPE_CHECKING:
    from scripts.plan.experiment import Plan
    from scripts.plan.sweep import Scenario

ITEMS = 1000  # of a data set of unknown size
RECORDING_SECONDS = 180.0  # of a recording of unknown length
PART_ITEMS = 1000  # of the part that is measured first, at most
PART_SHARE = 0.35  # of memory: what all formats of the part may take, beside the processes and their batches
WHOLE_SHARE = 0.7  # of memory: where all formats of all items take more, a part is measured first
RAM_SHARE = 0.5  # of memory, for copies in RAM
FREE_SHARE = 0.8  # of what is free on a file system, for formats of all items
CACHED_SHARE = 0.8  # of memory, for a format that is read from the page cache


def items_of(plan: "Plan", share: float = 1, *splits: str) -> tuple[int, bool]:
    """Return (items of the splits, whether that is no assumption): of the corpus, else a share of what the source says.

    Without `splits` those of all.
    """
    info = plan.project / plan.folder("corpus") / "corpus.json"
    if info.is_file():
        counts = read_json(info)["items"]
        return sum(counts[split] for split in splits or counts), True
    expected = of_source(plan, "expected")
    if expected is None:
        found = of_source(plan, "at_least")
        return max(1, round(share * found)) if found else ITEMS, False
    return round(share * expected), True


def of_source(plan: "Plan", name: str) -> Any:
    """Return what an optional function of the source says of its options, or None."""
    function = getattr(plugins.load("sources", plan.source), name, None)
    return function(plan.options) if function else None


def memory_bytes() -> int:
    """Return the bytes of this machine's memory, or of the limit that its control groups have."""
    import psutil

    total, limit = psutil.virtual_memory().total, own_group.memory_limit()
    return total if limit is None else min(total, limit)


def part_of(plan: "Plan") -> int | None:
    """Return how many items the part has that is measured first; None where all items are at once.

    By the memory of the machine as a whole: what is free of it changes from call to call.
    """
    asked, (items, _) = plan.config["measure"]["part"], items_of(plan)
    if asked == "none":
        return None
    each = sum(_takes(plan, module) for module in plan.formats.values() if not hasattr(module, "PATTERNS"))
    if not each:
        return None
    if asked == "auto" and items * each <= WHOLE_SHARE * memory_bytes():
        return None
    wanted = min(PART_ITEMS, int(PART_SHARE * memory_bytes() / each)) if asked == "auto" else asked
    return wanted if 0 < wanted < items else None


def format_bytes(plan: "Plan", format: str, size: str = WHOLE) -> int:
    """Return about how many bytes a format has, of all items or of the part."""
    if hasattr(plan.formats[format], "BYTES"):
        return plan.formats[format].BYTES
    items = plan.part if size == PART else items_of(plan)[0]
    return (items or 0) * _takes(plan, plan.formats[format])


def is_linked(format: ModuleType) -> bool:
    """Return whether a format's files are those of the corpus under other names, which take no room."""
    return getattr(format, "LINKED", False)


def corpus_bytes(plan: "Plan") -> int:
    """Return about how many bytes the corpus has."""
    return round(items_of(plan)[0] * plan.sample.file_bytes * _pieces_of_a_recording(plan))


def _takes(plan: "Plan", format: ModuleType) -> int:
    return round(plugins.takes(format, plan.sample) * _pieces_of_a_recording(plan))


def _pieces_of_a_recording(plan: "Plan") -> float:
    """Return how many times as long as a delivered piece a recording is on average; 1 of data that is delivered whole.

    By the corpus, else by what the source says, else RECORDING_SECONDS.
    """
    if plan.kind != CROPS:
        return 1.0
    info = plan.project / plan.folder("corpus") / "corpus.json"
    if info.is_file():
        about = read_json(info)
        if "audio_seconds" in about:
            return about["audio_seconds"] / about["seconds"] / max(1, sum(about["items"].values()))
    seconds = of_source(plan, "expected_seconds")
    each = seconds / max(1, items_of(plan)[0]) if seconds else RECORDING_SECONDS
    return max(1.0, each / plan.kind_options["seconds"])


def too_large(plan: "Plan", loader: str, tier: str, scenario: "Scenario") -> Never | None:
    """Return why memory cannot hold all items of a loader's format, as RAM or the page cache is to, or None."""
    if scenario.size == PART or scenario.cache in COLD or plan.location(tier, loader).held_in is None:
        return None
    in_ram = plan.in_memory(tier)
    share, what = (RAM_SHARE, "copies in RAM") if in_ram else (CACHED_SHARE, "files in the page cache")
    size, room = format_bytes(plan, plan.loaders[loader].FORMAT), share * memory_bytes()
    if size <= room:
        return None
    advice = "measure fewer items, or on a disk" if in_ram else "it is measured from a cold cache"
    found = f"all items are {size / 1e9:,.1f} GB, and {what} may take {room / 1e9:,.1f} GB here: {advice}"
    return Never(found, ("cache",))
