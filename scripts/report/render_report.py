"""Renders the tables and figures as one HTML file that opens offline, on any screen, with or without scripts.

With --light it writes a second one, small enough for Snakemake's report, see light.py.

    feedrate report --tables results/tables/demo --figures report/figures --out report/index.html
"""

import argparse
import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import cache
from html import unescape
from pathlib import Path
from types import ModuleType
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from scripts.common.errors import UserError, run_main
from scripts.common.files import PROJECT, whole_file
from scripts.common.groups import grouped
from scripts.common.text import duration_text, percent_text
from scripts.common.versions import commit
from scripts.common.vocabulary import BOTTLENECKS, BOUNDS, PARTS, SPLIT
from scripts.decide.panel import key
from scripts.decide.utilisation import TARGET_AU_PERCENT
from scripts.report import charts
from scripts.report.away import away
from scripts.report.changes import changes, machines
from scripts.report.compiled import compiled
from scripts.report.config import code_text, config_text
from scripts.report.downloads import companion, csv_address, downloads
from scripts.report.groups import (
    compared_once,
    facts,
    grouped_skips,
    grouped_warnings,
    holding,
    machine_card,
    machine_text,
    step_text,
)
from scripts.report.hero import hero
from scripts.report.kept import kept_text
from scripts.report.light import lightened, picture_address
from scripts.report.machines import compared, speed_and_rank
from scripts.report.names import anonymous
from scripts.report.not_measured import minutes_text, not_measured
from scripts.report.others import with_others
from scripts.report.published import published
from scripts.report.sentences import (
    LACKING,
    TITLES,
    answer_of,
    caution_text,
    gain,
    headline,
    how_sure,
    longer,
    lost_texts,
    rows_by_id,
    training_text,
    value_text,
    with_transform_texts,
)
from scripts.report.shown import shown_tables
from scripts.report.snippets import companions, placed_program
from scripts.report.texts import au_text, bound_text, held_text, kind_of, rank_text, runs_text, unusual_settings
from scripts.report.why import reasons
from scripts.tables.bottlenecks import LEAST_PERCENT
from scripts.tables.columns import OF_DECODERS, OF_RANKS, TABLES, bytes_text, number_text, settings_text

TEMPLATE = PROJECT / "report" / "template"
STYLES = ("style.css", "tables.css", "figures.css", "hero.css", "print.css")
SCRIPTS = ("tables.js", "page.js", "model.js")
TAKES = (
    *("first_batch_seconds", "cpu_seconds_per_1000_items", "pss_peak_bytes", "pss_per_worker_peak_bytes"),
    *("threads_peak", "open_files_peak"),
)
_DARK = {"#1f2328": "#e6edf3", "#d0d7de": "#3d444d", "#ffffff": "#151b23"}  # INK, RULE, PAPER of charts/_common.py
_SHOWN = (
    "ranking",
    "best",
    "formats",
    "stages",
    "tiers",
    "training",
    "seconds",
    "tensors",
    "noise",
    "ladder",
    "break_even",
)
_TURNING = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\N{REPLACEMENT CHARACTER}")
_HEADING = re.compile(r'<h2 id="([\w-]+)">([^<]*)</h2>')


def render(tables: Mapping[str, Any], figures: Path, records: Path | None = None, light_of: str = "") -> str:
    """Return the report as HTML. Whatever comes from outside the template is escaped.

    `figures` is the folder of figures, `records` that of the tables, whose raw records are embedded
    where they are there and small enough. `light_of` is the path of the full report where the page is the light one
    for Snakemake's report, which names it. Raises UserError where a figure is absent.
    """
    tables = anonymous(with_others(tables))
    drawn = {name: shown(chart, tables) for name, chart in charts.every().items()}
    pictures = {name: picture(figures / f"{name}.svg") for name in drawn}
    parts = {
        "figures": {name: picture_address(svg) for name, svg in pictures.items()},
        "charts": drawn,
        **context(tables),
        "lacking": not_measured(tables, charts.every(), {name: chart["rows"] for name, chart in drawn.items()}),
        "lacking_minutes": minutes_text(tables),
        "downloads": downloads(tables, records),
        "light_of": anonymous(light_of),
    }
    if light_of:
        return lightened(parts, pictures, page)
    return page(parts)


