"""The report in a headless browser: what a reader meets on a screen, on paper, by keyboard and without scripts."""

import csv
import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.decide.verdict import verdict
from scripts.report.hero import Axis, hero
from scripts.report.sentences import answer_of, headline, keeps_up_text

HOSTILE = "<script>alert(1)</script>"
WIDTHS = (390, 1000, 1600)
UNFOLD = "document.querySelectorAll('details').forEach(one => { one.open = true; })"
REPORTS = ("campaign_page", "large_page")


@pytest.fixture(scope="module")
def campaign_page(measured):
    """The report of an experiment in which everything there is was measured."""
    return written(measured)


@pytest.fixture(scope="module")
def large_page(large):
    """The report of 500 results, some of which have odd names."""
    return written(large)


def written(report) -> Path:
    """Return the path of a report that is (tables, figures folder, HTML)."""
    path = report[1].parent / "index.html"
    path.write_text(report[2], encoding="utf-8")
    return path


def shown(page, table="all-results"):
    """Return the names in the rows that are shown, from the top."""
    rows = page.locator(f"#{table} tbody tr:visible th").all_inner_texts()
    return [" ".join(row.split()) for row in rows]


def values(page, column):
    """Return what the cells of a column of the table of all results note as their numbers, counted from 1."""
    cells = page.locator(f"#all-results tbody tr > :nth-child({column})")
    return cells.evaluate_all("cells => cells.map(cell => cell.dataset.value)")


@pytest.mark.parametrize("report", REPORTS)
def test_every_chart_is_drawn_and_nothing_is_wider_than_any_screen(visit, request, report):
    there = visit(request.getfixturevalue(report), 1440)
    page = there.page
    assert page.evaluate("document.documentElement.scrollHeight") <= 8000
    assert len(page.inner_text("body").split()) <= 3000
    there.unfold()
    wide = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 1000})
        wide[width] = page.evaluate("document.documentElement.scrollWidth")
    assert [width for width in WIDTHS if wide[width] > width] == []
    there.draw_all()
    sizes = page.evaluate("() => [...document.querySelectorAll('figure img')].map(one => one.naturalWidth)")
    assert sizes and min(sizes) > 100


def test_the_first_screen_answers(visit, campaign_page):
    assert campaign_page.stat().st_size < 2_000_000
    page = visit(campaign_page, 1280).page
    page.set_viewport_size({"width": 1280, "height": 800})
    rows = page.locator("#hero tbody tr").evaluate_all("rows => rows.map(row => row.getBoundingClientRect().bottom)")
    assert len(rows) == 4 and sum(bottom <= 800 for bottom in rows) >= len(rows) / 2


ASKED = (  # batch, step in ms, GB of data, GB of memory, MB/s of storage
    (32, 20, None, 64, None),
    (32, 13, None, 64, 2145.7),
    (64, 15, 300, 25, 100),
    (64, 15, 300, 25, None),
    (1, 0.5, 20, 64, 500),
    (256, 1000, 4000, 512, 7000.5),
)


def test_the_form_does_the_arithmetic_of_the_program(visit, measured, campaign_page):
    page = visit(campaign_page).page
    for given in ASKED:
        check_the_form(page, measured[0], given)


def check_the_form(page, tables, given):
    for name, value in zip(("batch", "step", "gb", "ram", "mbps"), given, strict=True):
        page.fill(f"#model-{name}", "" if value is None else str(value))
    keys = ("batch", "step_ms", "gigabytes", "ram_gigabytes", "storage_mbps")
    asked = dict(zip(keys, given, strict=True))
    dataset = {**tables["dataset"], "report": {**tables["dataset"]["report"], **asked}}
    rows = hero(tables, answer_of(tables))["rows"]  # as the page has them
    tables = {**tables, "dataset": dataset}
    tables["verdict"] = verdict(tables)
    answer = answer_of(tables)
    drawn = hero(tables, answer)
    answers = {one["id"]: keeps_up_text(one) for one in answer["candidates"]}
    assert page.inner_text("#model-needs") == drawn["needs_text"]
    said = "rows => rows.map(row => [row.dataset.loader, row.querySelector('.fed').innerText])"
    cells = dict(page.locator("#hero tbody tr[data-loader]").evaluate_all(said))
    assert cells == {one["row"]["loader"]: answers[one["row"]["id"]] for one in rows}
    if given[1:] != (20, None, 64, None):
        known = answer["why"] == "keeps_up"
        said = headline(tables, answer) if known else "No loader is known to keep up with these numbers."
        assert page.inner_text("#headline") == said
    place = float(page.evaluate("document.getElementById('hero').style.getPropertyValue('--need')"))
    low, high = (float(page.get_attribute("#hero", f"data-{end}")) for end in ("low", "high"))
    assert place == pytest.approx(Axis(low, high).share(1000 * given[0] / given[1]), abs=0.01)


