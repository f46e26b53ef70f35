"""What the report says by putting the tables' rows together: groups, sentences' parts, facts."""

from collections.abc import Iterable, Mapping
from typing import Any

from scripts.common.vocabulary import PARTS
from scripts.tables.columns import bytes_text, conditions, number_text

Rows = list[dict[str, Any]]


def by_condition(rows: Iterable[dict[str, Any]]) -> list[tuple[str, Rows]]:
    """Return (condition, its rows) of each condition that there is, in the order of `rows`."""
    rows = list(rows)
    return [(condition, rows_of(rows, "condition", condition)) for condition in conditions(rows)]


def rows_of(rows: Iterable[dict[str, Any]], column: str, value: Any) -> Rows:
    """Return the rows with `value` in `column`."""
    return [row for row in rows if row[column] == value]


def holding(best: Rows, parts: Rows) -> list[dict[str, Any]]:
    """Return of each condition the parts that were left out, and its rows with each part's share of the time in
    percent.

    Panels in which nothing was left out are not there: of a training AU alone says what the bottleneck is.
    """
    shares: dict[tuple[str, ...], dict[str, float]] = {}
    for row in parts:
        shares.setdefault((row["loader"], row["tier"], row["slug"]), {})[row["part"]] = row["percent"]
    groups = []
    for condition, rows in by_condition(row for row in best if row["bottleneck"]):
        pairs = [(row, shares.get((row["loader"], row["tier"], row["slug"]), {})) for row in rows]
        found = [part for part in PARTS if any(part in one for _, one in pairs)]
        if found:
            groups.append({"condition": condition, "parts": found, "rows": pairs})
    return groups


def step_text(row: Mapping[str, Any]) -> str:
    """Return a result's minimum step: blank where none was looked for, ``> 200 ms`` beyond the limit."""
    if row["step_limit_ms"] is None:
        return ""
    if row["minimum_step_ms"] is None:
        return f"> {row['step_limit_ms']:g} ms"
    return f"{number_text(row['minimum_step_ms'], 2)} ms"


def grouped_skips(skipped: Rows) -> list[dict[str, Any]]:
    """Return one entry per status and reason, with the (loader, tier, settings) that it holds for."""
    groups: dict[tuple[str, str], list[str]] = {}
    for row in skipped:
        place = " on ".join(filter(None, (row["loader"], row["tier"])))
        groups.setdefault((row["status"], row["reason"]), []).append(f"{place} ({row['slug']})")
    return [{"status": status, "reason": reason, "places": places} for (status, reason), places in groups.items()]


def grouped_warnings(warnings: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one entry per kind of warning: how often, where, and some of what was seen."""
    groups: dict[tuple[str, str, str], Rows] = {}
    for row in warnings:
        groups.setdefault((row["code"], row["cause"], row["hint"]), []).append(row)
    return [
        {
            **{"code": code, "cause": cause, "hint": hint, "count": len(rows)},
            "seen": list(dict.fromkeys(row["seen"] for row in rows)),
            "places": list(dict.fromkeys(_place(row) for row in rows)),
        }
        for (code, cause, hint), rows in groups.items()
    ]


def _place(row: Mapping[str, Any]) -> str:
    if row["loader"]:
        return f"{row['loader']} on {row['tier']}"
    return f"tier {row['tier']}" if row["tier"] else row["slug"]


def facts(value: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return nested facts as (name, text) in the order given; unknown ones (None, empty) are left out."""
    found: list[tuple[str, str]] = []
    for key, part in value.items():
        name = f"{prefix}{str(key).removesuffix('_bytes').replace('_', ' ')}"
        if isinstance(part, Mapping):
            found += facts(part, f"{name}: ")
        elif str(key).endswith("_bytes") and isinstance(part, int | float):
            found.append((name, bytes_text(part)))
        elif isinstance(part, list):
            found += [(name, ", ".join(map(str, part)))] if part else []
        elif part is not None and part != "":
            found.append((name, str(part)))
    return found


def machine_text(hosts: list[Mapping[str, Any]]) -> str:
    """Return the first machine's processor and memory in a few words."""
    host = hosts[0]["host"] if hosts else {}
    cores = f"{host['cores_allowed']} cores" if host.get("cores_allowed") else ""
    memory = bytes_text(host["memory_bytes"]) if host.get("memory_bytes") else ""
    cpu = host["cpu"] if isinstance(host.get("cpu"), str) else ""
    return ", ".join(filter(None, (cpu, cores, memory)))
