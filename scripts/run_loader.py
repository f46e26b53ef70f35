"""Measures one loader once: a fresh process, one split, one set of settings; writes one JSON record.

A loader that cannot run, that delivers wrong data or that breaks gives a record too, with the reason and no speed.
"""

import argparse
import json
import time
import traceback
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import plugins
from config import check_loader
from errors import UserError, run_main
from files import read_json, write_json
from loading import LoaderRequest
from measure import child, protocol
from plan import PROTOCOL, SPLIT, combinations, slug

LEAST_EPOCHS = 2
QUEUES = 20  # a run must be longer than this many times what workers and queues hold


def main() -> None:
    """Measure in a child process, and record its crash if it crashes."""
    arguments = parse()
    module = plugins.load("loaders", arguments.loader)
    if child.is_child():
        write_json(arguments.out, measure(module, arguments))
        return
    arguments.out.unlink(missing_ok=True)
    crash = child.run_again(threads_of(arguments.threads), arguments.limit_minutes)
    if crash and arguments.out.is_file():  # measured, verified and written: it crashed on its way out
        record = read_json(arguments.out)
        write_json(arguments.out, {**record, "warnings": [*record["warnings"], crash_at_exit(crash)]})
    elif crash:
        write_json(arguments.out, without_speed(new_record(module, arguments), "failed", crash))


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
    add("--data", required=True, type=Path, help="folder of the format that the loader reads, on its tier")
    add("--corpus", required=True, type=Path, help="folder of the corpus, which says what is right")
    add("--out", required=True, type=Path, help="the JSON record to write")
    add("--settings", default={}, type=json.loads, help='JSON, such as {"batch_size": 32, "workers": 2}')
    add("--epochs", default="auto", help="timed epochs; auto: as many as the run needs to be long enough")
    add("--seconds", default=1.0, type=float, help="with --epochs auto, time epochs for at least this long")
    add("--limit-minutes", default=120.0, type=float, help="a run that takes longer is ended, and failed")
    add("--threads", default="auto", help="of torch and OpenMP in the reading process; auto: the cores allowed")
    add("--cache", default="warm", choices=("warm", "cold"), help="state of the page cache when an epoch begins")
    add("--seed", default=0, type=int)
    add("--repeat", default=0, type=int)
    add("--dataset", default="by_hand")
    add("--tier", default="by_hand")
    return parser.parse_args()


def threads_of(value: str) -> int:
    """Return the number of threads that a --threads value stands for."""
    if value == "auto":
        from measure.host import cores_allowed

        return cores_allowed()
    if not value.isdigit() or int(value) < 1:
        raise UserError(f"--threads: found {value!r}, allowed is auto or a whole number of at least 1")
    return int(value)


