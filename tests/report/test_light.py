"""The light page: what Snakemake's report shows of ours, as a data address in an iframe."""

import re
from html import unescape
from xml.etree import ElementTree

import pytest

from scripts.report import light as light_page, render_report
from tests.support import browser
from tests.support.made_runs import Made
from tests.support.report_pages import Page, links, report_of, section, sections as sections_of

FULL = "report/index.html"
LONGEST_ADDRESS = 2 * 1024 * 1024  # of what Chromium opens


def light_of(report):
    """Return the light page of a report that is (tables, figures folder, HTML)."""
    tables, figures, _ = report
    return render_report.render(tables, figures, figures.parent / "tables", light_of=FULL)


@pytest.fixture(scope="module")
def usual(measured):
    """Its light and its full page."""
    return light_of(measured), measured[2]


def below_the_limit(html):
    return len(html.encode()) <= light_page.LIMIT


def tables_of(html):
    """Return the words of the page's tables."""
    html = re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
    return [Page(table).words for table in re.findall(r"<table.*?</table>", html, flags=re.DOTALL)]


def test_the_limit_leaves_room_for_base64_and_the_head_of_the_address():
    assert 4 / 3 * light_page.LIMIT + 200 < LONGEST_ADDRESS


def test_the_same_sections_and_tables(usual):
    light, full = usual
    assert below_the_limit(light)
    assert sections_of(light) == sections_of(full)
    assert tables_of(light) == tables_of(full)
    assert "application/json" not in light
    page = Page(light)
    assert page.open == []
    assert sum(tag == "img" for tag, _ in page.tags) == sum(tag == "img" for tag, _ in Page(full).tags)
    assert f"is {FULL}" in page.words
    assert FULL not in Page(full).words


def test_small_files_stay_and_the_page_says_where_the_others_are(usual):
    light, full = usual
    files = links(light)
    assert {"config.yaml", "ranking.csv"} <= files.keys() <= links(full).keys()
    assert all(links(full)[name] == address for name, address in files.items())
    for name in links(full).keys() - files.keys():
        assert re.search(rf"{re.escape(name)}\b.*{FULL}", Page(light).words), name


def test_files_go_first_and_then_pictures(measured, usual, monkeypatch):
    made, full = usual
    bare = len(re.sub(r'(src|href)="data:[^"]*"', "", made).encode())
    pictures = re.findall(r'src="(data:image[^"]*)"', made)
    monkeypatch.setattr(light_page, "LIMIT", bare + sum(map(len, pictures)) * 2 // 3)
    light = light_of(measured)
    assert below_the_limit(light)
    assert 0 < light.count('src="data:image') < len(pictures)
    figure = light.split('id="figure-throughput"')[1].split("</figure>")[0]
    assert "<img" in figure, "the picture of the speeds is the last to go"
    assert tables_of(light) == tables_of(full)
    for name in links(full).keys() - links(light).keys():
        assert f"{name} is in {FULL}" in Page(light).words or FULL in section(light, "downloads")


def test_tables_that_are_too_large_leave_a_page_that_says_so(measured, monkeypatch):
    monkeypatch.setattr(light_page, "LIMIT", 100_000)
    light = light_of(measured)
    page = Page(light)
    assert below_the_limit(light)
    assert page.open == []
    assert FULL in page.words and "lazy_memmap on disk" in page.words


def test_five_hundred_results_stay_below_the_limit(large):
    light, full = light_of(large), large[2]
    assert below_the_limit(light)
    assert "500 rows" in Page(light).words
    assert tables_of(light) == tables_of(full)


def test_without_any_result(tmp_path):
    light = light_of(report_of(tmp_path, [Made("a", "ram", ["failed"])]))
    assert Page(light).open == []
    assert below_the_limit(light)


def drawing(svg):
    """Return the elements of a picture with what rounding must leave: their styles and scales."""
    scales = r"scale\([^)]*\)"
    elements = ElementTree.fromstring(svg).iter()
    return [(one.tag, one.get("style"), re.findall(scales, one.get("transform", ""))) for one in elements]


def test_a_picture_is_that_of_the_file(measured):
    """Each is XML whose elements are those of the file that was drawn."""
    for path in sorted(measured[1].glob("*.svg")):
        svg = path.read_text(encoding="utf-8")
        text = unescape(light_page.picture_address(svg).split(",", 1)[1]).replace("%23", "#").replace("%25", "%")
        assert drawing(text) == drawing(svg[svg.index("<svg") :]), path.name
        assert len(text) < 0.8 * len(svg)


def framed(root, html):
    """Return the path of a page that shows HTML as Snakemake's report does."""
    common = pytest.importorskip("snakemake.report.common")
    page, frame = root / "light.html", root / "snakemake.html"
    page.write_text(html, encoding="utf-8")
    address = common.data_uri_from_file(page)
    frame.write_text(f'<!DOCTYPE html><iframe src="{address}" style="width: 95vw; height: 90vh"></iframe>')
    return frame


def test_snakemakes_report_shows_it(chromium, tmp_path, usual):
    there = browser.Visit(chromium, framed(tmp_path, usual[0]))
    frame = there.page.frame_locator("iframe")
    assert " on disk" in frame.locator("h1").inner_text(timeout=10_000)
    head = frame.locator("#all-results thead th").filter(has_text="Items/s").first
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    frame.locator("details").evaluate_all("folded => folded.forEach(one => { one.open = true; })")
    decode = "images => Promise.all(images.map(one => one.decode().then(() => one.naturalWidth)))"
    assert min(frame.locator("figure img").evaluate_all(decode)) > 100
    frame.locator("nav a").last.click()
    assert frame.locator("#downloads").is_visible()
    there.close()
    assert there.complaints == [] and there.foreign == []


def test_the_full_report_would_be_blank_there(chromium, tmp_path, usual):
    """The reason for the light page; where this fails, it may not be needed any more."""
    there = browser.Visit(chromium, framed(tmp_path, usual[1] + " " * 500_000))
    assert [frame.url for frame in there.page.frames][1:] == ["about:blank#blocked"]
    there.close()
