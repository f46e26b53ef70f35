"""Draws the report's charts from the tables, each as SVG and PNG, with its caption: see scripts/report/charts.

    feedrate figures --tables results/tables/demo --out report/figures

Tiers and loaders differ in colour and in marker, so that the figures survive a grey printer. The same tables give the
same bytes.
"""

import argparse
import multiprocessing
import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure

from scripts.common.errors import run_main
from scripts.common.files import whole_file
from scripts.report import charts
from scripts.report.charts._common import INK, PAPER, RULE, Tables
from scripts.report.charts._print import nothing
from scripts.report.others import with_others
from scripts.report.shown import shown_tables

_RC = {
    "figure.facecolor": PAPER, "axes.facecolor": PAPER, "axes.edgecolor": RULE, "grid.color": RULE,
    "text.color": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "grid.linewidth": 0.7,
    "axes.titlesize": 10, "axes.titleweight": "bold", "axes.titlelocation": "left", "legend.frameon": False,
    "font.size": 9, "axes.labelsize": 9, "xtick.labelsize": 9, "ytick.labelsize": 9, "legend.fontsize": 9,
    "font.family": "DejaVu Sans", "text.parse_math": False, "figure.constrained_layout.use": True,
    "svg.hashsalt": "feedrate", "savefig.dpi": 150,
}  # fmt: skip
_SHARED: dict[str, Any] = {}  # the tables and the folder, which forks inherit
_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))


@contextmanager
def style() -> Iterator[None]:
    """Make figures look as the report's do, for as long as the context is open."""
    with warnings.catch_warnings(), matplotlib.rc_context():
        warnings.filterwarnings("ignore", r"Glyph .* missing from font", UserWarning)
        plt.switch_backend("agg")
        sns.set_theme(style="whitegrid", rc=_RC)
        yield


def picture(chart: ModuleType, tables: Tables) -> Figure:
    """Return a chart's picture, laid out once and for all; where it has no rows, what it would need in words.

    The layout's solver differs from call to call by less than a millionth, which is enough for other bytes.
    """
    rows = chart.rows(tables)
    figure = chart.draw(rows) if rows else nothing(chart.NEEDS)
    figure.draw_without_rendering()
    with matplotlib.rc_context({"figure.constrained_layout.use": False}):
        figure.set_layout_engine()  # None at all: with "none" each file would be drawn twice
    for axis in figure.axes:
        axis.set_position([round(float(value), 6) for value in axis.get_position().bounds])
    return figure


def draw(tables: Tables, out: Path, processes: int = 1) -> None:
    """Write every chart into `out` as NAME.svg, NAME.png and NAME.rst, its caption; each file whole or not at all.

    Several processes are forks, which inherit the tables: only a program without threads may ask for them.
    """
    _SHARED.update(tables=with_others(tables), out=out)
    with style():
        if processes == 1:
            list(map(_write, charts.every()))
            return
        with ProcessPoolExecutor(processes, multiprocessing.get_context("fork")) as pool:
            list(pool.map(_write, charts.every()))


def _write(name: str) -> None:
    """Write one chart."""
    chart, out = charts.load(name), _SHARED["out"]
    figure = picture(chart, _SHARED["tables"])
    with whole_file(out / f"{name}.svg", "wb") as file:
        figure.savefig(file, format="svg", metadata=_NO_METADATA)
    with whole_file(out / f"{name}.png", "wb") as file:
        figure.savefig(file, format="png", metadata={"Software": None})
    with whole_file(out / f"{name}.rst") as file:
        file.write(f"{chart.CAPTION}\n")
    plt.close(figure)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the program's options."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tables", required=True, type=Path, help="folder of tables, such as results/tables/demo")
    options.add_argument("--out", required=True, type=Path, help="folder for the figures")
    return options


def main(arguments: argparse.Namespace) -> None:
    """Draw all figures."""
    draw(shown_tables(arguments.tables), arguments.out, len(os.sched_getaffinity(0)))


if __name__ == "__main__":
    run_main(lambda: main(parser().parse_args()))