def page(parts: Mapping[str, Any], too_large: bool = False) -> str:
    """Return the HTML of the template's variables, or where they are too large that of a page which says so."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=_visible,
    )
    best = {key(row) for row in parts["best"]}
    environment.filters |= {
        "number": number_text,
        "bytes": bytes_text,
        "duration": duration_text,
        "settings": settings_text,
        "unusual_settings": unusual_settings,
        "beyond": bound_text,
        "au": au_text,
        "rank": rank_text,
        "runs": runs_text,
        "speed_and_rank": speed_and_rank,
        "percent": percent_text,
        "step": step_text,
        "epochs": epochs_text,
        "coded": coded,
        "word": lambda part: BOTTLENECKS[part].word,
        "held_text": held_text,
        "bound_word": lambda bound: BOUNDS[bound].word,
        "is_best": lambda row: key(row) in best,
        "figure": lambda row, kind: figure_mark(kind, row) if key(row) in best else "",
    }
    environment.globals |= parts
    style = "\n".join((TEMPLATE / name).read_text(encoding="utf-8") for name in STYLES)
    if too_large:
        return environment.get_template("too_large.html.j2").render(style=style)
    head, main = (environment.get_template(f"{name}.html.j2").render() for name in ("verdict", "main"))
    scripts = [script(TEMPLATE / name) for name in SCRIPTS]
    return environment.get_template("report.html.j2").render(
        head=Markup(head),
        main=Markup(main),
        contents=[(name, unescape(title)) for name, title in _HEADING.findall(main)],
        style=style,
        scripts=scripts,
        policy=policy(scripts),
    )


def figure_mark(kind: str, row: Mapping[str, Any]) -> Markup:
    """Return the attribute that says which figure of which result an element has: the same text wherever it stands."""
    return Markup(' data-figure="{}"').format(f"{kind}:{'/'.join(key(row))}")


def _visible(value: Any) -> Any:
    """Return a value of the page; in text the signs that turn the direction of what follows are replaced."""
    return value.translate(_TURNING) if isinstance(value, str) else value


def shown(chart: ModuleType, tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the templates have of a chart: its words, its rows, and these as a CSV file."""
    rows = chart.rows(tables)
    words = {part.lower(): getattr(chart, part) for part in ("SECTION", "CAPTION", "NEEDS")}
    words["alt"] = f"Chart: {chart.TITLE}. {chart.QUESTION}"
    return {**words, "rows": rows, "csv": csv_address(rows)}


