"""The words of the project, each with what people read for it: tasks, caches, settings, parts, bounds, statuses.

Config, records and tables hold the keys. The schemas (docs/run.schema.json, workflow/schemas/config.schema.yaml) list
them again.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

PROTOCOL = 18  # raise it when a change to the protocol of a run makes older runs incomparable
REPORT = 7  # raise it when plan.json, tables, figures or pages of the same runs become others: they are made again
SPLIT, VALIDATION = "train", "validation"
CROPS = "crops"  # the kind of data of which each epoch delivers other pieces
SPIN_COUNT = "1000"  # GOMP_SPINCOUNT of what is measured: turns of libgomp's waiting loop, some microseconds


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
SCENARIO_KEYS = ("task", "cache", "step_ms")  # of the sweep, with the device
WHOLE, PART = "whole", "part"
SIZES = {
    WHOLE: Term("all items", about="all items of the data set"),
    PART: Term(
        "a part of the items",
        about="a part of them, of which memory holds every format: it says which loaders are measured with all items",
    ),
}
COMPARED_KEYS = (*SCENARIO_KEYS, "size")  # with the device what a scenario is, within which alone results compare

NEXT, LASTING = "next", "lasting"
LIFETIMES = {  # of a batch
    NEXT: Term("till next", about="a batch is valid until you ask for the next one"),
    LASTING: Term("lasting", about="a batch is valid as long as it is kept"),
}
EXACT = "exact"
SLICE, ITEMS, NO_CHECK = "slice", "items", "none"
CHECKS = {  # what the items of a user's own loader are held to
    EXACT: Term("exact", about="each item is the corpus's, bit by bit, with its labels, once an epoch"),
    SLICE: Term("slices", about="each item is a piece of its recording, bit by bit"),
    ITEMS: Term("items", about="which items came and how often is counted; values are finite"),
    NO_CHECK: Term("none", about="nothing is checked: the rate alone"),
}
SHARING = {  # what the ranks of a loader deliver of an epoch, together; see scripts/measure/across.py
    EXACT: Term("once", about="every item exactly once"),
    "repeats": Term("repeats", about="some items come again, so that all ranks have the same number"),
    "drops": Term("drops", about="some items are left out, so that all ranks have the same number"),
}

RANDOM, LOCAL, REPEATED, SEQUENTIAL, UNKNOWN = "random", "local", "repeated", "sequential", "unknown"
ORDERS = {  # of a loader, as measured (measure/order.py)
    RANDOM: Term("random", about="no items come together more often than by chance"),
    LOCAL: Term("local", about="items that are near each other in the data set come together"),
    REPEATED: Term("repeated", about="items come together that came together in an epoch before"),
    SEQUENTIAL: Term("sequential", about="most items come in the order of the data set"),
    UNKNOWN: Term("unknown", about="fewer than 100 items or two epochs were seen"),
}
RAM = r"tmpfs|ramfs|devtmpfs|hugetlbfs"  # file systems whose files are in memory
STAGES = ("read", "transfer")  # what every loader on torch's DataLoader can leave out
PARTS = {  # of a batch's time
    "storage": Term(
        "storage", "storage", "reading from the device: the time saved when the files are in the page cache"
    ),
    "read": Term(
        "reading",
        "reading from memory",
        "reading files from the page cache, or copying out of an array in RAM",
    ),
    "decode": Term("decoding", "decoding", "decoding audio, and unpacking it from archives"),
    "transfer": Term(
        "transfer", "transfer between processes", "sending batches from worker processes to the main process"
    ),
    "transform": Term("transform", "the transform", "the transform of each item, wherever it is at work"),
    "host_to_device": Term("gpu copy", "copy to the GPU", "the copy of batches to the GPU"),
    "compute": Term("compute", "compute", "the training steps, emulated or real"),
    "framework": Term(
        "framework",
        "framework overhead: Python and the library itself",
        "what remains without all of these: Python, and the library itself",
    ),
    "consumer": Term(
        "memory", "memory: consuming the batches", "reading every byte of a batch once, which any model does"
    ),
}
ITEM_PARTS = {  # of an item's time in a user's own Dataset, as attach names them
    "open": Term("open", about="opening files, and reading them where nothing is decoded"),
    "decode": Term("decode", about="decoding, and reading what is decoded"),
    "resample": Term("resample", about="resampling"),
    "build": Term("build objects", about="objects that each item builds anew, such as transforms"),
    "collate": Term("collate", about="making a batch of items"),
    "other": Term("other", about="all else: of its lines the code says what it is"),
}
BOTTLENECKS = PARTS | {  # and what else is said where a part is looked for
    "item": Term("your Dataset", "your Dataset", "the lines of a user's own Dataset, which `item_parts` names"),
    "waiting": Term("waiting", "waiting for batches", "of a training: all that is no training step"),
    "none": Term("none", "no single part", "no part takes 10 % of the time"),
    "unclear": Term(
        "inconclusive", "inconclusive", "no part costs significantly more than the noise and every other part"
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
        "what fio reads from the tier at an item's size with as many readers as the loader has workers (cold and "
        "limited caches); of object storage: raw GETs with as many in flight",
    ),
    "compute": Term(
        "compute",
        "what the steps alone allow",
        "the training steps alone, without any wait, by the result's AU",
    ),
    "decode": Term(
        "decode",
        "what decoding alone allows",
        "an estimate: decoding alone, by the time that a run saved without it",
    ),
}
OPERATIONS = ("create", "copy", "one", "many", "send")  # of tensors, in this order
NOT_TRIED, VERIFICATION, UNSUITED, ERROR = "not-tried", "verification", "skipped-unsuited", "error"
NOT_WARM, NOT_LEADING, NO_TIME = "not-warm", "not-leading", "no-time"
SLOWER, NO_ROOM, RAM_FULL = "slower-on-part", "disk-full", "ram-full"  # why one is not measured with all items
REASONS = {  # why a run has no speed: `reason_code` of a record, beside the words in its `reason`
    NOT_TRIED: Term(
        "not tried",
        "the other runs of this file were not tried",
        "an earlier run of the same call showed that your own file is broken",
    ),
    VERIFICATION: Term("verification", about="wrong data was delivered"),
    NOT_LEADING: Term(
        "not leading",
        "not measured: it does not lead in reading from a warm cache",
        "measure.cold or measure.trainings is leaders; with all it is measured",
    ),
    NO_TIME: Term(
        "no time",
        "not measured: the session had no time for it. Raise measure.minutes, then type the same command",
        "measure.minutes is shorter than three rounds of all results take",
    ),
    SLOWER: Term(
        "slower on a part",
        "not measured with all items: on a part of them it is less than half as fast as the fastest",
        "measure.part: none measures all results with all items",
    ),
    NO_ROOM: Term(
        "no room on disk",
        "not measured with all items: the disk has no room for its format. Free some, then type the same command with "
        "--forcerun choose_whole at its end",
        "formats of faster loaders were written first",
    ),
    RAM_FULL: Term(
        "no room in RAM",
        "not measured with all items: RAM has no room for a copy of its format beside those of faster loaders",
        "copies in RAM may take half of the memory",
    ),
    UNSUITED: Term("unsuited", about="this machine, or these settings, cannot run it"),
    NOT_WARM: Term("not warm", about="its bytes came from a device, where they were to be in memory"),
    ERROR: Term("error", about="an exception ended it"),
    "crashed": Term("crash", about="the process crashed"),
    "out-of-memory": Term("out of memory", about="the kernel killed the process"),
    "no-end": Term("limit", about="it exceeded its time limit"),
    "no-room": Term("no room", about="its batches do not fit into memory, so it was not tried"),
    "lost": Term("no record", about="the process left no record in any of its tries"),
    "no-server": Term("no server", about="the warm process that forks runs had ended"),
    "follows": Term("follows another rank", about="a rank that failed because another one did"),
}
STATUSES = ("ok", "failed", "missing", "skipped")  # of a planned run, in the order in which results stand


def simplify(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without those that a DataLoader ignores: without workers nothing is prefetched."""
    return {**settings, "prefetch": settings["prefetch"] if settings["workers"] else None}


def ranks_of(settings: Mapping[str, Any]) -> int:
    """Return how many processes share an epoch: the setting `world`, which those of one process do not have."""
    return settings.get("world") or 1
