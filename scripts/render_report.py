"""Renders the tables and figures as one HTML file that opens offline, on any screen, without a script in it.

python scripts/render_report.py --tables results/tables/demo --figures report/figures --out report/index.html
"""

import argparse
import base64
import getpass
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

import bottlenecks
from errors import UserError, run_main
from files import whole_file
from measure.stats import FEW
from ranking import FED_PERCENT
from tables import EMULATED, bytes_text, duration_text, number_text, panels, read_tables, settings_text

TEMPLATE = Path(__file__).resolve().parent.parent / "report" / "template"
FIGURES = ("throughput", "scaling", "concurrency", "first_batch", "training", "conversion")
BOUNDS = {
    "warm": ("what memory allows", "batches gathered from a tensor in memory: as if all audio already lay there"),
    "storage": (
        "what its storage allows",
        "what fio reads from the tier at a clip's size, with as many readers at once as the loader has workers; for a "
        "cold cache, and for what does not fit into a limited one",
    ),
    "compute": (
        "what the steps alone allow",
        "training steps, if nothing had to be waited for; of each result, by its AU",
    ),
    "decode": ("what decoding alone allows", "if a loader did nothing but decode; by what it saves without decoding"),
}
PARTS = {
    "storage": "the device; what is saved when the files lie in the page cache",
    "read": "reading files from the page cache, beyond what leaving out storage or decoding saves",
    "decode": "decoding audio, and unpacking it from archives",
    "transfer": "the way of batches from worker processes to the main one",
    "host_to_device": "the copy of batches to the GPU",
    "compute": "the training steps, emulated or real",
    "python": "what is left of the loader without all of these: Python, and the library itself",
    "consuming": "reading every byte of a batch once, which any model does",
    "feeding": "of a training: all that is no training step",
}
_CONDITIONS = {
    "loop": ", in a plain loop that need not read its batches",
    "train": ", training in a bare loop",
    "lightning": ", training by Lightning",
    "cold": ", from a cold cache",
    "limited": ", from a cache with room for a part of the data",
}
_UNSTEADY = ("noisy-machine", "drift")
ENOUGH_RUNS = FEW  # fewer repeats do not carry a published ranking, see docs/
_DARK = {"#1f2328": "#e6edf3", "#d0d7de": "#3d444d", "#ffffff": "#151b23"}  # figure_parts.INK, RULE, PAPER

Rows = list[dict[str, Any]]


