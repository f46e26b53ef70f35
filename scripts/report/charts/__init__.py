"""The report's charts, one file each: `charts/NAME.py` is all that one more chart takes (docs/extending.md).

Tables come in (scripts/tables/columns.py: read_tables), and out go a chart's rows, which are its CSV file, and from the
same rows its picture (Matplotlib), for the page, for paper and for Snakemake's report.
A file whose name begins with an underscore is shared by several charts. Matplotlib, NumPy and the like are imported
inside functions: the Snakefile reads what a chart says of itself where they are not installed.
"""

import importlib
from functools import cache
from pathlib import Path
from types import ModuleType

from scripts.common.errors import UserError

CONTRACT = {
    "TITLE": "what it shows",
    "QUESTION": "what it answers",
    "DATA": "the tables that it is drawn from",
    "CATEGORY": "where it stands in Snakemake's report: a number and a word",
    "ORDER": "its place among the charts: of those in one section, and of the pictures that fit into the light page",
    "SECTION": "where it stands in the page: the id of a heading in report/template",
    "CAPTION": "how it is read, in sentences",
    "NEEDS": "what would have to be measured where there is nothing to draw",
    "rows": "def rows(tables): the rows of the chart, a list of dicts of plain values; empty where there are none",
    "draw": "def draw(rows): the picture, a Figure of Matplotlib",
}


def load(name: str) -> ModuleType:
    """Return the module of a chart. Raises UserError where it does not say all that CONTRACT asks."""
    module = importlib.import_module(f"{__name__}.{name}")
    for part, meaning in CONTRACT.items():
        if not hasattr(module, part):
            raise UserError(
                f"scripts/report/charts/{name}.py: found no {part}, expected is {meaning}. Add it (docs/extending.md)."
            )
    return module


@cache
def every() -> dict[str, ModuleType]:
    """Return the charts by name, sorted by ORDER."""
    names = [path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_")]
    charts = {name: load(name) for name in names}
    return dict(sorted(charts.items(), key=lambda item: (item[1].ORDER, item[0])))
