"""Says which line of a user's own Dataset an item's time goes to, from the items that ran line by line
(measure/item_lines.py).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from scripts.common.groups import names_of
from scripts.common.text import number_text, percent_text
from scripts.common.vocabulary import ITEM_PARTS

OTHER = "other"
LEAST_PERCENT = 50.0  # of the workers' time: from there on items are the bottleneck without trials that say so

Row = Mapping[str, Any]


def columns(row: Row) -> dict[str, Any]:
    """Return `item_ms`, `item_parts` and `item_line` of a result; blank of what is no user's own Dataset."""
    found = row.get("item_lines")
    if not found or found["reason"]:
        return {"item_ms": None, "item_parts": "", "item_line": f"not known: {found['reason']}" if found else ""}
    shares = sorted(found["parts"].items(), key=lambda pair: -pair[1])
    parts = ", ".join(f"{ITEM_PARTS[part].word} {percent_text(100 * share)}" for part, share in shares)
    return {"item_ms": found["item_ms"], "item_parts": parts, "item_line": costliest(found)}


def text(row: Row) -> str:
    """Say in a sentence how an item's time divides, of the three columns above; nothing where they are blank."""
    if row["item_ms"] is None:
        return f"Which line of your Dataset costs what is {row['item_line']}." if row["item_line"] else ""
    return f"An item takes {number_text(row['item_ms'], 2)} ms: {row['item_parts']}. Costliest: {row['item_line']}."


def costliest(found: Row) -> str:
    """Return the costliest part and its line: `decode 62 % (mine.py:41)`. Of what has no name, the line of code."""
    named = {part: share for part, share in found["parts"].items() if part != OTHER}
    part = max(named, key=named.__getitem__, default=None)
    lines = [line for line in found["lines"] if line["part"] == part]
    rest = [line for line in found["lines"] if line["part"] == OTHER]
    if rest and (part is None or not lines or rest[0]["share"] > named[part]):
        line = rest[0]
        where = f"{line['file']}:{line['line']}: {line['code']}" if line["file"] else "in libraries"
        return f"{percent_text(100 * line['share'])} {where}"
    if part is None:
        return ""
    at = next((f" ({line['file']}:{line['line']})" for line in lines if line["file"]), "")
    return f"{ITEM_PARTS[part].word} {percent_text(100 * named[part])}{at}"


def told(row: Row, held: tuple[str, float | None, str]) -> tuple[str, float | None, str]:
    """Return what holds a result back, of a user's own Dataset by its lines.

    What leaving out the read stage saves is all of `__getitem__`, unless decoding is a stage of its own. Without
    such trials items are the bottleneck where they take most of the time of the workers.
    """
    found, (part, percent, evidence) = row.get("item_lines"), held
    if not found or found["reason"]:
        return held
    trials = row.get("bottleneck_trials")
    if trials and not (part == "read" and "decode" not in trials["without"]):
        return held
    if not trials:
        if part or not row.get("items_per_second"):
            return held
        percent = min(100.0, row["items_per_second"] * found["item_ms"] / 10 / max(1, row["workers"] or 0))
        if percent < LEAST_PERCENT:
            return held
    said = columns(row)
    lines = f"an item takes {number_text(found['item_ms'], 2)} ms: {said['item_parts']}; {said['item_line']}"
    return "item", percent, "; ".join(filter(None, (lines, evidence)))


def rows(results: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Yield the rows of item_lines.csv: of each result of a user's own Dataset its lines, the most expensive first."""
    for result in results:
        for line in (result.get("item_lines") or {}).get("lines", ()):
            names = {name: line[name] for name in ("file", "line", "code", "function", "part", "ms")}
            yield {**names_of(result), **names, "percent": 100 * line["share"]}
