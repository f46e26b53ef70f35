"""What the terminal, the page and errors say, to the word: as in the scenes, which `make scenes` renews."""

import re

import pytest

from tests.report.test_sentences import too_long
from tests.scenes import made

COLUMNS = re.compile(r"\S {2,}\S|^ *[0-9]+(-[0-9]+)? |^rank |^step ")
FULL = 85  # characters of a line that goes on in the next one, at least


@pytest.mark.parametrize("name", ["terminal", "page", "errors"])
def test_what_is_said_is_as_in_the_scene(name):
    """A word that was changed on purpose: type `make scenes`, and read the difference before it is committed."""
    written = (made.HERE / f"{name}.txt").read_text(encoding="utf-8")
    said = made.errors(written) if name == "errors" else getattr(made, name)()
    assert said.splitlines() == written.splitlines()


def test_the_terminal_has_no_sentence_of_more_than_25_words():
    texts, last = [], ""
    for line in (made.HERE / "terminal.txt").read_text(encoding="utf-8").splitlines():
        if COLUMNS.search(line.strip()):
            last = ""
        elif texts and (line.startswith("  ") or len(last) >= FULL):
            texts[-1] += f" {line.strip()}"
            last = line
        else:
            texts.append(line)
            last = line
    assert len(texts) > 50 and [one for text in texts for one in too_long(text)] == []


def test_the_first_screens_of_the_page_have_no_sentence_of_more_than_25_words():
    scenes = (made.HERE / "page.txt").read_text(encoding="utf-8").split("\n== ")
    first = ["".join(scene.split("\nAll results\n")[:2]) for scene in scenes]  # it is a link before
    lines = [line for scene in first for line in scene.splitlines()]
    assert len(lines) > 50 and [one for line in lines if "|" not in line for one in too_long(line)] == []
