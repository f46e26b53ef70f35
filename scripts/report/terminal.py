"""What the terminal says: what to use, how sure that is, what it gives; then one table, and what could not run."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from scripts.common.groups import grouped
from scripts.common.scenarios import scenarios
from scripts.common.vocabulary import BOTTLENECKS, LIFETIMES, NO_ROOM, NOT_LEADING, ORDERS, RAM_FULL, SLOWER, WHOLE
from scripts.decide.panel import asked, main_panel, with_speed
from scripts.report.changes import comparison_lines
from scripts.report.groups import compared_once
from scripts.report.kept import kept_text
from scripts.report.machines import machine_lines
from scripts.report.others import read_baseline, with_others
from scripts.report.sentences import (
    TITLES,
    answer_of,
    caution_text,
    gain,
    goal_text,
    headline,
    how_sure,
    keeps_up_text,
    longer,
    lost_texts,
    target_text,
    training_text,
    transform_texts,
    with_transform_texts,
)
from scripts.report.shown import of_each_loader
from scripts.report.texts import interval_text, place, rank_text, times_text
from scripts.tables import item_lines
from scripts.tables.columns import number_text

WIDTH = 100  # columns; nothing printed is wider but a command
MOST_REASONS, MOST_NAMED = 3, 4  # for which something was skipped, and loaders by name
MOST_CAUTIONS = 5  # that are printed; the page has all
_HEADS = ("rank", "loader", "tier", "settings", "items/s", "95 % interval", "% bound")
_HEADS += ("AU", "batch", "order", "bottleneck")
_TEXTS = (1, 2, 3)  # columns that are cut where a line would be too long
_NUMBERS = (0, 4, 5, 6)  # columns that stand on the right
_BOLD, _RED, _PLAIN = "\033[1m", "\033[31m", "\033[0m"

Row = Mapping[str, Any]
Tables = Mapping[str, Any]


def answer_lines(tables: Tables, colour: bool) -> list[str]:
    """Return the lines to print, at most WIDTH columns each; ANSI codes only where `colour` is true."""
    lines: list[str] = []
    for answer in tables["verdict"]["answers"]:
        lines += _wrapped(_first(tables, answer), colour)
        lines += [*_table_of(tables, answer, colour), *_legend(tables, answer), *_cold(tables, answer, colour)]
        lines += [*_wrapped(_goals(tables, answer), colour), ""]
    for text in transform_texts(tables):
        lines += [*textwrap.wrap(_clean(text), WIDTH, subsequent_indent="  "), ""]
    return [*lines, *_items(tables), *_ladder(tables["ladder"]), *_others(tables), *_kept(tables)]


def summary_lines(tables: Tables) -> list[str]:
    """Return the lines that say what to use, how sure that is and what it gives; empty where nothing has a speed."""
    answer = answer_of(tables)
    if answer["choice"] is None:
        return []
    return [line for line in _wrapped(_first(tables, answer), False) if line]


def ranking_lines(tables: Tables, colour: bool) -> list[str]:
    """Return the table of each scenario, a row for the best settings of each loader and tier."""
    candidates = {one["id"]: one for answer in tables["verdict"]["answers"] for one in answer["candidates"]}
    lines: list[str] = []
    for scenario in scenarios(tables["best"]):
        rows = [row for row in tables["best"] if row["scenario"] == scenario]
        lines += [_title(tables, rows[0]), *_table(rows, candidates, colour), ""]
    return lines or ["The plan has no run that could be ranked.", ""]


def _first(tables: Tables, answer: Row) -> Iterator[tuple[int, str, str]]:
    """Yield (indent, text, ANSI code) of what to use, how sure that is, what it gives, and what was lost."""
    if text := training_text(tables):
        yield 0, text, _BOLD
    yield 0, headline(tables, answer), _BOLD
    yield 0, how_sure(answer) + _longer(tables, answer), ""
    if text := gain(tables, answer):
        yield 0, text, ""
    for text in with_transform_texts(tables, answer):
        yield 0, text, ""
    for text in lost_texts(answer):
        yield 0, f"Lost: {text}", _RED
    yield 0, "", ""


def _longer(tables: Tables, answer: Row) -> str:
    """Return what to type for a session that settles the answer; nothing where none is known to."""
    found = longer(tables, answer)
    return f" {found['length']} should settle it: `{found['command']}`" if found else ""


def _table_of(tables: Tables, answer: Row, colour: bool) -> list[str]:
    """Return the table of an answer's scenario, one row a loader."""
    rows = main_panel(tables["ranking"], answer["device"])
    if not rows:
        return ["The plan has no run that could be ranked.", ""]
    candidates = {one["id"]: one for one in answer["candidates"]}
    shown = compared_once(of_each_loader(rows, answer), tables["best"])
    return [_title(tables, rows[0]), *_table(shown, candidates, colour)]


