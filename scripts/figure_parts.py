"""What the report's figures share: their three plain colours, the legend, the footnote, and a figure without data."""

import textwrap
from collections.abc import Iterable
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

INK, RULE, PAPER = "#1f2328", "#d0d7de", "#ffffff"  # render_report.py recolours these three in dark mode

Rows = list[dict[str, Any]]


def plain(text: str) -> str:
    """Return a name on one line, short enough for a figure."""
    return textwrap.shorten("".join(sign if sign.isprintable() else " " for sign in text), 40, placeholder="...")


def legend(figure: Figure, handles: list[Any]) -> None:
    """Draw the legend above the figure."""
    figure.legend(handles=handles, loc="outside upper left", ncols=min(len(handles), 4), handletextpad=0.3)


def footnote(figure: Figure, best: Rows, lines: Iterable[str] = ()) -> None:
    """Write below the figure which results have no point in it, and why in one word."""
    lines = list(lines)
    shown = {row["loader"] for row in best if row["status"] == "ok"}
    for status in ("failed", "missing", "skipped"):
        lost = [row for row in best if row["status"] == status]
        names = {f"{row['loader']} ({row['tier']})" if row["loader"] in shown else row["loader"] for row in lost}
        if names:
            lines.append(f"No verified speed, {status}: {', '.join(sorted(map(plain, names)))}.")
    if lines:
        text = "\n".join(line for one in lines for line in textwrap.wrap(one, 110))
        figure.supxlabel(text, x=0.01, ha="left", fontsize=8)


def nothing(text: str, best: Rows) -> Figure:
    """Return a figure that says in words why there is nothing in it."""
    figure, axis = plt.subplots(figsize=(8, 1.8))
    axis.set_axis_off()
    axis.text(0.5, 0.5, "\n".join(textwrap.wrap(text, 90)), ha="center", va="center", size=11)
    footnote(figure, best)
    return figure
