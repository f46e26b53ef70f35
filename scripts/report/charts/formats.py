"""The figures of what formats cost: seconds to write them, bytes that they take, and those against the memory."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from scripts.report.charts._parts import (
    INK,
    LABEL,
    NUMBERS,
    PAPER,
    SERIES,
    byte_unit,
    footnote,
    loader_rows,
    nothing,
    number_axis,
    plain,
)
from scripts.tables.columns import bytes_text, number_text

_STYLES = ("--", ":", "-.")  # of the lines of machines
_MOST_MACHINES = len(_STYLES)


def conversion(tables: Mapping[str, Any]) -> Figure:
    """Return what each format costs: seconds to write all clips, and the bytes that it takes."""
    rows = [row for row in tables["formats"] if row["seconds"] is not None and row["bytes"] is not None]
    if not rows:
        return nothing("No format has a record of its conversion.", [])
    rows.sort(key=lambda row: (row["seconds"], row["format"]))
    unit, size = byte_unit(max(row["bytes"] for row in rows))
    figure, axes = plt.subplots(1, 2, figsize=(8, 1.1 + 0.36 * len(rows)), sharey=True)
    frame = pd.DataFrame(rows).assign(size=lambda table: table.bytes / size, name=lambda table: table.format.map(plain))
    panels = (
        ("seconds", "seconds to write all clips", SERIES[0], ""),
        ("size", f"{unit} on the disk", SERIES[1], "//"),
    )
    for axis, (column, label, colour, hatch) in zip(axes, panels, strict=True):
        sns.barplot(frame, x=column, y="name", color=colour, hatch=hatch, edgecolor=PAPER, saturation=1, ax=axis)
        for number, value in enumerate(frame[column]):
            axis.annotate(number_text(value), (value, number), **LABEL)
        axis.set(xlabel=label, ylabel="", xlim=(0, (frame[column].max() or 1) * 1.2))
        axis.xaxis.set_major_formatter(NUMBERS)
        axis.xaxis.set_major_locator(MaxNLocator(5))
    return figure


def sizes(tables: Mapping[str, Any]) -> Figure:
    """Return the bytes of the data set in each format beside the memory of the machine, the smallest first."""
    rows = sorted((row for row in tables["formats"] if row["bytes"]), key=lambda row: (row["bytes"], row["format"]))
    if not rows:
        return nothing("No format has been written, so the size of the data set in it is not known.", [])
    found = (machine["host"].get("memory_bytes") for machine in tables["host"]["hosts"])
    memories = sorted({memory for memory in found if memory})
    unit, size = byte_unit(max(*(row["bytes"] for row in rows), *memories, 0))
    figure, axis = plt.subplots(figsize=(8, 1.3 + 0.3 * len(rows)))
    for style, memory in zip(_STYLES, memories, strict=False):
        label = f"memory of the machine, {bytes_text(memory)}"
        axis.axvline(memory / size, color=INK, linestyle=style, linewidth=1.4, label=label)
    for y, row in enumerate(rows):
        axis.plot(row["bytes"] / size, y, color=SERIES[0], marker="o", markersize=7, linestyle="")
        share = f", {number_text(100 * row['bytes'] / memories[0], 2)} % of memory" if memories else ""
        axis.annotate(f"{bytes_text(row['bytes'])}{share}", (row["bytes"] / size, y), zorder=5, **LABEL)
    loader_rows(axis, [row["format"] for row in rows])
    number_axis(axis, f"{unit}, training and validation together")
    if memories:
        figure.legend(loc="outside upper left")
    footnote(figure, [], _memory_notes(memories))
    return figure


def _memory_notes(memories: list[float]) -> list[str]:
    if not memories:
        return ["How much memory the machine has is not known: no run has noted it."]
    notes = ["A part of the memory is taken by the programs: the page cache holds what is left."]
    if len(memories) > 1:
        notes.append(f"Machines of {len(memories)} sizes took part; percent are of the smallest.")
    return notes
