"""What one run is, whoever makes it: its loader, its settings, its record, and the request that the loader gets."""

import gc
import traceback
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from scripts.common import facts, isolated, location, plugins, transforms
from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.common.location import Location
from scripts.common.request import LoaderRequest, Share
from scripts.common.serving import reached
from scripts.common.settings import by_hand
from scripts.common.vocabulary import PROTOCOL, SPLIT, VALIDATION
from scripts.loaders import _own, _own_epochs
from scripts.loaders._transformed import Applied
from scripts.machine import allocator, control_groups, emulation
from scripts.machine.host import warning
from scripts.measure import sampler, tasks
from scripts.measure.declared import declared
from scripts.measure.record import LEAST_EPOCHS, begun, cannot_run, without_speed
from scripts.plan.config import check_loader
from scripts.plan.results import Result
from scripts.plan.suited import never, request_of
from scripts.plan.sweep import Scenario, combinations, slug

PRELOADED = ("tensordict",)  # libraries that take a second to import and start nothing
CHANGED = "the loader changed since its proof: type the same command again, which proves it first"
QUEUES = 20  # a run must be longer than this many times what workers and queues hold
# What a run's record has once it is known.
FOUND = ("times", "items_per_second", "au_percent", "bottleneck_trials", "spans", "training", "limits")
FOUND += ("verification", "resources", "memory", "versions", "commit", "started_by", "proof")
FOUND += (
    "order",
    "checksums_hash",
    "steps",
    "steady_items_per_second",
    "epoch_start_seconds",
    "epoch_start_from",
    "ceiling",
    "transformed",
    "own",
    "item_lines",
)


def loader_of(result: Result) -> ModuleType:
    """Return the loader that a run names: what it declares, of one that is a file of the user's own."""
    if result.file is None:
        return plugins.load("loaders", result.loader)
    try:
        return _own.declared(result.loader, result.file)
    except UserError as error:
        raise UserError(f"--{error}") from None


def completed_result(module: ModuleType, result: Result) -> Result:
    """Return the run with its settings as the plan has them, and named by them and its scenario.

    They are completed, and null where the loader has no use for one. Raises UserError for a setting that the loader
    does not understand or a value that the config would not take.
    """
    lists = by_hand()
    lists |= {name: [fragment["default"]] for name, fragment in getattr(module, "OPTIONS", {}).items()}
    told = {name: [value] for name, value in result.settings.items() if value is not None}
    own = {"file": str(module.OWN_FILE)} if hasattr(module, "OWN_FILE") else {}
    try:
        check_loader({"name": module.__name__.rpartition(".")[2], **own, **told})
    except UserError as error:
        words = str(error).replace("config: loaders[0].", "--settings: ")
        raise UserError(words.replace("--settings: name: ", "--loader: ")) from None
    settings = next(combinations(module, lists | told))
    return replace(result, settings=settings, slug=slug(settings, Scenario(result.task, result.cache, result.step_ms)))


def group_for(result: Result) -> AbstractContextManager[list[str]]:
    """Return what makes the control groups that the scenario asks for: their folders, none where it asks for none.

    Entering it raises NotPermitted where this machine or user cannot have them.
    """
    limits = emulation.limits({"emulate": result.emulate})
    if limits is None and result.cache != "limited":
        return nullcontext([])
    reads = {key: limits[key] for key in ("read_mbps", "read_iops")} if limits else {}
    data = location.from_json(result.location).held_in if limits else None
    return control_groups.group(data, memory=result.cache == "limited", **reads)


def not_permitted(result: Result) -> str | None:
    """Return why this machine or user cannot have the control groups that a result asks for, or None."""
    try:
        with group_for(result):
            return None
    except control_groups.NotPermitted as reason:
        return str(reason)


def completed(record: dict[str, Any], watch: sampler.Sampler, crash: str | None) -> dict[str, Any]:
    """Return a run's record with the memory that its process tree was seen to use, and what is to be said of that."""
    warnings = list(record["warnings"])
    interval = record.pop("sampled", None)
    if interval:
        record["memory"] = watch.summary(**interval)
        warnings += filter(None, (sampler.growing(record["memory"]["growth"]), sampler.copying(record["memory"])))
    if crash:  # measured, verified and written: it crashed on its way out
        hint = "the number stands; expect the same at the end of a training"
        warnings.append(warning("crash-at-exit", f"after the measurement {crash}", "a library ends badly", hint))
    return {**record, "warnings": warnings}


def preload() -> None:
    """Import what the process of every run has imported, a fork and a fresh interpreter alike; it stays.

    What is imported leaves its mark on the allocator (glibc's mmap threshold is twice as high after tensordict). The
    garbage collector is not to look through it within a window: a worker process would pay for that with a copy.
    """
    import torch.utils.data  # noqa: F401

    for name in PRELOADED:
        with suppress(ImportError):
            import_module(name)
    gc.collect()
    gc.freeze()


def new_record(module: ModuleType, result: Result) -> dict[str, Any]:
    """Return the record of a run that has not begun."""
    data = location.from_json(result.location)
    folder = data.path or data.index or Path(data.uri)
    said = declared(module, result.settings, Path(result.corpus), folder, result.dataset, result.seed)
    return begun(
        "run",
        result,
        **{name: getattr(result, name) for name in ("loader", "tier", "task", "cache", "step_ms", "mode", "attempt")},
        protocol=PROTOCOL,
        format=module.FORMAT,
        split=SPLIT,
        location=result.location["uri"],
        declared=said,
        lifetime=said["lifetime"],
        emulated=emulated(result),
        **dict.fromkeys(FOUND),
    )


