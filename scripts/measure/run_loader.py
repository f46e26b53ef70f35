"""Measures one loader once: a fresh process, one split, one set of settings; writes one JSON record.

A loader that cannot run, that delivers wrong data or that breaks gives a record too, with the reason and no speed.
"""

import argparse
import json
import traceback
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

from scripts.common import isolated, plugins
from scripts.common.code import commit
from scripts.common.errors import UserError, run_main
from scripts.common.files import read_json, write_json
from scripts.common.request import LoaderRequest
from scripts.common.vocabulary import COLD, PROTOCOL, SPLIT, TRAINING
from scripts.loaders import _own, _own_epochs
from scripts.machine import control_groups, emulation
from scripts.measure import child, own_fault, sampler
from scripts.measure.declared import declared
from scripts.measure.record import without_speed
from scripts.plan.config import check_loader
from scripts.plan.sweep import Conditions, combinations, slug

LEAST_EPOCHS = 2
QUEUES = 20  # a run must be longer than this many times what workers and queues hold


def main() -> None:
    """Measure in a child process, and record its crash if it crashes."""
    arguments = parse()
    module = loader_of(arguments)
    isolated.enter(isolated.env_of(module))
    aside = arguments.out.with_name(f".{arguments.out.name}.measured")
    if child.is_child():
        write_json(aside, measure(module, arguments))
        return
    for path in (arguments.out, aside):
        path.unlink(missing_ok=True)
    code = {"commit": commit()}
    fault = own_fault.known(arguments.broken, module)
    if fault:
        write_json(arguments.out, without_speed(new_record(module, arguments) | code, "skipped", fault))
        return
    watch = sampler.Sampler(gpu=complete(module, arguments.settings)["device"] != "cpu")
    try:
        with group_for(arguments) as folders:
            crash = child.run_again(threads_of(arguments.threads), arguments.limit_minutes, watch, folders)
    except control_groups.NotPermitted as reason:
        write_json(arguments.out, without_speed(new_record(module, arguments) | code, "skipped", str(reason)))
        return
    if aside.is_file():
        record = own_fault.noted(arguments.broken, module, completed(read_json(aside), watch, crash))
        write_json(arguments.out, {**record, **code})
        aside.unlink()
    elif crash:
        crash += " (in its limit: measure more clips, or raise measure.limited_share)" * (arguments.cache == "limited")
        write_json(arguments.out, without_speed(new_record(module, arguments) | code, "failed", crash))


def loader_of(arguments: argparse.Namespace) -> ModuleType:
    """Return the loader that the command line names: what it declares, of one that is a file of the user's own."""
    if arguments.file is None:
        return plugins.load("loaders", arguments.loader)
    try:
        return _own.declared(arguments.loader, str(arguments.file))
    except UserError as error:
        raise UserError(f"--{error}") from None


def group_for(arguments: argparse.Namespace) -> AbstractContextManager[list[str]]:
    """Return what makes the control groups that the conditions ask for: their folders, none where they ask for none.

    Entering it raises NotPermitted where this machine or user cannot have them.
    """
    limits = emulation.limits({"emulate": arguments.emulate})
    if limits is None and arguments.cache != "limited":
        return nullcontext([])
    reads = {key: limits[key] for key in ("read_mbps", "read_iops")} if limits else {}
    return control_groups.group(arguments.data if limits else None, memory=arguments.cache == "limited", **reads)


def completed(record: dict[str, Any], watch: sampler.Sampler, crash: str | None) -> dict[str, Any]:
    """Return a run's record with the memory that its process tree was seen to use, and what is to be said of that."""
    warnings = list(record["warnings"])
    interval = record.pop("sampled", None)
    if interval:
        record["memory"] = watch.summary(**interval)
        found = (sampler.growing(record["memory"]["growth"]), sampler.copying(record["memory"]))
        warnings += [warning for warning in found if warning]
    if crash:  # measured, verified and written: it crashed on its way out
        warnings.append(crash_at_exit(crash))
    return {**record, "warnings": warnings}


def crash_at_exit(crash: str) -> dict[str, str]:
    """Return the warning of a run whose process crashed after its record was written."""
    return {
        "code": "crash-at-exit",
        "seen": f"after the measurement {crash}",
        "cause": "a library ends badly",
        "hint": "the number stands; expect the same at the end of a training",
    }