def _legend(tables: Tables, answer: Row) -> list[str]:
    """Return what the columns of the table mean."""
    step = tables["verdict"]["yours"]["step_ms"]
    known = any(one["source"] != "unknown" for one in answer["candidates"])
    text = (
        f"AU: share of time in training steps, at your {step:g} ms step; ✓: {target_text()} or more. " if known else ""
    )
    text += "rank 1-3: its place is between 1 and 3. batch: how long it stays valid. "
    text += "% bound: of what this machine can do."
    return [*textwrap.wrap(text, WIDTH), ""] if answer["choice"] else []


def _cold(tables: Tables, answer: Row, colour: bool) -> list[str]:
    """Return the table of what was measured from a cold cache with the same task; nothing where nothing was."""
    same = {"device": answer["device"], "cache": "cold", "task": "read", "step_ms": 0}
    rows = [row for row in tables["best"] if all(row[name] == value for name, value in same.items())]
    rows = [row for row in rows if row["status"] in ("ok", "failed")]
    if not rows or rows[0]["scenario"] == answer["scenario"]:  # the table above is of these
        return []
    return [_title(tables, rows[0]), *_table(rows, {}, colour), ""]


def _table(rows: Sequence[Row], candidates: Mapping[str, Row], colour: bool) -> list[str]:
    cells = [_HEADS, *(_cells(row, candidates.get(row["id"])) for row in rows)]
    kept = [column for column in range(len(_HEADS)) if any(line[column] not in ("", "-") for line in cells[1:])]
    widths = {column: max(len(line[column]) for line in cells) for column in kept}
    while sum(widths.values()) + len(widths) - 1 > WIDTH:
        widths[max(set(_TEXTS) & widths.keys(), key=widths.__getitem__)] -= 1
    lines = []
    for line, row in zip(cells, [None, *rows], strict=True):
        texts = ((column, _cut(line[column], width)) for column, width in widths.items())
        padded = (text.rjust(widths[at]) if at in _NUMBERS else text.ljust(widths[at]) for at, text in texts)
        code = _BOLD if row is None or row["rank"] == 1 else _RED if row["status"] == "failed" else ""
        text = " ".join(padded).rstrip()
        lines.append(f"{code}{text}{_PLAIN}" if colour and code else text)
    return lines


def _cells(row: Row, candidate: Row | None) -> tuple[str, ...]:
    names = (_clean(row["loader"]), _clean(row["tier"]) or "-", _clean(_settings(row)))
    if row["status"] != "ok":
        return ("-", *names, row["status"], "", "", "", "", "", "")
    percent = row["percent_of_bound"]
    return (
        rank_text(row),
        *names,
        number_text(row["items_per_second"]),
        interval_text(row, " - "),
        "-" if percent is None else number_text(percent, 2),
        keeps_up_text(candidate) if candidate and candidate["source"] != "unknown" else "-",
        LIFETIMES[row["batch_lifetime"]].word if row["batch_lifetime"] else "-",
        ORDERS[row["order_measured"]].word if row["order_measured"] else "-",
        BOTTLENECKS[row["bottleneck"]].word if row["bottleneck"] else "-",
    )


def _settings(row: Row) -> str:
    """Return the slug without what the scenario's name says: the device, task, cache and step."""
    said = {row["device"], row["task"], row["cache"], *([f"step{row['step_ms']:g}"] if row["step_ms"] else [])}
    return "-".join(part for part in row["slug"].split("-") if part.replace("_", ".") not in said)


def _goals(tables: Tables, answer: Row) -> Iterator[tuple[int, str, str]]:
    """Yield the answers to other goals than the first line's, and its cautions."""
    needed = set()
    for goal in answer["goals"]:
        if goal["id"] is not None or goal["lacking"] not in needed:
            yield 0, f"{TITLES[goal['goal']]}: {goal_text(tables, goal)}", ""
        needed |= {goal["lacking"]} - {None}
    said = {"few_rounds", "all_disturbed"} & {*answer["confidence"]["doubts"]}
    hidden = said | ({"disturbed"} if "all_disturbed" in said else set())
    for caution in [one for one in answer["cautions"] if one["code"] not in hidden][:MOST_CAUTIONS]:
        yield 0, f"Caution: {caution_text(caution)}", ""


def _items(tables: Tables) -> list[str]:
    """Return, for each loader of the user's own, the lines that take an item's time."""
    texts: dict[str, str] = {}
    for row in tables["ranking"]:
        if said := item_lines.text(row):
            texts.setdefault(row["loader"], f"{row['loader']}: {said}")
    lines = [line for text in texts.values() for line in textwrap.wrap(_clean(text), WIDTH, subsequent_indent="  ")]
    return [*lines, ""] if lines else []


