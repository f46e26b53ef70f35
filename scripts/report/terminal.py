"""What the terminal says: the best settings of each loader and tier, what could not run, what to use."""

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scripts.common.vocabulary import BOTTLENECKS
from scripts.report.changes import comparison_lines
from scripts.report.confidence import confidence
from scripts.report.kept import kept_text
from scripts.report.machines import machine_lines
from scripts.report.others import read_baseline, with_others
from scripts.report.verdict_texts import FEW_RUNS, Caution, asked, choice_text, interval_text, rank_text
from scripts.report.verdict_texts import place as place_of
from scripts.report.verdicts import verdicts
from scripts.tables.columns import number_text, scenarios, settings_text

MOST_TIES = 3  # that are named beside a goal's answer
WIDTH = 100  # columns; nothing printed is wider but a command
_HEADS = ("rank", "loader", "tier", "settings", "items/s", "95 % interval", "% of bound", "bottleneck", "first s")
_TEXTS = (1, 2, 3)  # columns that are cut where a line would be too long
_NUMBERS = (0, 4, 5, 6, 8)  # columns that stand on the right
_BOLD, _RED, _PLAIN = "\033[1m", "\033[31m", "\033[0m"

Row = Mapping[str, Any]


def ranking_lines(tables: Mapping[str, Any], colour: bool) -> list[str]:
    """Return the lines to print, at most WIDTH columns each; ANSI codes only where `colour` is true."""
    lines: list[str] = []
    best = tables["best"]
    names = scenarios(best)
    for scenario in names:
        rows = [row for row in best if row["scenario"] == scenario]
        lines += [_title(tables, scenario), *_table(rows, colour), ""]
    if not names:
        lines += ["The plan has no run that could be ranked.", ""]
    lines += _caveats(best)
    lines += _steadiness(tables["noise"])
    if text := kept_text(tables["dataset"]):
        lines += [*textwrap.wrap(_clean(text), WIDTH), ""]
    lines += _reasons(
        "failed", ((place_of(row), row["reason"]) for row in tables["ranking"] if row["status"] == "failed")
    )
    for status in ("missing", "skipped"):
        lost = [row for row in tables["skipped"] if row["status"] == status]
        lines += _reasons(status, ((_skipped(row), row["reason"]) for row in lost))
    return lines


