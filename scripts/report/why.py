"""Why the choice, and the current loader, are as fast as they are, and what was measured to be faster."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from scripts.common.statistics import Comparison
from scripts.common.text import percent_text
from scripts.common.vocabulary import PARTS
from scripts.decide.panel import compared, key
from scripts.report.sentences import rows_by_id
from scripts.report.texts import bottleneck_text, place, times_text
from scripts.tables.columns import number_text

CHOICE, NOW, BOTH = "To use", "Your current loader", "To use, and your current loader"
FIRST = "The safest of the leaders"  # of which none is recommended
MOST_PARTS = 4  # of a batch's time in a sentence

Row = Mapping[str, Any]
Tables = Mapping[str, Any]


def reasons(tables: Tables, answer: Row) -> list[dict[str, Any]]:
    """Return of the choice and of the current loader its `title`, `row`, `text` and `opportunities`, sentences.

    An opportunity is a measured difference that is significantly one: between it and another loader of the same files,
    between it and the choice, from its step of the ladder to a later one; and what is left without its bottleneck,
    which no faster way of doing that part surpasses.
    """
    return [
        {
            "title": title,
            "row": row,
            "text": text(tables, row),
            "opportunities": list(_opportunities(tables, answer, row)),
        }
        for title, row in contrasted(tables, answer)
    ]


def contrasted(tables: Tables, answer: Row) -> list[tuple[str, Row]]:
    """Return (what it is, its row) of the choice and of the user's current loader."""
    if answer["choice"] is None:
        return []
    rows = rows_by_id(tables)
    first, had = rows[answer["choice"]], answer["now"] and rows[answer["now"]["id"]]
    if had is first:
        return [(BOTH, had)]
    return [(FIRST if answer["form"] == "noisy" else CHOICE, first), *([(NOW, had)] if had else [])]


def text(tables: Tables, row: Row) -> str:
    """Return what the time of a result's batches is made of, in two or three sentences."""
    milliseconds = 1000 * row["batch_size"] / row["items_per_second"]
    took = f"{place(row)}: a batch of {row['batch_size']} comes every {number_text(milliseconds)} ms."
    parts = [part for part in _of(tables["parts"], row) if part["percent"] >= 1][:MOST_PARTS]
    if parts:
        shares = ", ".join(
            f"{PARTS[part['part']].text.partition(':')[0]} {percent_text(part['percent'])}" for part in parts
        )
        took += f" Of that, which may overlap: {shares}."
    return " ".join(filter(None, (took, bottleneck_text(row), _waited(tables, row))))


def _waited(tables: Tables, row: Row) -> str:
    """Return which share of its noted time the main process waited for batches; nothing where none was noted.

    On a GPU, whose host runs ahead, such a share says nothing.
    """
    if row["device"] != "cpu":
        return ""
    spent = {"wait": 0.0, "step": 0.0}
    for span in _of(tables["spans"], row):
        if span["track"] == "main" and span["phase"] in spent:
            spent[span["phase"]] += span["end_ms"] - span["start_ms"]
    total = sum(spent.values())
    if not total:
        return ""
    return f"In its timeline the main process waits {percent_text(100 * spent['wait'] / total)} of the time."


def _opportunities(tables: Tables, answer: Row, row: Row) -> Iterator[str]:
    part = row["bottleneck"] if row["bottleneck"] in PARTS else ""
    takes = f"{PARTS[part].text} takes {percent_text(row['bottleneck_percent'])}: " if part else ""
    named = set()
    if same := _same_files(tables, row):
        ratio, rival = same
        named.add(key(rival))
        found = times_text(ratio.low, ratio.high)
        yield f"{takes}{rival['loader']} delivers the same {row['format']} files {found} faster here."
    now, first = answer["now"], rows_by_id(tables)[answer["choice"]]
    if row is not first and now and (now["low"] or 0) > 1 and first["format"] != row["format"]:
        took = next((one["seconds"] for one in tables["formats"] if one["format"] == first["format"]), None)
        wrote = f"; writing that format took {number_text(took)} s" if took else ""
        named.add(key(first))
        found = times_text(now["low"], now["high"])
        yield f"{first['loader']} reads the items as {first['format']}, {found} faster here{wrote}."
    yield from _ladder(tables, row, named)
    without = next((one["items_per_second_without"] for one in _of(tables["parts"], row) if one["part"] == part), None)
    if without:
        yield (
            f"Without {PARTS[part].text} {row['loader']} reached {number_text(without)} items/s here: no faster way of "
            "doing that alone gains more."
        )


def _same_files(tables: Tables, row: Row) -> tuple[Comparison, Row] | None:
    """Return how much faster the fastest is of the loaders of the same files that are significantly faster; None of
    none.
    """
    rivals = [
        one
        for one in tables["best"]
        if all(one[name] == row[name] for name in ("scenario", "tier", "format")) and one["items_per_second"]
    ]
    table = compared(tables, row).results  # on the tier of both
    pairs = [(table.compare(key(one), key(row)), one) for one in rivals if key(one) != key(row)]
    return max((pair for pair in pairs if pair[0].faster), key=lambda pair: pair[0].ratio, default=None)


def _ladder(tables: Tables, row: Row, named: Collection[tuple[str, str, str]]) -> Iterator[str]:
    """Yield the ladder's step above that of a result's loader, where it is significantly faster and no result of
    `named`.
    """
    below: Row | None = None
    for step in tables["ladder"]:
        if step["items_per_second"] is None:
            continue
        higher = below and below["loader"] == row["loader"] and (step["faster_low"] or 0) > 1
        if higher and not (key(below) == key(row) and key(step) in named):
            found = times_text(step["faster_low"], step["faster_high"])
            yield f"On the ladder, {step['change']} ({step['loader']}) is {found} faster here than {below['change']}."
        below = step


def _of(rows: Any, result: Row) -> list[Row]:
    return [row for row in rows if key(row) == key(result)]
