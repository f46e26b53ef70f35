"""The contract of every file in scripts/report/charts: one choice of rows, which its picture shows."""

import re
import subprocess
import sys

import pytest
from matplotlib import pyplot as plt
from matplotlib.text import Text

from scripts.common.errors import UserError
from scripts.report import charts, draw_figures, render_report
from scripts.report.charts._print import plain
from tests.support.made_runs import Made, explained, lines_of
from tests.support.report_pages import rows_in, tables_of

NAMES = list(charts.every())
CATEGORIES = {"2 Speed", "3 Causes", "4 Settings", "5 Costs"}


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """The tables of so few results that a picture has room for all, in which there is something for every chart."""
    made = [
        Made(loader, tier, [speed * factor for factor in (0.97, 1.0, 1.02)], format, **settings)
        for loader, format, base in (("alpha", "wav", 400.0), ("omega", "memmap", 900.0))
        for tier, share in (("ram", 1.0), ("disk", 0.8))
        for speed, settings in (
            *((base * share * (1 + workers / 4) + size, {"workers": workers, "batch_size": size, "trials": note})
              for workers in (0, 2) for size in (32, 64)
              for note in [explained(base) if (tier, size) == ("disk", 32) else None]),
            *((base * share / count, {"options": {"in_flight": count}}) for count in (5, 20)),
            (base * share / 3, {"cache": "cold"}),
            (base * share / 4, {"task": "train", "au": 50.0}),
            (base * share / 5, {"task": "lightning", "au": 50.0}),
        )
    ]  # fmt: skip
    made[0].item_lines = lines_of(4.5, ("soundfile.read(path)", 41, "decode", 0.62), ("rest(audio)", 44, "other", 0.38))
    steps = [
        {"change": name, "loader": name, "tier": "ram", "slug": "cpu-b32-w0-p2", "reason": None}
        for name in ("alpha", "omega")
    ]
    lost = {"change": "pinned", "loader": "omega", "tier": "ram", "slug": None, "reason": "no GPU"}
    tables = tables_of(tmp_path_factory.mktemp("few"), made, {("cpu", 32): [3000.0] * 3}, ladder=[*steps, lost])
    other = tables_of(tmp_path_factory.mktemp("other"), made[: len(made) // 2])
    return {**tables, "machines": [{"name": "another machine", "tables": other}]}


@pytest.fixture
def drawn():
    """Draw a chart's rows as in the report."""
    with draw_figures.style():
        yield lambda name, tables: draw_figures.picture(charts.load(name), tables)
        plt.close("all")


@pytest.mark.parametrize("name", NAMES)
def test_it_says_what_it_is(name):
    chart = charts.load(name)
    assert chart.__doc__.strip() and chart.CATEGORY in CATEGORIES and isinstance(chart.ORDER, int)
    assert chart.QUESTION.endswith("?") and chart.CAPTION.endswith(".") and not chart.NEEDS.endswith(".")
    assert len(chart.TITLE) < 40 and "\n" not in chart.CAPTION


def test_no_two_have_one_place():
    orders = [chart.ORDER for chart in charts.every().values()]
    assert orders == sorted(set(orders))


@pytest.fixture(scope="module")
def nothing(tmp_path_factory):
    """The tables of a loader that failed, and of no format."""
    tables = tables_of(tmp_path_factory.mktemp("none"), [Made("a", "ram", ["failed"])])
    return {**tables, "formats": [{**row, "bytes": None, "seconds": None} for row in tables["formats"]]}


@pytest.mark.parametrize("name", NAMES)
def test_without_data_it_says_what_it_would_need(drawn, nothing, name):
    assert charts.load(name).rows(nothing) == []
    [text] = drawn(name, nothing).axes[0].texts
    assert charts.load(name).NEEDS.replace("`", "") in " ".join(text.get_text().split())


@pytest.mark.parametrize("name", NAMES)
def test_its_rows_are_its_csv_file(few, name):
    chart = charts.load(name)
    rows = chart.rows(few)
    assert rows == chart.rows(few) != []
    found = render_report.shown(chart, few)
    written = rows_in(found["csv"])
    blank = {None: ""}
    columns = list(dict.fromkeys(column for row in rows for column in row))
    assert written == [{name: str(blank.get(row.get(name), row.get(name))) for name in columns} for row in rows]


def numbers_in(figure):
    """Return the numbers at which something stands in a picture, to nine digits."""
    found = []
    for axis in figure.axes:
        found += [value for line in axis.lines for data in (line.get_xdata(), line.get_ydata()) for value in data]
        found += [end for bar in axis.patches for end in (bar.get_x(), bar.get_x() + bar.get_width())]
        for points in axis.collections:
            array = points.get_array()
            found += [value for place in points.get_offsets().tolist() for value in place]
            found += [value for path in points.get_paths() for value in path.vertices.ravel().tolist()]
            found += [] if array is None else array.compressed().tolist()
    return {f"{float(value):.9g}" for value in found}


@pytest.mark.parametrize("name", NAMES)
def test_the_picture_shows_every_row(drawn, few, name):
    """A number of each row is a place or a colour in it, and each loader is named."""
    chart = charts.load(name)
    rows = chart.rows(few)
    figure = drawn(name, few)
    there = numbers_in(figure)
    words = " ".join(" ".join(text.get_text() for text in figure.findobj(Text)).split())
    assert "Not drawn here" not in words and "the tables hold all" not in words
    numbers = [{f"{float(value):.9g}" for value in row.values() if isinstance(value, int | float)} for row in rows]
    lost = [row for row, found in zip(rows, numbers, strict=True) if not found & there]
    assert [row for row in lost if row.get("status", "ok") == "ok"] == []
    assert {row["loader"] for row in rows if "loader" in row and plain(row["loader"]) not in words} == set()


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_its_section(name):
    template = "".join(path.read_text(encoding="utf-8") for path in render_report.TEMPLATE.glob("*.j2"))
    section = charts.load(name).SECTION
    headings = set(re.findall(r'charts_of\("([\w-]+)"\)', template)) & set(
        re.findall(r'<h[23] id="([\w-]+)">', template)
    )
    allowed = headings | set(re.findall(r'chart_section\("([\w-]+)", ', template))
    assert section in allowed, f"SECTION: found {section!r}, allowed is one of {', '.join(sorted(allowed))}"


def test_a_chart_that_lacks_a_part_is_refused(monkeypatch):
    monkeypatch.delattr(charts.load("cold"), "NEEDS")
    with pytest.raises(UserError, match=r"charts/cold.py: .* NEEDS"):
        charts.load("cold")


def test_the_snakefile_reads_charts_without_libraries():
    """Snakemake's own environment has no Matplotlib."""
    code = "import sys; from scripts.report import charts; charts.every(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"matplotlib", "numpy", "pandas", "seaborn"} & set(done.stdout.split())