def _table(rows: Sequence[Row], colour: bool) -> list[str]:
    cells = [_HEADS, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    while sum(widths) + len(widths) - 1 > WIDTH:
        widths[max(_TEXTS, key=lambda column: widths[column])] -= 1
    lines = []
    for line, row in zip(cells, [None, *rows], strict=True):
        texts = [_cut(text, width) for text, width in zip(line, widths, strict=True)]
        padded = (
            text.rjust(width) if column in _NUMBERS else text.ljust(width)
            for column, (text, width) in enumerate(zip(texts, widths, strict=True))
        )
        code = _BOLD if row is None or row["rank"] == 1 else _RED if row["status"] == "failed" else ""
        text = " ".join(padded).rstrip()
        lines.append(f"{code}{text}{_PLAIN}" if colour and code else text)
    return lines


def _cells(row: Row) -> tuple[str, ...]:
    names = (_clean(row["loader"]), _clean(row["tier"]) or "-", _clean(_settings(row)))
    if row["status"] != "ok":
        return ("-", *names, row["status"], "", "", "", "")
    percent = row["percent_of_bound"]
    return (
        rank_text(row),
        *names,
        number_text(row["items_per_second"]),
        interval_text(row, " - "),
        "-" if percent is None else number_text(percent, 2),
        BOTTLENECKS[row["bottleneck"]].word if row["bottleneck"] else "-",
        number_text(row["first_batch_seconds"]) or "-",
    )


def _settings(row: Row) -> str:
    """Return the slug without what the scenario's name says: the device, task, cache and step."""
    said = {row["device"], row["task"], row["cache"], *([f"step{row['step_ms']:g}"] if row["step_ms"] else [])}
    return "-".join(part for part in row["slug"].split("-") if part.replace("_", ".") not in said)


def _caveats(best: Sequence[Row]) -> list[str]:
    runs = [row["runs"] for row in best if row["status"] == "ok"]
    if not runs:
        return ["No loader has a verified speed.", ""]
    text = (
        "Rank 3-5: 2 results are surely faster, all from the 6th on surely slower, by ratios within rounds; any false "
        "difference in a table has a chance of 4 %, with 3 rounds up to 8 %. The interval is that of a speed by "
        "itself. % of bound: of what the same consumer takes from memory, or of what storage gives, measured beside "
        "each result. Settings: b batch size, w workers, p prefetch, then the allocator and the loader's own. first s: "
        "seconds until the first batch."
    )
    if any(row["bottleneck"] for row in best):
        text += " Bottleneck: looked for in the leaders, and in what you have now."
    return [*textwrap.wrap(text, WIDTH), ""]


def _steadiness(noise: Sequence[Row]) -> list[str]:
    """Return a line for each device: how much its least steady control run varied, and whether it drifted."""
    worst: dict[str, Row] = {}
    for row in noise:
        varied = row["variation_percent"]
        if varied is not None and varied > worst.get(row["device"], {"variation_percent": -1.0})["variation_percent"]:
            worst[row["device"]] = row
    lines = []
    for device, row in worst.items():
        text = (
            f"The machine ({device.upper()}): the control run (batch {row['batch_size']}), made "
            f"{row['control_runs']} times over the session, varied by {row['variation_percent']:.1f} % "
            f"(slowest to fastest {row['range_percent']:.1f} %)"
        )
        drifts = [one for one in noise if one["device"] == device and one["drift_seen"]]
        if drifts:
            drift = max((one["drift_percent"] for one in drifts), key=abs)
            text += f", and became {abs(drift):.1f} % {'slower' if drift < 0 else 'faster'} in its second half"
        lines += textwrap.wrap(f"{text}.", WIDTH)
    return [*lines, ""] if lines else []


def verdict_lines(tables: Mapping[str, Any], colour: bool) -> list[str]:
    """Return the lines that say what to use for each goal, or what an answer needs, at most WIDTH columns each.

    Of the fastest they say all. What several goals need, and the cautions of any, stands there once.
    """
    found = verdicts(tables)
    texts, needed = [(0, "What to use", _BOLD), (2, confidence(tables, found[0]).text, "")], set()
    for verdict in found:
        if verdict["row"] or verdict["lacking"] not in needed:
            texts += _verdict_texts(verdict)
        needed |= set() if verdict["row"] else {verdict["lacking"]}
    minded = ((*one["cautions"], Caution("lacking", one["lacking"])) for one in found if one["row"])
    said = (caution for one in minded for caution in one if caution.text)
    texts += [(2, f"Caution: {text}", "") for text in _together(dict.fromkeys(said))]
    return [*_wrapped(texts, colour), ""]


def _together(cautions: Iterable[Caution]) -> list[str]:
    """Return their texts, of those that ask for more runs one: in a short session that is said of most results."""
    cautions = list(cautions)
    few = [one.text for one in cautions if one.code == FEW_RUNS]
    if len(few) < 2:
        return [one.text for one in cautions]
    others = f"{len(few) - 1} other{'s' if len(few) > 2 else ''}"
    together = f"{few[0].removesuffix('.')}, and so do the few of {others}."
    return [together, *(one.text for one in cautions if one.code != FEW_RUNS)]


def summary_lines(tables: Mapping[str, Any]) -> list[str]:
    """Return of the lines those of the fastest alone: the table of its scenario, confidence, what to use.

    Empty where nothing has a speed.
    """
    first = verdicts(tables)[0]
    if first["row"] is None:
        return []
    scenario = first["row"]["scenario"]
    rows = [row for row in tables["best"] if row["scenario"] == scenario]
    texts = [(0, "What to use", ""), (2, confidence(tables, first).text, ""), *_verdict_texts(first)]
    return [_title(tables, scenario), *_table(rows, colour=False), "", *_wrapped(texts, colour=False)]


def _title(tables: Mapping[str, Any], scenario: str) -> str:
    row = next(row for row in tables["best"] if row["scenario"] == scenario)
    cache = ", files in memory (warm page cache)" if row["cache"] == "warm" else ""
    return f"{scenario}, data set {_clean(tables['dataset']['dataset'])}{cache}"


def _wrapped(texts: Iterable[tuple[int, str, str]], colour: bool) -> list[str]:
    """Return the lines of (indent, text, ANSI code). A command at the end has a line of its own, to be copied whole."""
    lines = []
    for indent, text, code in texts:
        blank = " " * indent
        typed = re.search(r" `(snakemake [^`]*)`$", text)
        prose = text[: typed.start()] if typed else text
        wrapped = textwrap.wrap(_clean(prose), WIDTH, initial_indent=blank, subsequent_indent=f"{blank}  ")
        wrapped += [f"{blank}    {_clean(typed[1])}"] if typed else []
        lines += [f"{code}{line}{_PLAIN}" if colour and code else line for line in wrapped]
    return lines


def _verdict_texts(verdict: Row) -> list[tuple[int, str, str]]:
    """Return (indent, text, ANSI code) of what is said of one goal: of the fastest all, of the others one text."""
    row = verdict["row"]
    if row is None:
        return [(2, f"{verdict['title']}: no answer. {verdict['lacking']}", "")]
    settings = ", ".join(filter(None, (f"format {row['format']}", settings_text(row))))
    if verdict["goal"] not in ("fastest", "fastest_cold"):
        use = f"{verdict['title']}: {place_of(row)}"
        return [(2, f"{use} ({settings}), {verdict['fact']}{_tied(verdict['ties'], MOST_TIES)}", "")]
    texts = [(2, f"{verdict['title']}: {choice_text(verdict)}", _BOLD)]
    if verdict["form"] == "noisy":
        return texts
    texts += [(4, f"Settings: {settings}", ""), (4, verdict["reason"], "")]
    return texts + ([(4, verdict["against"]["text"], "")] if verdict["against"] else [])


def _tied(ties: Sequence[Row], most: int) -> str:
    """Return the rows that cannot be distinguished in words, the first `most` of them by name."""
    named = [place_of(row) for row in ties[:most]]
    more = len(ties) - len(named)
    named += [f"{more} {'more' if named else 'other' if more == 1 else 'others'}"] if more else []
    return f"; not distinguishable from {', '.join(named)}" if named else ""


def baseline_lines(tables: Mapping[str, Any]) -> list[str]:
    """Return what changed since the session that `report.baseline` names; nothing where it names none."""
    folder = asked(tables, "baseline")
    if not folder:
        return []
    lines = comparison_lines(tables, read_baseline(folder))
    return [*(line for text in lines for line in textwrap.wrap(_clean(text), WIDTH, subsequent_indent=" " * 8)), ""]


def machines_lines(tables: Mapping[str, Any]) -> list[str]:
    """Return what `report.machines` says beside this machine; nothing where it names none."""
    lines = list(machine_lines(with_others(tables)))
    wrapped = (line for text in lines for line in textwrap.wrap(_clean(text), WIDTH, subsequent_indent=" " * 6))
    return [*wrapped, ""] if lines else []


def _skipped(row: Row) -> str:
    """Return what could not run: on a GPU, where it is that which is lacking."""
    return f"{place_of(row)} on a GPU" if row["device"] == "cuda" else place_of(row)


def _reasons(status: str, pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Return the lines of one status: each reason once, with the loaders that share it."""
    groups: dict[str, list[str]] = {}
    for place, reason in pairs:
        groups.setdefault(_clean(reason), []).append(_clean(place))
    if not groups:
        return []
    lines = [f"{status}:"]
    for reason, places in groups.items():
        text = f"{', '.join(dict.fromkeys(places))}: {reason}"
        lines += textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")
    return [*lines, ""]


def _clean(text: str) -> str:
    """Return `text` without line breaks and control codes, which a terminal would obey."""
    return "".join(sign if sign.isprintable() else "?" for sign in text.replace("\n", " "))


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 2]}.."
