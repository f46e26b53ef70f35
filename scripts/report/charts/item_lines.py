"""Which line of a user's own Dataset an item's time goes to: a bar for each line."""

from scripts.common.text import number_text
from scripts.common.vocabulary import ITEM_PARTS
from scripts.decide.panel import key
from scripts.report.charts import _print as paper
from scripts.report.charts._common import COLOURS, Figure, Row, Rows, Tables, grouped

TITLE = "Lines of your Dataset"
QUESTION = "Which line of your Dataset takes an item's time?"
DATA = "item_lines.csv"
CATEGORY, ORDER, SECTION = "3 Causes", 28, "own-lines"
CAPTION = (
    "Some items of your own loader ran line by line in one process, after the proof and outside of what is timed. What "
    "a line calls in libraries counts as the line's. The parts follow from the names of what it calls."
)
NEEDS = "a loader in a file of your own whose items can be taken one by one (docs/own_loader.md)"
MOST_LINES, MOST_SIGNS = 8, 44  # of one loader, of a line's text
_LEAST_PERCENT = 2.0
_LOOKS = dict(zip(ITEM_PARTS, COLOURS[:6], strict=True))


def rows(tables: Tables) -> Rows:
    """Return the lines of each loader's fastest result that has some, the most expensive first, with their `place`."""
    of_results = grouped(tables["item_lines"], "loader", "tier", "slug")
    lines: dict[str, Rows] = {}
    for result in map(key, tables["ranking"]):
        if result in of_results:
            lines.setdefault(result[0], of_results[result])
    return [
        {**line, "place": f"{line['file']}:{line['line']}" if line["file"] else "libraries, called by none of these"}
        for found in lines.values()
        for line in found[:MOST_LINES]
        if line["percent"] >= _LEAST_PERCENT
    ]


def _code(line: Row) -> str:
    """Return a line's text, cut where it is long: shortened by words, `audio = soundfile.read(...)` would lose all."""
    text = "".join(sign if sign.isprintable() else " " for sign in line["code"])
    return text if len(text) <= MOST_SIGNS else f"{text[: MOST_SIGNS - 3]}..."


def draw(rows: Rows) -> Figure:
    """Return the picture: a panel per loader, a bar per line."""
    shown, notes = paper.first_panels(rows, "loader")
    figure, axes = paper.scenarios(shown, [0.5 + 0.42 * len(lines) for lines in shown.values()])
    for axis, (loader, lines) in zip(axes, shown.items(), strict=True):
        axis.set_title(paper.plain(loader), loc="left")
        for y, line in enumerate(lines):
            axis.barh(y, line["percent"], height=0.62, color=_LOOKS[line["part"]], zorder=2)
            label = f"{line['percent']:.0f} %   {number_text(line['ms'], 2)} ms"
            axis.annotate(label, (line["percent"], y), **paper.LABEL)
        paper.name_axis(axis, [""] * len(lines))
        axis.set_yticklabels(["\n".join(filter(None, (_code(one), paper.plain(one["place"])))) for one in lines])
        axis.set_xlim(0, max(line["percent"] for line in lines) * 1.3)
        axis.set_xticks([tick for tick in axis.get_xticks() if tick <= 100])
    axes[-1].set_xlabel("percent of an item's time, and milliseconds of an item")
    parts = [part for part in ITEM_PARTS if any(line["part"] == part for lines in shown.values() for line in lines)]
    paper.legend(figure, [paper.patch(ITEM_PARTS[part].word, facecolor=_LOOKS[part]) for part in parts])
    paper.footnote(figure, notes)
    return figure
