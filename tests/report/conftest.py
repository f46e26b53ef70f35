"""The browser of the tests of the page, and the reports that several files read."""

from collections.abc import Callable, Iterator

import pytest

from tests.support import browser
from tests.support.made_runs import Made, session
from tests.support.report_pages import report_of

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="session")
def measured(tmp_path_factory):
    """Tables, figures folder and page of an experiment in which everything there is was measured three times."""
    return report_of(tmp_path_factory.mktemp("session"), drawn=True, **session(3))


@pytest.fixture(scope="session")
def large(tmp_path_factory):
    """The same of 500 results, some of which have odd names."""
    warning = dict.fromkeys(("code", "seen", "cause", "hint"), HOSTILE)
    names = [HOSTILE, "a" * 90, "ünïcode 音声 🎧", "\"quoted\" & 'single'", "${alert(1)}{{ 7 * 7 }}"]
    names += [f"loader_{number}" for number in range(20)]
    made = [
        Made(name, tier, [100.0 + 7 * place + workers], workers=workers, warnings=[warning] if not workers else [])
        for place, name in enumerate(names)
        for tier in ("ram", HOSTILE)
        for workers in range(10)
    ]
    made[-1] = Made(names[-1], HOSTILE, ["failed"], workers=9, problems=[HOSTILE])
    made[-2] = Made(names[-1], HOSTILE, ["skipped"], workers=8, reason=HOSTILE)
    return report_of(tmp_path_factory.mktemp("large"), made, {("cpu", 32): [400.0]}, drawn=True)


@pytest.fixture(scope="module")
def chromium() -> Iterator:
    """One browser for all tests of a file."""
    with browser.launched() as running:
        yield running


@pytest.fixture
def visit(chromium) -> Iterator[Callable[..., browser.Visit]]:
    """A function that opens a page, which must have nothing to complain of and ask for nothing; it is closed after."""
    runs = []

    def open_page(path, width=1000, **options):
        runs.append(browser.Visit(chromium, path, width, **options))
        return runs[-1]

    yield open_page
    for one in runs:
        one.close()
    assert [one.complaints + one.foreign for one in runs] == [[] for _ in runs]
