"""What all records share: how one begins, and why there is no number."""

from datetime import UTC, datetime
from types import ModuleType
from typing import Any

from scripts.common.errors import UserError
from scripts.common.request import LoaderRequest
from scripts.common.vocabulary import ERROR, UNSUITED
from scripts.plan.results import Measurement

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