def parse() -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--loader", required=True, help="a file in scripts/loaders, without .py")
    add("--file", default=None, type=Path, help="the loader is this file of your own (docs/own_loader.md)")
    add("--broken", default=None, type=Path, help="where a run notes that --file is broken, for those after it")
    add("--data", required=True, type=Path, help="folder of the format that the loader reads, on its tier")
    add("--corpus", required=True, type=Path, help="folder of the corpus, which says what is right")
    add("--out", required=True, type=Path, help="the JSON record to write")
    add("--settings", default={}, type=json.loads, help='JSON, such as {"batch_size": 32, "workers": 2}')
    add("--epochs", default="auto", help="timed epochs; auto: as many as the run needs to be long enough")
    add("--seconds", default=1.0, type=float, help="with --epochs auto, time epochs for at least this long")
    add("--limit-minutes", default=120.0, type=float, help="a run that takes longer is ended, and failed")
    add("--threads", default="auto", help="of torch and OpenMP in the reading process; auto: the cores allowed")
    add("--task", default="traverse", choices=("traverse", "loop", *TRAINING), help="what is done with the batches")
    add("--cache", default="warm", choices=("warm", *COLD), help="state of the page cache when an epoch begins")
    add("--step-ms", default=0.0, type=float, help="wait so long after each batch, as for a training step")
    add("--explain", action="store_true", help="afterwards look for what holds the loader back")
    add("--timeline", action="store_true", help="afterwards note what each process does with the first batches")
    add("--step-limit-ms", default=0.0, type=float, help="look for the shortest step that is fed, up to here; 0: no")
    add("--limited-share", default=0.5, type=float, help="with --cache limited: what the cache may hold, of the data")
    add("--emulate", default=None, type=json.loads, help='JSON: {"read_mbps": 160, "read_iops": 120}, or "hdd_7200"')
    add("--logs", default=None, type=Path, help="TensorBoard's folder, of the tasks that train")
    add("--seed", default=0, type=int)
    add("--repeat", default=0, type=int)
    add("--dataset", default="by_hand")
    add("--tier", default="by_hand")
    arguments = parser.parse_args()
    if arguments.timeline and arguments.cache == "limited":
        raise UserError(
            "--timeline: found with --cache limited, whose limits do not last until then; allowed is --cache warm or "
            "cold: leave --timeline out"
        )
    return arguments


def threads_of(value: str) -> int:
    """Return the number of threads that a --threads value stands for."""
    if value == "auto":
        from scripts.machine.host import cores_allowed

        return cores_allowed()
    if not value.isdigit() or int(value) < 1:
        raise UserError(f"--threads: found {value!r}, allowed is auto or a whole number of at least 1")
    return int(value)