def complete(module: ModuleType, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return `given` settings completed and simplified as the plan does it; null where the loader has no use for one.

    Raises UserError for a setting that the loader does not understand or a value that the config would not take.
    """
    lists = {"device": ["cpu"], "batch_size": [32], "workers": [0], "prefetch": [2], "pin_memory": [False]}
    lists |= {name: [fragment["default"]] for name, fragment in getattr(module, "OPTIONS", {}).items()}
    told = {name: [value] for name, value in given.items() if value is not None}
    try:
        check_loader({"name": module.__name__.rpartition(".")[2], **told})
    except UserError as error:
        raise UserError(str(error).replace("config: loaders[0].", "--settings: ")) from None
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
        "task": "traverse",
        "cache": arguments.cache,
        "repeat": arguments.repeat,
        "slug": slug(settings, arguments.cache),
        "settings": settings,
        "threads": threads_of(arguments.threads),
        "seed": arguments.seed,
        "clips": None,
        "clip_bytes": None,
        "times": None,
        "clips_per_second": None,
        "verification": None,
        "resources": None,
        "host": None,
        "versions": None,
        "before": None,
        "after": None,
        "warnings": [],
        "started": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def without_speed(record: dict[str, Any], status: str, reason: str) -> dict[str, Any]:
    """Return `record` as one of a run that gives no number, with the reason why."""
    return {**record, "status": status, "reason": reason, "clips_per_second": None}


def measure(module: ModuleType, arguments: argparse.Namespace) -> dict[str, Any]:
    """Take the loader through the protocol and return the run's record, whatever happens to the loader."""
    record = new_record(module, arguments)
    missing = [name for name in module.REQUIRES if not _installed(name)]
    if missing:
        return without_speed(record, "skipped", f"not installed: {', '.join(missing)}")
    import torch

    from corpus import Corpus

    torch.set_num_threads(record["threads"])
    corpus = Corpus(arguments.corpus)
    request = request_for(record, module, corpus, arguments.data / SPLIT)
    record["clips"], record["clip_bytes"] = request.clips, module_bytes(corpus)
    reason = cannot_run(module, request) or cannot_be_cold(record["cache"], arguments.data)
    if reason:
        return without_speed(record, "skipped", reason)
    epochs, refused = epochs_for(arguments.epochs, request)
    if refused:
        return without_speed(record, "skipped", refused)
    seconds = arguments.seconds if arguments.epochs == "auto" else 0.0
    return take_through(module, request, corpus, epochs, seconds, record)


def _installed(distribution: str) -> bool:
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


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


def cannot_be_cold(cache: str, data: Path) -> str | None:
    """Return why the data cannot be put out of the cache, or None."""
    from devices import in_memory

    if cache == "cold" and in_memory(data):
        return "files in RAM are never cold: measure on a tier that is a disk"
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


def take_through(
    module: ModuleType, request: LoaderRequest, corpus: Any, epochs: int, seconds: float, record: dict[str, Any]
) -> dict[str, Any]:
    """Run the protocol on one loader; return the record with times, verification, host and warnings."""
    from measure import host
    from measure.cache import ColdCache
    from measure.sink import Sink
    from measure.verify import Verifier

    verifier = Verifier(corpus, SPLIT, request.batch_size, max(1, request.workers), request.device)
    moments: dict[str, host.Moment] = {}
    record["host"], record["versions"] = host.describe(("torch", *module.REQUIRES))

    def around(phase: str) -> None:
        moments[phase] = host.look(time.perf_counter)

    try:
        if record["cache"] == "cold":
            cold = ColdCache(request.data, lambda: host.look(time.perf_counter).read_bytes)

            def opened(number: int) -> AbstractContextManager[protocol.Epoch]:
                return module.open_epochs(replace(request, seed=request.seed + number))

            sink = Sink(request.device)
            times = protocol.run_cold(opened, verifier, sink, epochs, time.perf_counter, cold, seconds, around)
        else:
            opened = partial(module.open_epochs, request)
            times = protocol.run(opened, verifier, Sink(request.device), epochs, time.perf_counter, seconds, around)
    except Exception as error:
        traceback.print_exc()
        record["verification"] = verifier.as_json()
        return without_speed(record, "failed", f"{type(error).__name__}: {_one_line(error, request)}")
    record["times"] = asdict(times)
    record["verification"] = verifier.as_json()
    if not verifier.ok:
        record["times"]["epochs"] = []
        return without_speed(record, "failed", "verification: " + " | ".join(verifier.problems))
    record["before"], record["after"] = moments["before"].as_json(), moments["after"].as_json()
    clips = sum(epoch.clips for epoch in times.epochs)
    record["resources"] = host.resources(**moments, clips=clips)
    payload = clips * record["clip_bytes"]
    record["warnings"] = host.disturbance(**moments)
    if record["cache"] == "warm":
        record["warnings"] += host.not_warm(**moments, payload_bytes=payload)
    warm = [epoch.cache["problem"] for epoch in times.epochs if epoch.cache and epoch.cache["problem"]]
    if len(warm) == len(times.epochs):
        return without_speed(record, "failed", f"not cold: {warm[0]}")
    if warm:
        record["warnings"].append(not_cold(warm, len(times.epochs)))
    record["clips_per_second"] = rate(times)
    return record


def not_cold(problems: list[str], epochs: int) -> dict[str, str]:
    """Return the warning of a cold run some of whose epochs were not."""
    return {
        "code": "not-cold",
        "seen": f"{len(problems)} of {epochs} epochs were not cold and do not count: {problems[0]}",
        "cause": "something else keeps the files in the page cache, or the loader reads ahead before its first epoch",
        "hint": "measure with more clips, and with nothing else that reads them",
    }


def _one_line(error: Exception, request: LoaderRequest) -> str:
    """Return an error's text as one line, without tracebacks inside it and without the path of the data."""
    lines = [line.strip() for line in str(error).splitlines()]
    noise = ("Traceback", "Original Traceback", "File ", "^", "~", "C++ context")
    text = " ".join(line for line in lines if line and not line.startswith(noise)) or "no message"
    return text.replace(str(request.data.parent), "...")[:300]


def rate(times: protocol.Times) -> float:
    """Return clips per second: the clips of all timed epochs over their wall-clock time; of cold ones, the valid."""
    valid = [epoch for epoch in times.epochs if not (epoch.cache and epoch.cache["problem"])]
    return sum(epoch.clips for epoch in valid) / sum(epoch.seconds for epoch in valid)


if __name__ == "__main__":
    run_main(main)
