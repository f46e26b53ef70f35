"""Draws the report's figures from the tables, each as SVG and PNG: see `FIGURES`, at the end.

    python -m scripts.report.draw_figures --tables results/tables/demo --out report/figures

Tiers and loaders differ in colour and in marker, so that the figures survive a grey printer. The same tables give the
same bytes.
"""

import argparse
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure

from scripts.common.errors import run_main
from scripts.common.files import whole_file
from scripts.report.charts._parts import INK, PAPER, RULE
from scripts.report.charts.break_even import break_even
from scripts.report.charts.cold import cold
from scripts.report.charts.concurrency import concurrency
from scripts.report.charts.formats import conversion, sizes
from scripts.report.charts.ladder import ladder
from scripts.report.charts.latency import latency
from scripts.report.charts.memory import memory
from scripts.report.charts.roofline import roofline
from scripts.report.charts.scaling import batch_size, scaling
from scripts.report.charts.throughput import first_batch, throughput
from scripts.report.charts.timeline import timeline
from scripts.report.charts.training import training
from scripts.tables.columns import read_tables

_RC = {
    "figure.facecolor": PAPER, "axes.facecolor": PAPER, "axes.edgecolor": RULE, "grid.color": RULE,
    "text.color": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "grid.linewidth": 0.7,
    "axes.titlesize": 10, "axes.titleweight": "bold", "axes.titlelocation": "left", "legend.frameon": False,
    "font.size": 9, "axes.labelsize": 9, "xtick.labelsize": 9, "ytick.labelsize": 9, "legend.fontsize": 9,
    "font.family": "DejaVu Sans", "text.parse_math": False, "figure.constrained_layout.use": True,
    "svg.hashsalt": "feedrate", "savefig.dpi": 150,
}  # fmt: skip
_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))
FIGURES: dict[str, Callable[[Mapping[str, Any]], Figure]] = {
    "throughput": throughput,
    "roofline": roofline,
    "ladder": ladder,
    "timeline": timeline,
    "latency": latency,
    "scaling": scaling,
    "batch_size": batch_size,
    "concurrency": concurrency,
    "cold": cold,
    "first_batch": first_batch,
    "memory": memory,
    "training": training,
    "conversion": conversion,
    "break_even": break_even,
    "sizes": sizes,
}


@contextmanager
def style() -> Iterator[None]:
    """Make figures look as the report's do, for as long as the context is open."""
    with warnings.catch_warnings(), matplotlib.rc_context():
        warnings.filterwarnings("ignore", r"Glyph .* missing from font", UserWarning)
        plt.switch_backend("agg")
        sns.set_theme(style="whitegrid", rc=_RC)
        yield


def settled(figure: Figure) -> Figure:
    """Lay the figure out once and for all, and return it.

    The layout's solver differs from call to call by less than a millionth, which is enough for other bytes.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axis in figure.axes:
        axis.set_position([round(float(value), 6) for value in axis.get_position().bounds])
    return figure


def draw(tables: Mapping[str, Any], out: Path) -> None:
    """Write every figure into `out` as NAME.svg and NAME.png, each file whole or not at all."""
    with style():
        for name, function in FIGURES.items():
            figure = settled(function(tables))
            with whole_file(out / f"{name}.svg", "wb") as file:
                figure.savefig(file, format="svg", metadata=_NO_METADATA)
            with whole_file(out / f"{name}.png", "wb") as file:
                figure.savefig(file, format="png", metadata={"Software": None})
            plt.close(figure)


def main() -> None:
    """Draw all figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", required=True, type=Path, help="folder that make_tables.py wrote")
    parser.add_argument("--out", required=True, type=Path, help="folder for the figures")
    arguments = parser.parse_args()
    draw(read_tables(arguments.tables), arguments.out)


if __name__ == "__main__":
    run_main(main)