def complete(module: ModuleType, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return `given` settings completed and simplified as the plan does it; null where the loader has no use for one.

    Raises UserError for a setting that the loader does not understand or a value that the config would not take.
    """
    lists = {"device": ["cpu"], "batch_size": [32], "workers": [0], "prefetch": [2], "pin_memory": [False]}
    lists["device_prefetch"] = [0]
    lists |= {name: [fragment["default"]] for name, fragment in getattr(module, "OPTIONS", {}).items()}
    told = {name: [value] for name, value in given.items() if value is not None}
    own = {"file": str(module.OWN_FILE)} if hasattr(module, "OWN_FILE") else {}
    try:
        check_loader({"name": module.__name__.rpartition(".")[2], **own, **told})
    except UserError as error:
        raise UserError(
            str(error).replace("config: loaders[0].", "--settings: ").replace("--settings: name: ", "--loader: ")
        ) from None
    return next(combinations(module, lists | told))


def new_record(module: ModuleType, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the record of a run that has not begun."""
    settings = complete(module, arguments.settings)
    return {
        "record": "run",
        "protocol": PROTOCOL,
        "status": "ok",
        "reason": None,
        "dataset": arguments.dataset,
        "loader": arguments.loader,
        "format": module.FORMAT,
        "tier": arguments.tier,
        "split": SPLIT,
        "task": arguments.task,
        "cache": arguments.cache,
        "step_ms": arguments.step_ms,
        "repeat": arguments.repeat,
        "slug": slug(settings, Conditions(arguments.task, arguments.cache, arguments.step_ms)),
        "settings": settings,
        "declared": declared(module, settings, arguments.corpus, arguments.data, arguments.dataset, arguments.seed),
        "threads": threads_of(arguments.threads),
        "seed": arguments.seed,
        "clips": None,
        "clip_bytes": None,
        "times": None,
        "clips_per_second": None,
        "au_percent": None,
        "shortest_step": None,
        "explained": None,
        "spans": None,
        "training": None,
        "limits": None,
        "emulated": emulation.limits({"emulate": arguments.emulate}),
        "verification": None,
        "resources": None,
        "memory": None,
        "host": None,
        "versions": None,
        "commit": None,
        "before": None,
        "after": None,
        "warnings": [],
        "started": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def measure(module: ModuleType, arguments: argparse.Namespace) -> dict[str, Any]:
    """Take the loader through the protocol and return the run's record, whatever happens to the loader."""
    record = new_record(module, arguments)
    if arguments.file:
        try:
            module = _own_epochs.imported(module)
        except Exception as error:
            traceback.print_exc()
            return without_speed(
                record, "failed", f"{type(error).__name__}: {error}{_own_epochs.users_line(error, module)}"
            )
    missing = [name for name, version in record["declared"]["versions"].items() if version is None]
    if missing:
        return without_speed(record, "skipped", f"not installed: {', '.join(missing)}")
    import torch

    from scripts.common.corpus import Corpus
    from scripts.measure import run

    torch.set_num_threads(record["threads"])
    corpus = Corpus(arguments.corpus)
    request = request_for(record, module, corpus, arguments.data / SPLIT)
    record["clips"], record["clip_bytes"] = request.clips, module_bytes(corpus)
    reason = cannot_run(module, request) or cannot_be_cold(module, record["cache"], arguments.data)
    if reason:
        return without_speed(record, "skipped", reason)
    epochs, refused = epochs_for(arguments.epochs, request)
    if refused:
        return without_speed(record, "skipped", refused)
    wanted = run.Wanted(
        epochs=epochs,
        seconds=arguments.seconds if arguments.epochs == "auto" else 0.0,
        explain=arguments.explain,
        timeline=arguments.timeline,
        step_limit_ms=arguments.step_limit_ms,
        groups=tuple(child.joined),
        limited_share=arguments.limited_share,
        logs=arguments.logs,
    )
    return run.measure(module, request, corpus, record, wanted)


def module_bytes(corpus: Any) -> int:
    """Return the payload of one delivered clip: float32, whatever the format keeps on disk."""
    return corpus.samples * 4


def request_for(record: Mapping[str, Any], module: ModuleType, corpus: Any, data: Path) -> LoaderRequest:
    """Return what the loader is asked for."""
    settings = record["settings"]
    return LoaderRequest(
        data=data,
        clips=corpus.counts[SPLIT],
        samples=corpus.samples,
        classes=corpus.classes,
        batch_size=settings["batch_size"],
        workers=settings["workers"] or 0,
        prefetch=settings["prefetch"] or 1,
        pin_memory=bool(settings["pin_memory"]),
        device_prefetch=settings["device_prefetch"] or 0,
        threads=record["threads"],
        device=settings["device"],
        seed=record["seed"],
        options={name: settings[name] for name in getattr(module, "OPTIONS", {})},
    )


def cannot_run(module: ModuleType, request: LoaderRequest) -> str | None:
    """Return why this request cannot run on this machine, or None."""
    import torch

    if request.device == "cuda" and not torch.cuda.is_available():
        return "no GPU that torch can use is visible to this process"
    unsuited = getattr(module, "unsuited", None)
    return unsuited(request) if unsuited else None


def cannot_be_cold(module: ModuleType, cache: str, data: Path) -> str | None:
    """Return why an epoch cannot read from the device, or None."""
    from scripts.machine.devices import in_memory

    if cache in COLD and getattr(module, "READS_ONCE", False):
        return f"it reads everything when it is opened: no epoch is {cache}"
    if cache in COLD and in_memory(data):
        return f"files in RAM are never {cache}: measure on a tier that is a disk"
    return None


def epochs_for(wanted: str, request: LoaderRequest) -> tuple[int, str | None]:
    """Return (timed epochs, None), or (0, why the run would be too short): it would only drain its queues."""
    batches = -(-request.clips // request.batch_size)
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


if __name__ == "__main__":
    run_main(main)
