"""What the terminal and the first screens say of a verdict: a sentence has at most 25 words, each code has one."""

import re

import pytest

from scripts.decide.verdict import verdict
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
    training_text,
)
from tests.support.made_runs import session
from tests.support.made_verdicts import FORMS, clear, tables_of

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


TRAINING = {
    **{"file": "attach.json", "verdict": "INPUT-BOUND", "au_percent": 39.0, "au_low": 37.0, "au_high": 41.0},
    **{"items_per_second": 880.0, "headspace_items_per_second": 2250.0, "step_ms": 14.2, "host_share": 0.3},
    **{"batch": 32, "workers": 4, "sample_rate": None, "seconds": None},
}


def with_training(root, **changed):
    """Tables of a session that was given an attach.json."""
    tables = tables_of(root, clear(), step_ms=14.2)
    tables["dataset"]["config"]["training"] = {**TRAINING, **changed}
    return {**tables, "verdict": verdict(tables)}


def test_the_training_comes_first_and_names_what_the_choice_gives(tmp_path):
    tables = with_training(tmp_path)
    found, text = tables["verdict"]["training"], training_text(tables)
    assert text.startswith("Your training waits for its loader 61 % of its time (59 to 63): 880 items/s.")
    assert terminal.answer_lines(tables, False)[0].startswith("Your training waits for its loader 61 %")
    if found["choice_au"] is not None:
        assert found["choice_items_per_second"] == pytest.approx(22.5 * found["choice_au"])
        assert "your own transforms apart" in text
    assert too_long(text) == []


def test_a_training_that_does_not_wait_is_told_so(tmp_path):
    text = training_text(with_training(tmp_path, verdict="NOT-BOUND", au_percent=97.0, au_low=96.0, au_high=98.0))
    assert text == "Your training hardly waits for its loader (AU 97 %): 880 items/s."


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
