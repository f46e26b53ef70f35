"""The verdict's three forms and the page around them, on planted tables, with names that attack or do not fit."""

from types import SimpleNamespace

import pytest

from scripts.report import render_report
from tests.support import browser
from tests.support.made_runs import Made, explained
from tests.support.report_pages import Page, blank_pictures, tables_of

STEADY, CLOSE = [1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.01], [1.01, 1.0, 1.0, 1.01, 0.99, 1.01, 1.0]
WILD = [0.2, 3.0, 0.6, 2.5, 0.3, 1.4, 0.7], [2.6, 0.3, 2.2, 0.4, 1.9, 0.5, 1.6]


def made(loader, speed, factors=STEADY, tier="disk", **more):
    return Made(loader, tier, [speed * factor for factor in factors], **more)


NOW = made("torchaudio", 10.0, format="wav", trials=explained(10.0, 60000.0, decode=70.0))
SCENES = {  # what was measured
    "clear": [made("ring", 900.0), made("soundfile", 80.0), NOW],
    "tied": [made("ring", 900.0), made("memmap", 901.0, CLOSE), NOW],
    "noisy": [made("ring", 900.0, WILD[0]), made("memmap", 900.0, WILD[1]), NOW],
    "one": [made("ring", 900.0)],
    "single": [made("ring", 900.0, [1.0])],
    "missing": [Made("ring", "disk", [None])],
    "skipped": [Made("ring", "disk", ["skipped"]), Made("b", "ram", ["skipped"])],
    "failed": [Made("ring", "disk", ["failed"] * 3), Made("b", "disk", ["failed"] * 3)],
}
NAMES = {
    "script": "<script>document.title='run'</script><img src=x onerror=\"document.title='run'\">",
    "quotes": "\"'`${document.title='run'}{{ 7 * 7 }}&lt;\\\"",
    "right-to-left": "محمل البيانات שלום",
    "long": "a" * 300,
    "turned": "\u202e\u2067turned",
    "lines": "one\ntwo\r\n\u2028three\t",
}
WIDTHS = (390, 1440)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """A folder with a blank picture of each chart: what they show has tests of its own."""
    folder = tmp_path_factory.mktemp("pictures")
    blank_pictures(folder)
    return folder


@pytest.fixture(scope="module")
def pages(tmp_path_factory, pictures):
    """A function that returns the page of a scene, and where it lies."""
    known = {}

    def page(scene, names=None):
        if (scene, names) not in known:
            root = tmp_path_factory.mktemp(scene)
            tables = tables_of(root, SCENES[scene], {("cpu", 32): [20000.0, 20100.0, 19900.0]})
            html = render_report.render(renamed(tables, NAMES[names]) if names else tables, pictures)
            (root / "index.html").write_text(html, encoding="utf-8")
            known[scene, names] = SimpleNamespace(html=html, path=root / "index.html")
        return known[scene, names]

    return page


def renamed(tables, name):
    """The tables with every loader, tier, format, warning and the data set called so, each with a letter before it."""
    old = {row[column] for row in tables["ranking"] for column in ("loader", "tier", "format") if row[column]}
    new = {one: f"{letter}{name}" for letter, one in zip("abcdefghijklm", sorted(old), strict=False)}
    new["demo"] = f"z{name}"

    def turned(value):
        if isinstance(value, list):
            return [turned(one) for one in value]
        if isinstance(value, dict):
            return {turned(key): turned(one) for key, one in value.items()}
        return new.get(value, value) if isinstance(value, str) else value

    return {key: turned(value) for key, value in tables.items()}


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("scene", ["noisy", "failed"])
def test_odd_names_are_text(pages, scene, names):
    html = pages(scene, names).html
    assert html.count("<h1") == 1
    page = Page(html)
    assert "onerror" not in {name for _, attributes in page.tags for name in attributes}
    assert sum(tag == "script" for tag, _ in page.tags) == len(render_report.SCRIPTS)
    shown = NAMES[names].replace("\u202e\u2067", "\N{REPLACEMENT CHARACTER}" * 2)
    assert "49" not in page.words.split() and " ".join(shown.split()) in page.words


@pytest.mark.parametrize(
    ("scene", "names"),
    [*((scene, None) for scene in SCENES), *(("noisy", names) for names in NAMES)],
)
def test_nothing_runs_and_nothing_is_wider_than_the_screen(chromium, pages, scene, names):
    there = browser.Visit(chromium, pages(scene, names).path)
    there.page.on("dialog", lambda dialog: there.complaints.append(dialog.message))
    widths = {}
    for state in ("folded", "unfolded"):
        for width in WIDTHS:
            there.page.set_viewport_size({"width": width, "height": 800})
            widths[state, width] = there.page.evaluate("document.documentElement.scrollWidth")
        there.unfold()
    title = there.page.title()
    there.close()
    assert {key: found for key, found in widths.items() if found > key[1]} == {}
    assert title.startswith("feedrate: ") and there.complaints == [] and there.foreign == []
