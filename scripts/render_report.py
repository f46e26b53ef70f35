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

from errors import UserError, run_main
from files import whole_file
from tables import bytes_text, duration_text, number_text, panels, read_tables, settings_text

TEMPLATE = Path(__file__).resolve().parent.parent / "report" / "template"
FIGURES = ("throughput", "scaling", "first_batch", "conversion")
ENOUGH_RUNS = 5  # fewer repeats do not carry a published ranking, see docs/
_DARK = {"#1f2328": "#e6edf3", "#d0d7de": "#3d444d", "#ffffff": "#151b23"}  # draw_figures.INK, RULE, PAPER

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
    }
    environment.globals["style"] = (TEMPLATE / "style.css").read_text(encoding="utf-8")
    pictures = {name: picture(figures / f"{name}.svg") for name in FIGURES}
    return environment.get_template("report.html.j2").render(figures=pictures, **context(anonymous(tables)))


def context(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template's variables: the tables, and what they say when put together."""
    best, ranking = tables["best"], tables["ranking"]
    counts = [row["runs"] for row in ranking if row["status"] == "ok"]
    return {
        **{name: tables[name] for name in ("ranking", "best", "formats", "tiers", "bounds", "dataset", "host")},
        "verdicts": [verdict(best, panel) for panel in panels(row for row in best if row["rank"])],
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
    """Return the fastest row of a panel, and the rows that cannot be told apart from it."""
    first, *others = [row for row in best if row["panel"] == panel and row["rank"] == 1]
    return {"row": first, "ties": others}


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
