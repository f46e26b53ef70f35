"""A headless Chromium for tests of the report: the system's own, driven by Playwright, which downloads nothing."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"),
    *("--disable-component-update", "--disable-dev-shm-usage"),
)


def program() -> str:
    """Return the browser's path; skips the test where there is no browser or no Playwright."""
    pytest.importorskip("playwright", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"none of {', '.join(NAMES)} is installed")
    return found


@contextmanager
def launched() -> Iterator[Any]:
    """Yield a running browser."""
    path = program()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """A page in a context of its own, with what it asked for and what its console said."""

    def __init__(self, browser: Any, file: Path, width: int = 1000, **options: Any) -> None:
        screen = {"viewport": {"width": width, "height": 1000}, "reduced_motion": "reduce"}
        self.context = browser.new_context(**screen, accept_downloads=True, **options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self._note(message.type, message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(f"{kind}: {text}")

    @property
    def foreign(self) -> list[str]:
        """What was asked for beyond the page itself and what is in it."""
        return [url for url in self.requests if not url.startswith(("file:", "data:", "blob:"))]

    def unfold(self) -> None:
        """Open everything that is folded."""
        self.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")

    def draw_all(self) -> None:
        """Open what is folded, and wait until every picture is drawn."""
        self.unfold()
        self.page.evaluate(
            "() => Promise.all([...document.querySelectorAll('figure img')].map("
            "one => { one.loading = 'eager'; return one.decode(); }))"
        )

    def barriers(self) -> list[tuple[str, str]]:
        """Return what axe finds that stands seriously in the way of a reader, of contrast in dark mode too.

        Skips the test without axe.
        """
        name = "axe_playwright_python.sync_playwright"
        axe = pytest.importorskip(name, reason="axe-playwright-python is not installed")
        found = []
        for scheme, rules in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
            self.page.emulate_media(color_scheme=scheme)
            found += axe.Axe().run(self.page, options={"resultTypes": ["violations"], **rules}).response["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        return [(one["id"], one["nodes"][0]["html"][:120]) for one in serious]

    def close(self) -> None:
        """Close the page."""
        self.context.close()