def _ladder(steps: Sequence[Row]) -> list[str]:
    """Return the ladder: of each step what changes, its speed, and how many times the step below it is."""
    if not steps:
        return []
    cells = [("step", "what changes", "loader", "items/s", "times the step below")]
    for step in steps:
        gained = times_text(step["faster_low"], step["faster_high"]) if step["faster_low"] else ""
        speed = number_text(step["items_per_second"]) if step["items_per_second"] else step["status"]
        cells.append((str(step["step"]), _clean(step["change"]), _clean(place(step)), speed, gained))
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    return [*(_cut("  ".join(map(str.ljust, line, widths)).rstrip(), WIDTH) for line in cells), ""]


def _others(tables: Tables) -> list[str]:
    """Return what else there is: the other scenarios, what was skipped, and how steady the machine was."""
    shown = {answer["scenario"] for answer in tables["verdict"]["answers"]}
    names = [one for one in scenarios(tables["best"]) if one not in shown and "cold" not in one]
    lines = [f"Also measured: {'; '.join(names)}."] if names else []
    lines += _of_a_part(tables)
    gone = [row for row in tables["skipped"] if row["status"] == "skipped"]
    had = {row["loader"] for row in with_speed(tables["best"])}
    never = [row for row in gone if row["loader"] not in had]
    for reason, rows in list(grouped(never, "reason").items())[:MOST_REASONS]:
        names = [*dict.fromkeys(row["loader"] for row in rows)]
        shown = ", ".join(names) if len(names) <= MOST_NAMED else f"{len(names)} loaders, {names[0]} among them"
        lines.append(_clean(f"Skipped: {shown}: {reason}."))
    if any(row["reason_code"] == NOT_LEADING for row in gone):
        lines += ["From a cold cache the leaders alone were measured; all: measure='{cold: all}'."]
    varied = [row["variation_percent"] for row in tables["noise"] if row["variation_percent"] is not None]
    lines += [f"The control run varied by {max(varied):.1f} % over the session."] if varied else []
    return [line for text in lines for line in textwrap.wrap(text, WIDTH)]


def _of_a_part(tables: Tables) -> list[str]:
    """Return which loaders were measured with a part of the items alone, and how to measure all with all."""
    measured = with_speed(tables["best"])
    whole = {row["loader"] for row in measured if row["size"] == WHOLE}
    names = [*dict.fromkeys(row["loader"] for row in measured if row["size"] != WHOLE and row["loader"] not in whole)]
    if not names or not whole:
        return []
    items = tables["dataset"]["part"]
    codes = {(row["loader"], row["reason_code"]) for row in tables["skipped"]}
    lines = []
    for code, why, advice in (
        (NO_ROOM, "the disk has no room for all", "free some, then type the same command"),
        (RAM_FULL, "RAM has no room for all", "name a disk in storage"),
        (SLOWER, "they were slower on these", "measure='{part: none}' measures them with all"),
    ):
        found = [name for name in names if (name, code) in codes]
        names = [name for name in names if name not in found]
        if found:
            lines.append(
                f"With {items:,} items alone, since {why}: {', '.join(map(_clean, found))}. To change it: {advice}."
            )
    return lines


def _kept(tables: Tables) -> list[str]:
    text = kept_text(tables["dataset"])
    return textwrap.wrap(_clean(text), WIDTH) if text else []


def _title(tables: Tables, row: Row) -> str:
    cache = ", files in memory (warm page cache)" if row["cache"] == "warm" else ""
    return f"{row['scenario']}, data set {_clean(tables['dataset']['dataset'])}{cache}"


def _wrapped(texts: Iterable[tuple[int, str, str]], colour: bool) -> list[str]:
    """Return the lines of (indent, text, ANSI code). A command at the end has a line of its own, to be copied whole."""
    lines = []
    for indent, text, code in texts:
        blank = " " * indent
        typed = re.search(r" `(snakemake [^`]*)`$", text)
        prose = text[: typed.start()] if typed else text
        wrapped = textwrap.wrap(_clean(prose), WIDTH, initial_indent=blank, subsequent_indent=f"{blank}  ") or [""]
        wrapped += [f"{blank}    {_clean(typed[1])}"] if typed else []
        lines += [f"{code}{line}{_PLAIN}" if colour and code else line for line in wrapped]
    return lines


def baseline_lines(tables: Tables) -> list[str]:
    """Return what changed since the session that `report.baseline` names; nothing where it names none."""
    folder = asked(tables, "baseline")
    if not folder:
        return []
    lines = comparison_lines(tables, read_baseline(folder))
    return [*(line for text in lines for line in textwrap.wrap(_clean(text), WIDTH, subsequent_indent=" " * 8)), ""]


def machines_lines(tables: Tables) -> list[str]:
    """Return what `report.machines` says beside this machine; nothing where it names none."""
    lines = list(machine_lines(with_others(tables)))
    wrapped = (line for text in lines for line in textwrap.wrap(_clean(text), WIDTH, subsequent_indent=" " * 6))
    return [*wrapped, ""] if lines else []


def _clean(text: str) -> str:
    """Return `text` without line breaks and control codes, which a terminal would obey."""
    return "".join(sign if sign.isprintable() else "?" for sign in text.replace("\n", " "))


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 2]}.."