@pytest.mark.parametrize(
    ("name", "value"), [("step", "-20"), ("batch", "0"), ("batch", ""), ("ram", "0"), ("gb", "-1")]
)
def test_the_form_refuses_what_no_training_has(visit, campaign_page, name, value):
    page = visit(campaign_page).page
    page.fill(f"#model-{name}", value)
    assert {*page.locator("#hero .fed").all_inner_texts()} == {"?"}
    assert "%" not in page.inner_text("#model-says")


def test_the_address_keeps_what_was_asked(visit, campaign_page):
    page = visit(campaign_page).page
    before = page.inner_text("#model-says")
    page.fill("#model-step", "15")
    page.fill("#model-gb", "300")
    asked, address = page.inner_text("#model-says"), page.url
    assert asked != before and address.endswith("#model,batch=32,step=15,gb=300,ram=64,mbps=")
    page.get_by_role("button", name="As measured").click()
    page.wait_for_function("text => document.getElementById('model-says').innerText === text", arg=before)
    page.goto(address)
    page.reload()
    assert page.inner_text("#model-says") == asked
    page.goto(address.replace("step=15", "step=<b>"))
    page.reload()
    assert page.input_value("#model-step") == "20"


def test_tabs_choose_the_columns_by_keyboard_too(visit, campaign_page):
    page = visit(campaign_page).page
    heads = page.locator("#all-results thead th:visible")
    shown_heads = lambda: [text.split("\n")[0].strip("↕ \u00a0") for text in heads.all_inner_texts() if text]  # noqa: E731
    assert "Items/s" in shown_heads() and "p99" not in shown_heads()
    page.get_by_label("Latency").check()
    assert "p99" in shown_heads() and "Items/s" not in shown_heads()
    page.get_by_label("Latency").press("ArrowRight")
    assert "Evidence" in shown_heads() and "p99" not in shown_heads()


def test_rows_that_are_shown_and_programs_are_copied(visit, campaign_page):
    page = visit(campaign_page, permissions=["clipboard-read", "clipboard-write"]).page
    page.evaluate(UNFOLD)
    page.locator(".copy").first.click()
    page.wait_for_function("() => document.getElementById('announcer').textContent.includes('copied')")
    assert page.evaluate("navigator.clipboard.readText()") == page.text_content("#program-first")
    page.get_by_label("Text").fill("torch WAV")
    page.evaluate("document.getElementById('announcer').textContent = ''")
    page.get_by_role("button", name="Copy as CSV").click()
    page.wait_for_function("() => document.getElementById('announcer').textContent.includes('copied')")
    rows = list(csv.reader(page.evaluate("navigator.clipboard.readText()").splitlines()))
    assert len(rows) == 1 + len(shown(page)) and all(len(row) == len(rows[0]) for row in rows)
    assert "torchaudio" in rows[1][1]


def test_a_click_on_a_head_sorts(visit, campaign_page):
    page = visit(campaign_page).page
    head = page.locator("#all-results thead th").filter(has_text="Items/s").first
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert [float(value) for value in values(page, 4)] == sorted(float(value) for value in values(page, 4))
    assert "Sorted by Items/s" in page.inner_text("#announcer")
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    speeds = [float(value) for value in values(page, 4)]
    assert speeds == sorted(speeds, reverse=True)
    page.locator("#all-results thead th").filter(has_text="Loader").locator("button").click()
    assert page.locator("#all-results [aria-sort]").count() == 1
    assert shown(page) == sorted(shown(page), key=lambda name: name.split()[0])


def test_filters_show_what_fits_and_say_how_many(visit, campaign_page):
    page = visit(campaign_page).page
    rows = page.locator("#all-results tbody tr").count()
    count = page.locator("#all-results-count")
    assert count.inner_text() == f"{len(shown(page))} of {rows} rows shown" and 0 < len(shown(page)) < rows
    page.get_by_role("button", name="Show all").click()
    page.wait_for_function(f"() => document.getElementById('all-results-count').textContent.startsWith('{rows} of')")
    assert count.get_attribute("role") == "status"
    page.get_by_label("Tier", exact=True).first.select_option("slow (emulated)")
    page.get_by_label("Cache", exact=True).select_option("cold")
    assert len(shown(page)) == 4
    page.get_by_label("Text").fill("torch WAV")
    assert [name.split(",")[0] for name in shown(page)] == ["torchaudio slow (emulated)"]
    assert count.inner_text() == f"1 of {rows} rows shown"
    page.get_by_role("button", name="Show all").click()
    page.wait_for_function(f"() => document.getElementById('all-results-count').textContent.startsWith('{rows} of')")
    page.get_by_label("best settings only").check()
    assert 0 < len(shown(page)) < rows


def test_figures_and_tables_are_downloaded(visit, campaign_page, tmp_path):
    page = visit(campaign_page).page
    assert not page.locator("#program-2").is_visible()
    page.evaluate("location.hash = 'program-2'")
    page.locator("#program-2").wait_for(state="visible")
    page.evaluate(UNFOLD)
    page.locator("#figure-cold").scroll_into_view_if_needed()
    for name, beginning in (("cold.csv", b"scenario,loader"), ("trace.json", b'{"displayTimeUnit":"ms"')):
        with page.expect_download() as found:
            page.get_by_role("link", name=name).click()
        found.value.save_as(tmp_path / name)
        assert found.value.suggested_filename == name
        assert (tmp_path / name).read_bytes().startswith(beginning)


