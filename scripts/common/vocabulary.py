"""The words of the project, each with what people read for it: tasks, caches, settings, parts, bounds, statuses.

Config, records and tables hold the keys. The schemas (docs/run.schema.json, workflow/schemas/config.schema.yaml) list
them again.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

PROTOCOL = 14  # raise it when a change to the protocol of a run makes older runs incomparable
REPORT = 2  # raise it when plan.json, tables, figures or pages of the same runs become others: they are made again
SPLIT, VALIDATION = "train", "validation"


class Term(NamedTuple):
    """What people read for a key."""

    word: str  # in narrow columns and names
    text: str = ""  # in sentences
    about: str = ""  # what it is


class Task(NamedTuple):
    """What people read for a task, and what it is for; without kinds or devices for all."""

    word: str
    text: str = ""
    about: str = ""
    kinds: tuple[str, ...] = ()  # of data
    devices: tuple[str, ...] = ()


TASKS = {  # each a file in scripts/measure/tasks
    "read": Task("reading", about="every byte is read once"),
    "iterate": Task("plain loop", "in a plain loop that need not read its batches", "nothing is read"),
    "augment": Task(
        "augmenting", "reading random crops of images", "read, then cropped and flipped at random", kinds=("image",)
    ),
    "train": Task("training", "training in a bare loop", "an autoencoder is trained in a bare loop"),
    "train_compiled": Task(
        "compiled training",
        "training of the compiled model",
        "the autoencoder goes through torch.compile, then it is trained in a bare loop",
    ),
    "lightning": Task("training by Lightning", "training by Lightning", "an autoencoder is trained by Lightning"),
    "ddp": Task("DDP training", "training under DistributedDataParallel", "each rank trains one under DDP"),
    "lightning_ddp": Task(
        "DDP training by Lightning", "training by Lightning's ddp", "each rank trains one by Lightning's ddp strategy"
    ),
    "infer_tensorrt": Task(
        "inference by TensorRT",
        "inference by TensorRT",
        "an autoencoder that TensorRT compiled, without training it",
        devices=("cuda",),
    ),
}
OF_RANKS = ("ddp", "lightning_ddp")  # trainings that are of ranks, also of one
TRAINING = ("train", "train_compiled", "lightning", *OF_RANKS)
ONE_PROCESS = ("train", "train_compiled", "lightning")  # trainings that know no other ranks
COMPARED = ("train", "lightning")  # of which one is what the other costs beside it
CACHES = {
    "warm": Term("warm cache", about="the files are in the page cache"),
    "cold": Term("cold cache", "from a cold cache", "each epoch is read from the device"),
    "limited": Term(
        "limited cache", "from a cache with room for a part of the data", "the page cache holds a part of the files"
    ),
}
SWEPT = ("read",)  # tasks measured with every cache and step of the sweep; the others from a warm cache
OBJECTS = "objects"  # the kind of a tier of object storage, in tiers.csv
COLD = ("cold", "limited")  # caches whose epochs read from the device
SCENARIO_KEYS = ("task", "cache", "step_ms")  # with the device what a scenario is, within which alone results compare

LIFETIMES = {  # of a batch
    "next": Term("until the next", about="a batch is valid until the next one is asked for"),
    "lasting": Term("lasting", about="a batch is valid as long as it is kept"),
}
EXACT = "exact"
SHARING = {  # what the ranks of a loader deliver of an epoch, together; see scripts/measure/across.py
    EXACT: Term("once", about="every item exactly once"),
    "repeats": Term("repeats", about="some items again, so that all ranks have as many"),
    "drops": Term("drops", about="all but some items, so that all ranks have as many"),
}
SETTINGS = ("workers", "prefetch", "pin_memory")  # of what is built on torch's DataLoader
RESULT_SETTINGS = ("device", "batch_size", *SETTINGS, "world")  # columns of their own; others go into `options`

RANDOM = "random"  # the order of a loader whose epoch is a permutation of all items
RAM = r"tmpfs|ramfs|devtmpfs|hugetlbfs"  # file systems whose files are in memory
STAGES = ("read", "transfer")  # what every loader on torch's DataLoader can leave out
PARTS = {  # of a batch's time
    "storage": Term("storage", "storage", "the device; what is saved when the files are in the page cache"),
    "read": Term(
        "reading",
        "reading from memory",
        "reading files from the page cache, or copying out of an array in RAM, beyond what leaving out storage or "
        "decoding saves",
    ),
    "decode": Term("decoding", "decoding", "decoding audio, and unpacking it from archives"),
    "transfer": Term(
        "transfer", "transfer between processes", "the way of batches from worker processes to the main one"
    ),
    "host_to_device": Term("gpu copy", "copy to the GPU", "the copy of batches to the GPU"),
    "compute": Term("compute", "compute", "the training steps, emulated or real"),
    "framework": Term(
        "framework",
        "framework overhead: Python and the library itself",
        "what is left of the loader without all of these: Python, and the library itself",
    ),
    "consumer": Term(
        "memory", "memory: consuming the batches", "reading every byte of a batch once, which any model does"
    ),
}
BOTTLENECKS = PARTS | {  # and what else is said where a part is looked for
    "waiting": Term("waiting", "waiting for batches", "of a training: all that is no training step"),
    "none": Term("none", "no single part", "no part takes 10 % of the time"),
    "unclear": Term(
        "inconclusive", "inconclusive", "no part surely costs more than each other and than what differs by itself"
    ),
}
PHASES = ("wait", "step", "read", "decode", "collate", "transfer")  # what a process does with a batch, in a timeline
BOUNDS = {
    "in_memory": Term(
        "in-memory ceiling",
        "the in-memory ceiling",
        "the consumer on batches that stream through memory, measured in the process of each run right before and "
        "after it",
    ),
    "storage": Term(
        "storage",
        "what its storage allows",
        "what fio reads from the tier at an item's size, with as many readers at once as the loader has workers, for a "
        "cold cache and what does not fit into a limited one; of object storage, what raw GETs give with as many in "
        "flight",
    ),
    "compute": Term(
        "compute",
        "what the steps alone allow",
        "training steps, if nothing had to be waited for; of each result, by its AU",
    ),
    "decode": Term(
        "decode",
        "what decoding alone allows",
        "an estimate: if a loader did nothing but decode, by what one run saved without decoding",
    ),
}
OPERATIONS = ("create", "copy", "one", "many", "send")  # of tensors, in this order
NOT_TRIED, VERIFICATION, UNSUITED, ERROR = "not-tried", "verification", "skipped-unsuited", "error"
NOT_LEADING = "not-leading"
REASONS = {  # why a run has no speed: `reason_code` of a record, beside the words in its `reason`
    NOT_TRIED: Term(
        "not tried",
        "the other runs of this file were not tried",
        "an earlier run of the same call showed that the user's own file is broken",
    ),
    VERIFICATION: Term("verification", about="wrong data was delivered"),
    NOT_LEADING: Term(
        "not leading",
        "not measured from a cold cache: it does not lead from a warm one",
        "measure.cold is leaders; with all it is measured",
    ),
    UNSUITED: Term("unsuited", about="this machine, or these settings, cannot run it"),
    ERROR: Term("error", about="an exception ended it"),
    "crashed": Term("crash", about="the process crashed"),
    "out-of-memory": Term("out of memory", about="the kernel killed the process"),
    "no-end": Term("limit", about="it had not ended after the time that it may take"),
    "no-room": Term("no room", about="its batches do not fit into memory: it was not tried"),
    "lost": Term("no record", about="the process left no record, each time that it was tried"),
    "no-server": Term("no server", about="the warm process that it was to be a fork of ended"),
    "follows": Term("follows another rank", about="a rank that failed because another one did"),
}
STATUSES = ("ok", "failed", "missing", "skipped")  # of a planned run, in the order in which results stand


def simplify(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without those that a DataLoader ignores: without workers nothing is prefetched."""
    return {**settings, "prefetch": settings["prefetch"] if settings["workers"] else None}


def ranks_of(settings: Mapping[str, Any]) -> int:
    """Return how many processes share an epoch: the setting `world`, which those of one process do not have."""
    return settings.get("world") or 1


def settings_text(settings: Mapping[str, Any]) -> str:
    """Return settings but the device in words, e.g. ``2 ranks, batch 32, 2 workers, prefetch 2, gather=batch``."""
    common = set(RESULT_SETTINGS)
    parts = [f"{ranks_of(settings)} ranks"] if ranks_of(settings) > 1 else []
    parts += [] if settings["batch_size"] is None else [f"batch {settings['batch_size']}"]
    if settings["workers"] is not None:
        parts.append("1 worker" if settings["workers"] == 1 else f"{settings['workers']} workers")
    if settings["prefetch"] is not None:
        parts.append(f"prefetch {settings['prefetch']}")
    if settings["pin_memory"]:
        parts.append("pinned memory")
    parts += [f"{name}={value}" for name, value in sorted(settings.items()) if name not in common and value is not None]
    return ", ".join(parts)
