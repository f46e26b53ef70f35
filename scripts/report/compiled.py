"""A model that torch.compile made faster: how much shorter is its step, and what stalls then?"""

from collections.abc import Mapping
from typing import Any

from scripts.common.settings import IN_COLUMNS
from scripts.common.text import percent_text
from scripts.decide.panel import key, speeds_of
from scripts.decide.rounds import FINAL_ERROR
from scripts.decide.sessions import table_of
from scripts.decide.utilisation import TARGET_AU_PERCENT
from scripts.report.texts import place
from scripts.tables.columns import number_text

PLAIN, COMPILED = "train", "train_compiled"
_SAME = ("loader", "tier", *IN_COLUMNS, "options")

Row = Mapping[str, Any]
Tables = Mapping[str, Any]


def compiled(tables: Tables) -> list[dict[str, Any]]:
    """Return a row for each result that trained the model both as it is and compiled, the fastest compiled one first.

    `plain`, `compiled`: their rows of the ranking. `plain_ms`, `compiled_ms`: the time in a step. `ratio`: how many
    times faster the compiled one trains, a Comparison. `text`: what that says of the loader.
    """
    trained = [row for row in tables["ranking"] if row["items_per_second"] and row["au_percent"] is not None]
    plain = {tuple(row[name] for name in _SAME): row for row in trained if row["task"] == PLAIN}
    found = [
        _row(tables, plain[same], row)
        for row in trained
        if row["task"] == COMPILED and (same := tuple(row[name] for name in _SAME)) in plain
    ]
    return sorted(found, key=lambda one: -one["compiled"]["items_per_second"])


def _row(tables: Tables, plain: Row, faster: Row) -> dict[str, Any]:
    ratio = table_of(speeds_of(tables, [faster, plain]), FINAL_ERROR).compare(key(faster), key(plain))
    both = {"plain": plain, "compiled": faster, "plain_ms": _step_ms(plain), "compiled_ms": _step_ms(faster)}
    return both | {"ratio": ratio, "text": _text(both)}


def _step_ms(row: Row) -> float:
    """Return the milliseconds of a training step: what of the time of a full batch is no waiting."""
    return 10 * row["au_percent"] * row["batch_size"] / row["items_per_second"]


def _text(both: Mapping[str, Any]) -> str:
    """Return what the loader does to the faster step."""
    steps = f"step {number_text(both['plain_ms'])} to {number_text(both['compiled_ms'])} ms"
    before, after = (both[name]["au_percent"] for name in ("plain", "compiled"))
    if after >= TARGET_AU_PERCENT:
        return f"{steps}: {place(both['compiled'])} feeds both."
    waits = f"{percent_text(100 - after)} of the time waits for it"
    return f"{steps}: {waits}, {percent_text(100 - before)} before."
