"""Reports of made runs, and what a test reads in them."""

import base64
import csv
import io
import re
from html import unescape
from html.parser import HTMLParser

from scripts.common.plan_file import read_plan
from scripts.report import charts, draw_figures, render_report
from scripts.report.shown import shown_tables
from scripts.tables import make_tables
from tests.support.made_runs import make_results


def report_of(root, made, bounds=None, skipped=(), drawn=False, **kwargs):
    """Return (tables, figures folder, HTML) of made runs; `drawn` as in `rendered`."""
    return rendered(root, make_results(root, made, bounds, skipped, **kwargs), drawn)


def tables_of(root, made, bounds=None, **kwargs):
    """Return the tables of made runs."""
    make_tables.make_tables(read_plan(make_results(root, made, bounds, **kwargs)), root, root / "tables")
    return shown_tables(root / "tables")


def rendered(root, plan, drawn=False):
    """Return (tables, figures folder, HTML) of the runs that a plan.json names.

    Pictures are blank unless they are `drawn`, which takes longer than all else.
    """
    make_tables.make_tables(read_plan(plan), root, root / "tables")
    tables, figures = shown_tables(root / "tables"), root / "figures"
    if drawn:
        draw_figures.draw(tables, figures)
    else:
        blank_pictures(figures)
    return tables, figures, render_report.render(tables, figures, root / "tables")


def blank_pictures(folder):
    """Fill a folder with a blank picture of each chart."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in charts.every():
        svg = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 5"></svg>'
        (folder / f"{name}.svg").write_text(svg, encoding="utf-8")


class Page(HTMLParser):
    """Notes the tags of a page, its text, and that every tag is closed."""

    VOID = ("meta", "img", "link", "br", "hr", "input")

    def __init__(self, html):
        super().__init__()
        self.tags, self.open, self.text, self.scripts = [], [], "", []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("script", "style"):
            self.scripts.append((self.open[-1], self.tags[-1][1].get("type"), data))
        else:
            self.text += data

    @property
    def words(self):
        return " ".join(self.text.split())


def row_of(html, section, *texts):
    """Return the words of the first row of a section's tables that holds all the texts."""
    rows = (spaced(row.split("</tr>")[0]) for row in _section(html, section).split("<tr")[1:])
    return next(row for row in rows if all(text in row for text in texts))


def spaced(html):
    """Return the words of a piece of HTML without its scripts, those of cells beside each other apart."""
    html = re.sub(r"<(script|style)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>|^[^<>]*>", " ", html)).split())


def sections(html):
    """Return the ids of the sections and of those within them, in the order of the page."""
    return re.findall(r'<h[23] id="([\w-]+)">', html)


def section(html, name):
    """Return the words of a section."""
    return spaced(_section(html, name))


def _section(html, name):
    part = html[re.search(rf'<h[23] id="{name}">', html).start() :]
    return part[: part.index("</section>")]


def rows_in(address):
    """Return the rows of a CSV file in a data address."""
    return list(csv.DictReader(io.StringIO(base64.b64decode(address.split(",")[1]).decode(), newline="")))


def links(html):
    """Return {file name: address} of what a report offers to download."""
    return {a["download"]: a["href"] for tag, a in Page(html).tags if tag == "a" and "download" in a}