def context(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template's variables: the tables, and what they say when put together."""
    best, ranking, bounds = tables["best"], tables["ranking"], grouped(tables["bounds"], "bound")
    answer, rows = answer_of(tables), rows_by_id(tables)
    goals = [shown_goal(tables, one, goal) for one in tables["verdict"]["answers"] for goal in one["goals"]]
    row = rows.get(answer["choice"])
    return {
        **{name: tables[name] for name in (*_SHOWN, "dataset", "host")},
        "ranking": compared_once(ranking, best),
        "columns": {name: {one.name: one for one in table.columns} for name, table in TABLES.items()},
        "takes_columns": (*TAKES, *_more_columns(ranking)),
        "goals": goals,
        "answer": answer,
        "row": row,
        "row_program": {"row": row, "program": row and placed_program(row, tables["tiers"])},
        "your_training": training_text(tables),
        "headline": headline(tables, answer),
        "how_sure": how_sure(answer),
        "longer": longer(tables, answer),
        "gain": gain(tables, answer),
        "with_transforms": with_transform_texts(tables, answer),
        "lost": lost_texts(answer),
        "cautions": [caution_text(caution) for caution in answer["cautions"]],
        "companions": [companion(path) for path in companions("\n".join(goal["program"] for goal in goals))],
        "now": tables["dataset"]["report"].get("now"),
        "holding": holding(best, tables["parts"]),
        "part_names": [
            (part.word, part.about) for part in (*PARTS.values(), BOTTLENECKS["item"], BOTTLENECKS["waiting"])
        ],
        "least_percent": LEAST_PERCENT,
        "target_au_percent": TARGET_AU_PERCENT,
        "quantiles": quantiles(tables["latencies"]),
        "hero": hero(tables, answer),
        "reasons": reasons(tables, answer),
        "changes": _changes(tables),
        "beside": compared(tables),
        "away": away(tables),
        "published": published(tables),
        "kind": kind_of(tables),
        "compiled": compiled(tables),
        "bounds": [(kind, bounds[kind]) for kind in BOUNDS if kind in bounds],
        "bound_names": [(bound.word, bound.about) for bound in BOUNDS.values()],
        "bound_words": {kind: bound.text for kind, bound in BOUNDS.items()},
        "emulated": any(row["emulated"] for row in tables["tiers"]),
        "abouts": sorted({(row["loader"], row["about"]) for row in best if row["about"]}),
        "control_runs": {(row["device"], row["batch_size"]): row for row in bounds.get("in_memory", ())},
        "failed": [row for row in ranking if row["status"] == "failed"],
        "skipped": grouped_skips(tables["skipped"]),
        "warnings": grouped_warnings(tables["warnings"]),
        "tier_warnings": grouped_warnings(row for row in tables["warnings"] if row["tier"] and not row["loader"]),
        "machines": [(machine["runs"], facts(machine["host"])) for machine in tables["host"]["hosts"]],
        "machine_card": machine_card(tables),
        "machine_text": machine_text(tables["host"]["hosts"]),
        "source_text": source_text(tables["dataset"]),
        "epoch_batches": epoch_batches(best, tables["dataset"]["corpus"]),
        "disturbed_runs": sum(row["disturbed"] or 0 for row in ranking),
        "kept_text": kept_text(tables["dataset"]),
        "measured_runs": sum(row["runs"] or 0 for row in ranking),
        "measure": facts(tables["dataset"]["measure"]),
        "config": config_text(tables["dataset"]["config"]),
        "code": code_text(tables["host"]["commits"]),
        "page_commit": commit(),
    }


def _more_columns(ranking: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the columns of a result that are made from its runs, have a heading and no other place on the page.

    Those of ranks are there where a result is one of ranks, how decoders differ where one does, and where a transform
    was at work where there is one.
    """
    known = (*TAKES, "au_percent", "minimum_step_ms", *OF_RANKS, *OF_DECODERS, "transformed_in")
    found = [
        column.name
        for column in TABLES["ranking"].columns
        if column.heading and column.over_runs and column.name not in known
    ]
    found += list(OF_RANKS) if any(row["sharing"] for row in ranking) else []
    found += ["transformed_in"] if any(row["transform"] for row in ranking) else []
    return found + (list(OF_DECODERS) if any(row["differs_by"] is not None for row in ranking) else [])


def shown_goal(tables: Mapping[str, Any], answer: Mapping[str, Any], goal: Mapping[str, Any]) -> dict[str, Any]:
    """Return a goal with its title, rows, words, and the `program` to paste; that is empty without a result."""
    rows = rows_by_id(tables)
    row, several = rows.get(goal["id"]), len(tables["verdict"]["answers"]) > 1
    return {
        **goal,
        "title": TITLES[goal["goal"]] + (f" ({answer['device'].upper()})" if several else ""),
        "row": row,
        "tied": [rows[one] for one in goal["ties"]],
        "value_text": value_text(tables, goal) if row else "",
        "lacking_text": "" if row else LACKING[goal["lacking"]],
        "program": placed_program(row, tables["tiers"]) if row else "",
    }


def _changes(tables: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what changed since the session that `report.baseline` names; None where it names none."""
    baseline = tables.get("baseline")
    if baseline is None:
        return None
    when = (baseline["host"]["first_started"] or "")[:10]
    return {"rows": changes(tables, baseline), "machines": machines(tables, baseline), "when": when}


def quantiles(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str, str], dict[float, float]]:
    """Return {result: {percent: milliseconds}} from the rows of latencies.csv."""
    return {
        result: {row["percent"]: row["milliseconds"] for row in same}
        for result, same in grouped(rows, "loader", "tier", "slug").items()
    }


def source_text(dataset: Mapping[str, Any]) -> str:
    """Return which source the items come from, and how many are measured."""
    source = dataset["config"]["datasets"][dataset["dataset"]]["source"]
    items = (dataset["corpus"] or {}).get("items") or {}
    return ", ".join(filter(None, (source, items and f"{items.get(SPLIT, 0):,} items measured")))


def epoch_batches(best: Iterable[Mapping[str, Any]], corpus: Mapping[str, Any] | None) -> str:
    """Return how many batches an epoch has, by the batch sizes that occur; empty where that is not known."""
    items = ((corpus or {}).get("items") or {}).get(SPLIT)
    sizes = sorted({row["batch_size"] for row in best if row["batch_size"]})
    return " or ".join(f"{-(-items // size):,}" for size in sizes) if items else ""


def epochs_text(epochs: float) -> str:
    """Return a number of epochs, rounded up to whole ones."""
    whole = -int(-epochs // 1)
    return f"{whole:,} epoch{'' if whole == 1 else 's'}"


def coded(text: str) -> Markup:
    """Return text with what stands between backticks as code; all of it escaped."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a backtick without its partner is a backtick
        return Markup.escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else part for place, part in enumerate(parts)
    )


@cache
def script(path: Path) -> str:
    """Return a script of ours as it may stand in a page."""
    return _script(path.read_text(encoding="utf-8"))


def _script(text: str) -> str:
    """Return JavaScript in which nothing ends the element that it stands in, with the line ends that HTML makes."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return re.sub(r"<(?=/script|!--)", r"\\x3c", text, flags=re.IGNORECASE)


def policy(scripts: list[str]) -> str:
    """Return the sources of scripts that a page allows: these, by their hashes."""
    hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts)
    return " ".join(f"'sha256-{one}'" for one in hashes)


def picture(path: Path) -> str:
    """Return an SVG file that follows the reader's dark mode. Raises UserError where it is absent."""
    if not path.is_file():
        raise UserError(
            f"{path} is not there. Draw it: feedrate figures --tables results/tables/DATASET --out {path.parent}"
        )
    svg = path.read_text(encoding="utf-8")
    svg = svg[svg.index("<svg") :]
    rules = "".join(
        f'[style*="{what}: {light}"]{{{what}:{dark}!important}}'
        for light, dark in _DARK.items()
        for what in ("fill", "stroke")
    )
    opening = svg.index(">") + 1
    return f"{svg[:opening]}<style>@media screen and (prefers-color-scheme:dark){{{rules}}}</style>{svg[opening:]}"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the program's options."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tables", required=True, type=Path, help="folder of tables, such as results/tables/demo")
    options.add_argument("--figures", required=True, type=Path, help="folder of figures, such as report/figures")
    options.add_argument("--out", required=True, type=Path, help="HTML file to write")
    options.add_argument("--light", type=Path, help="a small HTML file without charts to hover, for Snakemake's report")
    return options


def main(arguments: argparse.Namespace) -> None:
    """Write the report."""
    sources = (shown_tables(arguments.tables), arguments.figures, arguments.tables)
    pages = {arguments.out: render(*sources)}
    if arguments.light:
        pages[arguments.light] = render(*sources, light_of=str(arguments.out))
    for path, html in pages.items():
        with whole_file(path) as file:
            file.write(html)


if __name__ == "__main__":
    run_main(lambda: main(parser().parse_args()))