def render(tables: Mapping[str, Any], figures: Path) -> str:
    """Return the report as HTML. Whatever comes from outside the template is escaped.

    Raises UserError where a figure is absent.
    """
    environment = Environment(
        loader=FileSystemLoader(TEMPLATE), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {
        "number": number_text,
        "bytes": bytes_text,
        "duration": duration_text,
        "settings": settings_text,
        "percent": lambda value: f"{number_text(value, 2)} %",
        "signed": lambda value: f"{value:+.1f} %",
        "step": step_text,
        "word": bottlenecks.WORDS.__getitem__,
    }
    environment.globals["style"] = (TEMPLATE / "style.css").read_text(encoding="utf-8")
    pictures = {name: picture(figures / f"{name}.svg") for name in FIGURES}
    return environment.get_template("report.html.j2").render(figures=pictures, **context(anonymous(tables)))


def context(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template's variables: the tables, and what they say when put together."""
    best, ranking = tables["best"], tables["ranking"]
    counts = [row["runs"] for row in ranking if row["status"] == "ok"]
    shown = ("ranking", "best", "formats", "tiers", "training", "seconds", "moves", "noise", "dataset", "host")
    return {
        **{name: tables[name] for name in shown},
        "verdicts": [verdict(best, panel) for panel in panels(row for row in best if row["rank"])],
        "holding": holding(best, tables["parts"]),
        "part_names": [(bottlenecks.WORDS[part], text) for part, text in PARTS.items()],
        "least_percent": bottlenecks.LEAST_PERCENT,
        "fed_percent": FED_PERCENT,
        "steps": shortest_steps(ranking),
        "takes": by_panel(row for row in best if row["status"] == "ok"),
        "bounds": [(kind, rows) for kind in BOUNDS if (rows := _of(tables["bounds"], "bound", kind))],
        "bound_names": [(kind, text) for kind, (_, text) in BOUNDS.items()],
        "emulated": any(row["tier"].endswith(EMULATED) for row in tables["tiers"]),
        "unsteady": [row for row in tables["warnings"] if row["code"] in _UNSTEADY],
        "panels": panels(ranking),
        "abouts": sorted({(row["loader"], row["about"]) for row in best if row["about"]}),
        "runs_range": (min(counts), max(counts)) if counts else (0, 0),
        "enough_runs": ENOUGH_RUNS,
        "failed": [row for row in ranking if row["status"] == "failed"],
        "skipped": grouped_skips(tables["skipped"]),
        "warnings": grouped_warnings(tables["warnings"]),
        "tier_warnings": grouped_warnings(row for row in tables["warnings"] if row["tier"] and not row["loader"]),
        "machines": [(machine["runs"], facts(machine["host"])) for machine in tables["host"]["hosts"]],
        "measure": facts(tables["dataset"]["measure"] or {}),
    }


def verdict(best: Rows, panel: str) -> dict[str, Any]:
    """Return the fastest row of a panel, the rows that cannot be told apart from it, and what to say of it."""
    first, *others = [row for row in best if row["panel"] == panel and row["rank"] == 1]
    ties: dict[str, list[str]] = {}
    for row in others:
        ties.setdefault(row["loader"], []).append(row["tier"])
    conditions = "".join(_CONDITIONS.get(first[key], "") for key in ("task", "cache"))
    return {
        "row": first,
        "ties": ties,
        "conditions": conditions + (f", with a step of {first['step_ms']:g} ms" if first["step_ms"] else ""),
        "bound": BOUNDS.get(first["bound"], ("", ""))[0],
        "held": {**bottlenecks.NAMES, "feeding": "waiting for batches"}.get(first["bottleneck"], ""),
    }


def by_panel(rows: Iterable[dict[str, Any]]) -> list[tuple[str, Rows]]:
    """Return (panel, its rows) of each panel that there is, in the order of `rows`."""
    rows = list(rows)
    return [(panel, _of(rows, "panel", panel)) for panel in panels(rows)]


def _of(rows: Iterable[dict[str, Any]], column: str, value: Any) -> Rows:
    return [row for row in rows if row[column] == value]


def holding(best: Rows, parts: Rows) -> list[dict[str, Any]]:
    """Return of each panel the parts that were left out, and its rows with each part's share of the time in percent.

    Panels in which nothing was left out are not there: of a training AU alone says what holds it back.
    """
    shares: dict[tuple[str, ...], dict[str, float]] = {}
    for row in parts:
        shares.setdefault((row["loader"], row["tier"], row["slug"]), {})[row["part"]] = row["percent"]
    groups = []
    for panel, rows in by_panel(row for row in best if row["bottleneck"]):
        pairs = [(row, shares.get((row["loader"], row["tier"], row["slug"]), {})) for row in rows]
        found = [part for part in bottlenecks.NAMES if any(part in one for _, one in pairs)]
        if found:
            groups.append({"panel": panel, "parts": found, "rows": pairs})
    return groups


def shortest_steps(ranking: Rows) -> list[tuple[str, Rows]]:
    """Return of each panel, loader and tier the row with the shortest step that is fed, the shortest first.

    These need not be the settings with the highest speed: workers and queues that cost speed work behind a step.
    """
    looked = [row for row in ranking if row["step_limit_ms"] is not None and row["status"] == "ok"]
    looked.sort(key=lambda row: (row["shortest_step_ms"] is None, row["shortest_step_ms"] or 0.0))
    first: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in looked:
        first.setdefault((row["panel"], row["loader"], row["tier"]), row)
    return by_panel(first.values())


def step_text(row: Mapping[str, Any]) -> str:
    """Return a result's shortest step that is fed: blank where none was looked for, ``> 200 ms`` beyond the limit."""
    if row["step_limit_ms"] is None:
        return ""
    if row["shortest_step_ms"] is None:
        return f"> {row['step_limit_ms']:g} ms"
    return f"{number_text(row['shortest_step_ms'], 2)} ms"


def grouped_skips(skipped: Rows) -> list[dict[str, Any]]:
    """Return one entry per status and reason, with the (loader, tier, settings) that it holds for."""
    groups: dict[tuple[str, str], list[str]] = {}
    for row in skipped:
        place = " on ".join(filter(None, (row["loader"], row["tier"])))
        groups.setdefault((row["status"], row["reason"]), []).append(f"{place} ({row['slug']})")
    return [{"status": status, "reason": reason, "places": places} for (status, reason), places in groups.items()]


def grouped_warnings(warnings: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one entry per kind of warning: how often, where, and some of what was seen."""
    groups: dict[tuple[str, str, str], Rows] = {}
    for row in warnings:
        groups.setdefault((row["code"], row["cause"], row["hint"]), []).append(row)
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
        return f"{row['loader']} on {row['tier']}"
    return f"tier {row['tier']}" if row["tier"] else row["slug"]


def facts(value: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return nested facts as (name, text) in the order given; unknown ones (None, empty) are left out."""
    found: list[tuple[str, str]] = []
    for key, part in value.items():
        name = f"{prefix}{str(key).removesuffix('_bytes').replace('_', ' ')}"
        if isinstance(part, Mapping):
            found += facts(part, f"{name}: ")
        elif str(key).endswith("_bytes") and isinstance(part, int | float):
            found.append((name, bytes_text(part)))
        elif isinstance(part, list):
            found += [(name, ", ".join(map(str, part)))] if part else []
        elif part is not None and part != "":
            found.append((name, str(part)))
    return found


def anonymous(value: Any) -> Any:
    """Return `value` with home folders as ``~`` and path parts that are the user's name as ``USER``, at any depth."""
    if isinstance(value, str):
        return _without_user(value)
    if isinstance(value, Mapping):
        return {key: anonymous(part) for key, part in value.items()}
    if isinstance(value, list):
        return [anonymous(part) for part in value]
    return value


def _without_user(text: str) -> str:
    if "/" not in text:
        return text
    home = str(Path.home())
    if home != "/":
        text = re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text)
    text = re.sub(r"(?<![\w.~-])/(?:home|Users)/[^/\s'\",;:]+", "~", text)
    return re.sub(rf"(?<=/){re.escape(_user())}(?![\w.-])", "USER", text)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return "nobody"


def picture(path: Path) -> str:
    """Return an SVG file as a data address that follows the reader's dark mode. Raises UserError where it is absent."""
    if not path.is_file():
        raise UserError(f"{path} is not there. Figures are made by: python scripts/draw_figures.py --out {path.parent}")
    svg = path.read_text(encoding="utf-8")
    svg = svg[svg.index("<svg") :]
    rules = "".join(
        f'[style*="{what}: {light}"]{{{what}:{dark}!important}}'
        for light, dark in _DARK.items()
        for what in ("fill", "stroke")
    )
    opening = svg.index(">") + 1
    svg = f"{svg[:opening]}<style>@media screen and (prefers-color-scheme:dark){{{rules}}}</style>{svg[opening:]}"
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def main() -> None:
    """Write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", required=True, type=Path, help="folder that make_tables.py wrote")
    parser.add_argument("--figures", required=True, type=Path, help="folder that draw_figures.py wrote")
    parser.add_argument("--out", required=True, type=Path, help="HTML file to write")
    arguments = parser.parse_args()
    html = render(read_tables(arguments.tables), arguments.figures)
    with whole_file(arguments.out) as file:
        file.write(html)


if __name__ == "__main__":
    run_main(main)
