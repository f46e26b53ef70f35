"""The tables as reports show them."""

from pathlib import Path
from typing import Any

from scripts.tables.columns import COLUMNS, read_tables


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
