"""How reports write single facts of a result: its place, rank, speed, bottleneck, settings."""

import json
from collections.abc import Mapping
from typing import Any

from scripts.common.text import percent_text
from scripts.common.vocabulary import BOTTLENECKS
from scripts.decide.utilisation import TARGET_AU_PERCENT
from scripts.tables.bottlenecks import LEAST_PERCENT
from scripts.tables.columns import number_text, settings_text

AT_BOUND = 100.0  # percent; above it a result and its bound, which both scatter, have changed places
ABOVE_BOUND = 110.0  # more than what steady machines scatter: the bound was disturbed, or the result

Row = Mapping[str, Any]
Tables = Mapping[str, Any]


def place(row: Row) -> str:
    """Return which result a row is: the loader and its tier, where there is one."""
    return " on ".join(filter(None, (row["loader"], row["tier"])))


def rank_text(row: Row) -> str:
    """Return a rank interval such as ``1-4``; a dash for a single run."""
    if row["rank"] is None:
        return "-"
    return str(row["rank"]) if row["rank"] == row["rank_high"] else f"{row['rank']}-{row['rank_high']}"


def bottleneck_text(row: Row) -> str:
    """Return what a result's bottleneck is, or why it has none, in a sentence."""
    if not row["bottleneck"]:
        why = "a session measures it for the choice and your current loader, where parts can be left out"
        return f"The bottleneck is not known: {why}."
    if row["bottleneck"] == "none":
        return f"No part of its work takes {LEAST_PERCENT:g} % of the time."
    if row["bottleneck"] == "unclear":
        return "The bottleneck is inconclusive: no part stands out for sure."
    share = percent_text(row["bottleneck_percent"])
    return f"Bottleneck: {held_text(row)} ({share} of the time)."


def held_text(row: Row) -> str:
    """Return the name of a result's bottleneck, of a user's own Dataset with its costliest line."""
    text = BOTTLENECKS[row["bottleneck"]].text
    return f"{text}, {row['item_line']}" if row["bottleneck"] == "item" else text


def bound_text(percent: float) -> str:
    """Return in words where a result stands that has passed its bound; empty for one below it."""
    return "" if percent <= AT_BOUND else "at the bound" if percent <= ABOVE_BOUND else "above the bound"


def runs_text(row: Row) -> str:
    """Return how many runs a speed is of, such as ``2 runs``: said where these are too few for an interval."""
    return "1 run" if row["runs"] == 1 else f"{row['runs']} runs"


def interval_text(row: Row, between: str = " to ") -> str:
    """Return the ends of a speed's interval; where there is none, of how many runs it is."""
    if row["interval_low"] is None:
        return runs_text(row)
    return f"{number_text(row['interval_low'])}{between}{number_text(row['interval_high'])}"


def times_text(low: float, high: float) -> str:
    """Return the interval of a ratio of speeds, such as ``1.20 to 1.40 times``."""
    return f"{number_text(low)} to {number_text(high)} times"


def au_text(au: float | None) -> str:
    """Return AU in percent; what misses the target does not read as if it had it: 89.9 % at the most."""
    if au is None or au >= TARGET_AU_PERCENT or au < TARGET_AU_PERCENT - 0.5:
        return percent_text(au)
    return f"{min(au, TARGET_AU_PERCENT - 0.1):.1f} %"


def unusual_settings(row: Row) -> str:
    """Return a result's settings in words, without the loader's own options that are as they are by default."""
    defaults = row["declared"]["options"]
    options = json.loads(row["options"] or "{}")
    kept = {name: value for name, value in options.items() if name not in defaults or defaults[name] != value}
    return settings_text({**row, "options": json.dumps(kept)})


def kind_of(tables: Tables) -> str:
    """Return the kind of the tables' data."""
    return ((tables["dataset"]["corpus"] or {}).get("sample") or {}).get("kind", "audio")
