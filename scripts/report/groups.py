"""What the report says by putting the tables' rows together: groups, sentences' parts, facts."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from scripts.common.groups import grouped
from scripts.common.scenarios import scenarios
from scripts.common.vocabulary import PARTS
from scripts.decide.panel import key
from scripts.report.texts import place
from scripts.tables.columns import bytes_text, number_text

_CACHES = (("L2", "l2_cache_bytes"), ("L3", "l3_cache_bytes"))
_STORAGE = ("filesystem", "kind", "device", "model", "scheduler")  # columns of tiers.csv
Rows = list[dict[str, Any]]


def compared_once(ranking: Rows, best: Rows) -> Rows:
    """Return the rows of `ranking`; the best ones with rank and times slower as among each other, the others unranked.

    So a page compares two results once: as the verdict and the terminal do, which choose among the best ones.
    """
    columns = ("rank", "rank_high", "times_slower_than_best", "slower_low", "slower_high")
    known = {key(row): {name: row[name] for name in columns} for row in best}
    return [{**row, **known.get(key(row), {"rank": None, "rank_high": None})} for row in ranking]


def holding(best: Rows, parts: Rows) -> list[dict[str, Any]]:
    """Return of each scenario the parts that were left out, and its rows with each part's share of the time in
    percent.

    Panels in which nothing was left out are not there: of a training AU alone says what the bottleneck is.
    """
    shares = {
        result: {row["part"]: row["percent"] for row in same}
        for result, same in grouped(parts, "loader", "tier", "slug").items()
    }
    explained = grouped((row for row in best if row["bottleneck"]), "scenario")
    groups = []
    for scenario in scenarios(best):
        pairs = [(row, shares.get(key(row), {})) for row in explained.get(scenario, ())]
        found = [part for part in PARTS if any(part in one for _, one in pairs)]
        if found:
            groups.append({"scenario": scenario, "parts": found, "rows": pairs})
    return groups


def step_text(row: Mapping[str, Any]) -> str:
    """Return a result's minimum step: blank where it was not tried."""
    return "" if row["minimum_step_ms"] is None else f"{number_text(row['minimum_step_ms'], 2)} ms"


def grouped_skips(skipped: Rows) -> list[dict[str, Any]]:
    """Return one entry per status and reason, with the (loader, tier, settings) that it holds for."""
    return [
        {"status": status, "reason": reason, "places": [f"{place(row)} ({row['slug']})" for row in same]}
        for (status, reason), same in grouped(skipped, "status", "reason").items()
    ]


def grouped_warnings(warnings: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one entry per kind of warning: how often, where, and some of what was seen."""
    groups = grouped(warnings, "code", "cause", "hint")
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
        return place(row)
    return f"tier {row['tier']}" if row["tier"] else row["slug"]


def facts(value: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return nested facts as (name, text) in the order given; unknown ones (None, empty) are left out."""
    found: list[tuple[str, str]] = []
    for word, part in value.items():
        name = f"{prefix}{str(word).removesuffix('_bytes').replace('_', ' ')}"
        if isinstance(part, Mapping):
            found += facts(part, f"{name}: ")
        elif str(word).endswith("_bytes") and isinstance(part, int | float):
            found.append((name, bytes_text(part)))
        elif isinstance(part, list):
            found += [(name, ", ".join(map(str, part)))] if part else []
        elif part is not None and part != "":
            found.append((name, str(part)))
    return found


_UNKNOWN = "not known"


def machine_card(tables: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what decides a data loader's speed on the machine with the most runs, as (name, text) of one card.

    What no record says is ``not known``.
    """
    hosts, tiers = tables["host"]["hosts"], tables["tiers"]
    host: Mapping[str, Any] = hosts[0]["host"] if hosts else {}
    counts = (
        ("cores", "logical"),
        ("cores_allowed", "used here"),
        ("physical_cores_allowed", "physical of these"),
        ("cpu_quota", "by quota"),
    )
    caches = [f"{level} {bytes_text(host[name])}" for level, name in _CACHES if host.get(name)]
    gpus = [*(host.get("gpus") or []), *([f"driver {host['gpu_driver']}"] if host.get("gpu_driver") else [])]
    software = [f"{name} {host[part]}" for name, part in (("glibc", "glibc"), ("Python", "python")) if host.get(part)]
    system = " ".join(filter(None, (host.get("system"), host.get("kernel"))))
    first, last = (tables["host"][f"{end}_started"] for end in ("first", "last"))
    texts = {
        "CPU": host.get("cpu") if isinstance(host.get("cpu"), str) else "",
        "cores": ", ".join(f"{host[name]:g} {words}" for name, words in counts if host.get(name)),
        "caches": ", ".join(caches),
        "SMT": host.get("smt"),
        "NUMA nodes": host.get("numa_nodes"),
        "governor": host.get("governor"),
        "RAM": bytes_text(host.get("memory_bytes")),
        "transparent huge pages": host.get("transparent_huge_pages"),
        **{f"storage, {row['tier']}": ", ".join(filter(None, (row[name] for name in _STORAGE))) for row in tiers},
        "GPU": ", ".join(gpus) if hosts and gpus else "none" if "gpus" in host else "",
        "kernel": ", ".join(filter(None, (system, *software))),
        "commit": ", ".join(one["commit"] for one in tables["host"]["commits"] if one["commit"]),
        "measured": f"{first} to {last}" if first else "",
    }
    return [(name, str(text or _UNKNOWN)) for name, text in texts.items()]


def machine_text(hosts: list[Mapping[str, Any]]) -> str:
    """Return the first machine's processor, memory and GPUs in a few words."""
    host = hosts[0]["host"] if hosts else {}
    cores = f"{host['cores_allowed']} cores" if host.get("cores_allowed") else ""
    memory = bytes_text(host["memory_bytes"]) if host.get("memory_bytes") else ""
    cpu = host["cpu"] if isinstance(host.get("cpu"), str) else ""
    gpus = Counter(host.get("gpus") or ())
    named = (f"{count} x {name}" if count > 1 else name for name, count in gpus.items())
    return ", ".join(filter(None, (cpu, cores, memory, *named)))
