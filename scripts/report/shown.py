"""The tables as reports show them."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scripts.tables.columns import COLUMNS, read_tables

Row = Mapping[str, Any]


def shown_tables(folder: Path) -> dict[str, Any]:
    """Return what `read_tables` gives, with emulated tiers called so wherever a row names one."""
    tables = read_tables(folder)
    emulated = {row["tier"] for row in tables["tiers"] if row["emulated"]}
    for name in COLUMNS:
        for row in tables[name]:
            if row.get("tier") in emulated:
                row["tier"] = tier_text(row["tier"], True)
    return tables


def tier_text(tier: str, emulated: bool) -> str:
    """Return what a report calls a tier."""
    return f"{tier} (emulated)" if emulated else tier


def of_each_loader(rows: Iterable[Row], answer: Row) -> list[Row]:
    """Return one result of each loader, the fastest first: what the verdict names, else its fastest.

    What has no speed stands last; what could not run on this machine is left out.
    """
    found: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: (row["id"] != answer["choice"], -(row["items_per_second"] or 0.0))):
        if row["status"] != "skipped":
            found.setdefault(row["loader"], row)
    return sorted(found.values(), key=lambda row: -(row["items_per_second"] or 0.0))