def emulated(result: Result) -> dict[str, Any] | None:
    """Return what the run's storage passes for: `name`, `source` and what is emulated; None of the storage itself."""
    service = result.location.get("service")
    if service is None:
        return emulation.limits({"emulate": result.emulate})
    return plugins.load("tiers", service["kind"]).emulated(service["options"])


def measure(module: ModuleType, asked: Result, pool: Any = None, rank: Any = None) -> dict[str, Any]:
    """Take the loader through the protocol and return the run's record, whatever happens to the loader.

    `pool`: the batches that the in-memory ceiling of a run streams, where a warm server has them already. `rank`:
    which one of several processes that share its epochs this is (measure/ranks.py).
    """
    record = new_record(module, asked)
    proof = read_json(Path(asked.proof)) if asked.proof else None
    if proof and proof["declared"]["version"] != record["declared"]["version"]:
        return without_speed(record, "failed", CHANGED)
    if asked.file:
        try:
            module = _own_epochs.imported(module)
        except Exception as error:
            traceback.print_exc()
            return without_speed(
                record, "failed", f"{type(error).__name__}: {error}{_own_epochs.users_line(error, module)}"
            )
    transform = asked.transform or transforms.defined(record["settings"].get("transform"), {})
    missing = [name for name, version in record["declared"]["versions"].items() if version is None]
    env = isolated.env_of(module)
    missing += [name for name in transforms.required(transform) if isolated.version_of(name, env) is None]
    if missing:
        return without_speed(record, "skipped", f"not installed: {', '.join(missing)}")
    reason = allocator.chosen(record["settings"]["allocator"])
    if reason:
        return without_speed(record, "skipped", reason)
    import torch

    from scripts.common.corpus import Corpus
    from scripts.measure import ceiling, checksums, run, unsent

    if asked.mode != "proof":  # which times nothing
        preload()
    unsent.tell()
    torch.set_num_threads(record["threads"])
    corpus, placed = Corpus(Path(asked.corpus)), reached(location.from_json(asked.location))
    request = request_for(record, module, corpus, placed.split(SPLIT), rank.share if rank else Share())
    if transform:
        applied = Applied(transform, corpus.sample.key, corpus.sample_rate, request.seed)
        request = replace(request, applied=applied)
        size = applied.size(corpus.sample) / corpus.sample.bytes
        record["transformed"] = {"in": applied.place(request), "random": applied.random, "size": size}
    record["items"], record["item_bytes"] = request.items, corpus.sample.bytes
    found = never(module, request, asked.task, asked.cache)
    reason = found.reason if found else cannot_run(module, request) or cannot_run(tasks.load(asked.task), request)
    if reason:
        return without_speed(record, "skipped", reason)
    epochs, refused = epochs_for(str(asked.epochs), request)
    if refused:
        return without_speed(record, "skipped", refused)
    owners = 1 if pool is None else 2  # this process, and the server that it is a fork of
    if proof:
        record["proof"] = facts.relied_on(vars(asked), proof)
        record |= {name: proof.get(name) for name in ("order", "lifetime", "own")}
        if pool is None and asked.mode == "run":
            pool = ceiling.pool_of(min(request.batch_size, request.items), request.sample)
    if pool is not None:
        ceiling.keep_from_workers(pool)
    kept = asked.path if asked.mode == "proof" else asked.proof
    wanted = run.Wanted(
        asked,
        epochs,
        seconds=asked.seconds if asked.epochs == "auto" else 0.0,
        validation=placed.split(VALIDATION),
        checksums=rank.checksums
        if rank and asked.mode == "proof"
        else Path(kept).with_suffix(".npy")
        if kept
        else None,
        start_seconds=_start_seconds(asked, proof),
        pool=pool,
        pool_owners=owners,
        rank=rank,
    )
    record = run.measure(module, request, corpus, record, wanted)
    if transform:
        record["transformed"]["in"] = applied.place(request)  # which opening the loader has shown
    if asked.mode == "proof" and record["status"] == "ok" and rank is None and wanted.checksums:
        record["checksums_hash"] = checksums.hash_of(wanted.checksums)
    return record


def _start_seconds(asked: Result, proof: Mapping[str, Any] | None) -> float:
    """Return what an epoch start is thought to take: by earlier runs, else by the proof."""
    if asked.start_seconds is None:
        return (proof or {}).get("epoch_start_seconds") or 0.0
    return asked.start_seconds


def request_for(
    record: Mapping[str, Any], module: ModuleType, corpus: Any, split: Location, share: Share
) -> LoaderRequest:
    """Return what the loader is asked for."""
    known = {"items": corpus.counts[SPLIT], "classes": corpus.classes, "sample_rate": corpus.sample_rate}
    known["corpus"] = corpus.root
    of_run = {"threads": record["threads"], "seed": record["seed"], "share": share}
    return replace(request_of(module, record["settings"], split, corpus.sample), **known, **of_run)


def epochs_for(wanted: str, request: LoaderRequest) -> tuple[int, str | None]:
    """Return (timed epochs, None), or (0, why the run would be too short): it would only drain its queues."""
    batches = -(-request.items // (request.batch_size * request.world))
    needed = max(LEAST_EPOCHS, -(-QUEUES * request.workers * request.prefetch // batches))
    if wanted == "auto":
        return needed, None
    if not wanted.isdigit() or int(wanted) < 1:
        raise UserError(f"--epochs: found {wanted!r}, allowed is auto or a whole number of at least 1")
    if int(wanted) * batches < QUEUES * request.workers * request.prefetch:
        return 0, (
            f"too short: {wanted} epochs are {int(wanted) * batches} batches, and {request.workers} workers with "
            f"prefetch {request.prefetch} need {QUEUES * request.workers * request.prefetch}; set measure.epochs to "
            f"{needed} or auto"
        )
    return int(wanted), None
