"""Each figure of a result is the same, in value and rounding, wherever the page and the terminal say it."""

import re
from collections import defaultdict
from html.parser import HTMLParser

import pytest

from scripts.report import charts, render_report
from scripts.report.sentences import answer_of, rows_by_id
from scripts.report.terminal import answer_lines, ranking_lines
from scripts.tables.columns import number_text
from tests.support.report_pages import section

TWICE = {"speed", "interval", "bound", "bottleneck"}  # in the verdict or the chart, and in the table


class Figures(HTMLParser):
    """Notes the text of each element with a `data-figure`, by that."""

    def __init__(self, html):
        super().__init__()
        self.found, self.open = defaultdict(list), []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        if tag not in ("br", "img", "input", "meta", "link"):
            name = dict(attrs).get("data-figure")
            self.open.append(name)
            if name:
                self.found[name].append("")

    def handle_endtag(self, _):
        self.open.pop()

    def handle_data(self, data):
        for name in filter(None, self.open):
            self.found[name][-1] += data


def figures(html):
    """Return {figure: its occurrences on the page}."""
    return Figures(re.sub(r"<(script|style)\b.*?</\1>", "", html, flags=re.DOTALL)).found


def different(found):
    """Those whose occurrences differ; seconds for 1,000 items are milliseconds an item."""
    return {name: texts for name, texts in found.items() if len({text.removesuffix(" s") for text in texts}) > 1}


@pytest.fixture(scope="module")
def found(measured):
    """The figures of its page."""
    return figures(measured[2])


def named(kind, row):
    return f"{kind}:{row['loader']}/{row['tier']}/{row['slug']}"


def test_a_figure_is_the_same_wherever_it_stands(found):
    assert different(found) == {}
    assert {name.split(":")[0] for name, texts in found.items() if len(texts) > 1} == TWICE


def test_a_figure_that_differs_is_found(measured):
    """Planted: the table of all results has another speed and another rounding than the verdict."""
    tables, pictures, _ = measured
    ranking = [{**row, "items_per_second": row["items_per_second"] * 1.01} for row in tables["ranking"]]
    html = render_report.render({**tables, "ranking": ranking}, pictures)
    first = rows_by_id(tables)[answer_of(tables)["choice"]]
    assert named("speed", first) in different(figures(html))


def test_how_many_times_faster_is_the_same_in_all_places(measured):
    tables, _, html = measured
    now = answer_of(tables)["now"]
    said = f"{number_text(now['low'])} to {number_text(now['high'])} times"
    header = html[html.index("<header") : html.index("<nav")]
    assert said in header and f"{said} faster here" in section(html, "why")
    assert said in " ".join(" ".join(answer_lines(tables, colour=False)).split())


def test_the_fastest_and_what_one_has_differ_by_what_the_table_says(measured, found):
    """`times slower` of the table is the verdict's comparison turned round, and that among all settings."""
    tables, _, _ = measured
    best = [row for row in tables["best"] if row["scenario"] == "CPU"]
    had = next(row for row in best if row["loader"] == "torchaudio" and row["tier"] == "ram")
    [interval] = found[named("slower-interval", had)]
    assert interval == f"{number_text(had['slower_low'])} to {number_text(had['slower_high'])}"
    everything = next(
        row
        for row in tables["ranking"]
        if row["slug"] == had["slug"] and row["tier"] == "ram" and row["loader"] == "torchaudio"
    )
    assert everything["slower_high"] == had["slower_high"]
    assert len(best) < sum(row["scenario"] == "CPU" for row in tables["ranking"]), "some settings are not the best"


def test_the_terminal_says_the_figures_of_the_page(measured, found):
    tables, _, _ = measured
    lines = ranking_lines(tables, colour=False)
    rows = [row for row in tables["best"] if row["scenario"] == "CPU"]
    head = lines.index(next(line for line in lines if line.startswith("CPU, data set")))
    for line, row in zip(lines[head + 2 :], rows, strict=False):
        rank, speed, interval, bound = (found[named(kind, row)][0] for kind in ("rank", "speed", "interval", "bound"))
        assert line.split()[:2] == [rank, row["loader"]]
        assert f" {speed} {interval.replace(' to ', ' - ')} " in " ".join(line.split())
        assert f" {bound.removesuffix(' %')} " in line


def test_the_chart_of_latency_has_the_milliseconds_of_the_table(measured, found):
    tables, _, _ = measured
    for row in charts.load("latency").rows(tables):
        shown = [number_text(row[column]) for column in ("p50_ms", "p99_ms", "slowest_ms")]
        assert [found[named(f"p{part}", row)][0] for part in (50, 99, 100)] == [f"{text} ms" for text in shown]
