"""The browser of the tests of the page."""

from collections.abc import Callable, Iterator

import pytest

from tests.support import browser


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
