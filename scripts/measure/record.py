"""What the programs that write records share: how a record begins, a fresh process, and why there is no number."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

from scripts.common.errors import UserError
from scripts.common.files import write_json
from scripts.common.request import LoaderRequest
from scripts.common.vocabulary import ERROR, UNSUITED
from scripts.measure import launch
from scripts.measure.launch import Job
from scripts.measure.sampler import Sampler
from scripts.plan.results import Measurement
from scripts.plan.sweep import slug

LEAST_EPOCHS = 2
NOT_KNOWN = ("items", "item_bytes", "host", "before", "after")  # what each record has, once it is known
Record = dict[str, Any]


def begun(kind: str, measured: Measurement, **more: Any) -> Record:
    """Return the record of what has not been measured yet; `more` are the fields of its kind."""
    return {
        **{"record": kind, "status": "ok", "reason": None, "reason_code": None},
        **{name: getattr(measured, name) for name in ("dataset", "repeat", "slug", "settings", "seed")},
        **{"threads": threads_of(measured.threads), **dict.fromkeys(NOT_KNOWN), "warnings": []},
        "started": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        **more,
    }


def without_speed(record: Record, status: str, reason: str, code: str = "") -> Record:
    """Return `record` as one that gives no number, with the reason why: its words, and its code, a key of REASONS."""
    why = {"reason": reason, "reason_code": code or (UNSUITED if status == "skipped" else ERROR)}
    return {**record, "status": status, **why, "items_per_second": None, "au_percent": None}


def measure_afresh(measured: Measurement, out: Path, new_record: Callable[[Any], Record]) -> None:
    """Write the record of what a process of its own measures, or why that crashed."""
    out.unlink(missing_ok=True)
    with launch.told_to_end():
        ended = launch.run(Job(measured, out, threads_of(measured.threads)), Sampler(gpu=False))
    launch.exit_if_lost(ended)
    if ended.cause:
        words = {"status": "failed", "reason": ended.reason, "reason_code": ended.cause}
        write_json(out, {**new_record(measured), **words})


def failed(record: Record, error: Exception) -> Record:
    """Return the record of a measurement that an error ended."""
    return {**record, "status": "failed", "reason": f"{type(error).__name__}: {str(error).splitlines()[0]}"}


def threads_of(value: str | int) -> int:
    """Return the number of threads that a --threads value stands for. Raises UserError for any other value."""
    if value == "auto":
        from scripts.machine.cores import cores_allowed

        return cores_allowed()
    if not str(value).isdigit() or int(value) < 1:
        raise UserError(f"--threads: found {value!r}, allowed is auto or a whole number of at least 1")
    return int(value)


def cannot_run(module: ModuleType | None, request: LoaderRequest) -> str | None:
    """Return why this request cannot run on this machine, or None."""
    from scripts.machine import gpu

    if request.device == "cuda" and not gpu.available():
        return "no GPU that torch can use is visible to this process"
    unsuited = getattr(module, "unsuited", None)
    return unsuited(request) if unsuited else None


def with_settings(measured: Measurement) -> Measurement:
    """Return a bound's measurement with its settings completed, and named by them."""
    settings = {"device": "cpu", "batch_size": 32, **measured.settings}
    return replace(measured, settings=settings, slug=slug(settings))