def test_without_scripts_it_is_a_document(visit, campaign_page):
    page = visit(campaign_page, java_script_enabled=False).page
    assert page.locator("figure .picture").count() > 8
    assert all(one.bounding_box()["width"] > 100 for one in page.locator("figure img:visible").all())
    assert not page.locator("form.filters").is_visible() and not page.locator("#model-form").is_visible()
    assert "1,600" in page.inner_text("#model-says")
    assert not page.locator(".copy").first.is_visible()
    assert page.locator("#all-results tbody tr").count() == len(shown(page))
    assert "lazy_memmap on disk" in page.inner_text("h1")
    page.get_by_text("Cold against warm, storage tiers, and bounds").click()
    with page.expect_download() as found:
        page.get_by_role("link", name="cold.csv").click()
    assert found.value.suggested_filename == "cold.csv"


def test_five_hundred_results_with_odd_names(visit, large_page):
    assert large_page.stat().st_size < 3_000_000
    there = visit(large_page)
    page = there.page
    page.on("dialog", lambda dialog: there.complaints.append(f"dialog: {dialog.message}"))
    assert page.locator("#all-results tbody tr").count() == 500
    button = page.locator("#all-results thead th").filter(has_text="Items/s").first.locator("button")
    for _ in range(2):
        button.click()
        cells = values(page, 4)
        assert cells[-2:] == ["", ""], "rows without a number stand last"
        assert "" not in cells[:-2]
    page.get_by_role("button", name="Show all").click()
    page.get_by_label("Text").fill(HOSTILE)
    assert len(shown(page)) > 10
    assert page.locator("h1, td, th, p").filter(has_text=HOSTILE).count() > 10
    assert page.evaluate("document.scripts.length === document.querySelectorAll('body > script').length")


A4_INNER_PIXELS = {"upright": 703, "across": 1031}
"""Width of A4 paper in CSS pixels, less the margins of `report/template/print.css`."""

WIDER = """() => {
  const wide = document.querySelector("section:has(> .scroll > #all-results)");
  return [...document.querySelectorAll("table, pre")].filter(one => one.checkVisibility()).map(one => {
    const around = one.closest(".scroll, .code") ?? one.parentElement;
    const over = Math.max(around.scrollWidth - around.clientWidth, one.scrollWidth - one.clientWidth);
    const below = one.matches("pre") ? one.scrollHeight - one.clientHeight : 0;
    return {across: Boolean(wide?.contains(one)), over, below, text: one.textContent.trim().slice(0, 60)};
  });
}"""


def pages_of(paper: Path) -> list[str]:
    """Return the text of each page of a PDF; skips the test where no program reads one."""
    reader = shutil.which("pdftotext")
    if reader is None:
        pytest.skip("pdftotext (Debian's poppler-utils) is not installed")
    text = subprocess.run([reader, "-layout", paper, "-"], check=True, capture_output=True, text=True).stdout
    return text.split("\f")[:-1]


@pytest.mark.parametrize("report", REPORTS)
def test_on_paper_nothing_is_cut_off_no_page_is_blank_and_heads_are_repeated(visit, request, tmp_path, report):
    page = visit(request.getfixturevalue(report)).page
    page.emulate_media(media="print")
    assert page.locator("figure .picture:visible").count() >= (report == "campaign_page")
    assert page.locator("summary:visible, form:visible, nav:visible").count() == 0
    for layout, width in A4_INNER_PIXELS.items():
        page.set_viewport_size({"width": width, "height": 1000})
        found = [one for one in page.evaluate(WIDER) if one["across"] == (layout == "across")]
        assert found and [one for one in found if one["over"] > 0 or one["below"] > 0] == []
    page.pdf(path=tmp_path / "report.pdf", format="A4", prefer_css_page_size=True)
    pages = [" ".join(text.split()) for text in pages_of(tmp_path / "report.pdf")]
    assert len(pages) <= 10
    assert [number for number, text in enumerate(pages, 1) if not text] == []
    titles = page.locator("h2").all_inner_texts()
    assert [text for text in pages if text.endswith(tuple(titles))] == [], "a heading stays with what follows"
    results = [text for text in pages if "✓ yes" in text]
    assert results
    assert [text for text in results if "Verified" not in text or "Runs" not in text] == []


def test_a_phone_scrolls_tables_below_a_caption_that_stays(visit, campaign_page):
    page = visit(campaign_page, 390).page
    page.evaluate(UNFOLD)
    around = page.locator(".scroll:has(> #all-results)")
    around.evaluate("one => { one.scrollLeft = 300; }")
    assert around.evaluate("one => one.scrollLeft") == 300
    inner, outer = around.locator("caption").bounding_box(), around.bounding_box()
    assert outer["x"] <= inner["x"]
    assert inner["x"] + inner["width"] <= outer["x"] + outer["width"]
    assert around.evaluate("one => getComputedStyle(one).backgroundAttachment") == "local, local, scroll, scroll"
