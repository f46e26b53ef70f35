"""What the programs that write records share."""

from typing import Any


def without_speed(record: dict[str, Any], status: str, reason: str) -> dict[str, Any]:
    """Return `record` as one that gives no number, with the reason why."""
    return {**record, "status": status, "reason": reason, "clips_per_second": None, "au_percent": None}
