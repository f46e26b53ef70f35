"""What the terminal and the first screens say of a verdict: a sentence has at most 25 words, each code has one."""

import re

import pytest

from scripts.report import terminal
from scripts.report.sentences import (
    CAUSES,
    CAUTIONS,
    LACKING,
    answer_of,
    caution_text,
    gain,
    goal_text,
    headline,
    how_sure,
    lost_texts,
)
from tests.support.made_runs import session
from tests.support.made_verdicts import FORMS, tables_of

MOST = 25  # words


def too_long(text):
    """Return the sentences of a text that have more words than may be; a command or a setting is one word."""
    text = re.sub(r"`[^`]*`", "it", text)
    return [one for one in re.split(r"(?<=[.;:]) ", text) if len(one.split()) > MOST]


def said(tables):
    answer = answer_of(tables)
    yield from (headline(tables, answer), how_sure(answer), gain(tables, answer), *lost_texts(answer))
    yield from map(caution_text, answer["cautions"])
    yield from (goal_text(tables, goal) for goal in answer["goals"])


@pytest.mark.parametrize("form", [*FORMS, "everything"])
def test_no_sentence_is_too_long(tmp_path, form):
    made = session() if form == "everything" else {"made": FORMS[form]()}
    tables = tables_of(tmp_path, made.pop("made"), "c", **made)
    assert [one for text in said(tables) for one in too_long(text)] == []


def test_no_template_is_too_long():
    assert [text for texts in (CAUSES, CAUTIONS, LACKING) for text in texts.values() if too_long(text)] == []
    assert too_long("word " * 26) and not too_long("word " * 25)


def test_what_a_part_alone_was_measured_of_says_why():
    """A loader without room for all of its items is not said to be slower."""
    rows = {"current": "whole", "ring": "part", "arrow": "part", "zarr": "part"}
    codes = {"ring": "disk-full", "arrow": "ram-full", "zarr": "slower-on-part"}
    best = [{"loader": name, "size": size, "items_per_second": 1.0} for name, size in rows.items()]
    skipped = [{"loader": name, "reason_code": code} for name, code in codes.items()]
    lines = terminal._of_a_part({"best": best, "skipped": skipped, "dataset": {"part": 1000}})
    assert len(lines) == 3 and all("1,000 items alone" in line for line in lines)
    for line, (name, word) in zip(lines, {"ring": "disk", "arrow": "RAM", "zarr": "slower"}.items(), strict=True):
        assert f": {name}." in line and word in line and ("slower" in line) == (name == "zarr")
