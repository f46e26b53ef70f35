"""What tables and sentences say of the lines of a user's own Dataset."""

import pytest

from scripts.report import texts, why
from scripts.report.terminal import answer_lines
from scripts.tables.item_lines import costliest, text, told
from tests.support.made_runs import Made, explained, lines_of, tables_of

DECODES = lines_of(
    4.5,
    ("audio = soundfile.read(path)", 41, "decode", 0.62),
    ("resample(audio)", 44, "resample", 0.21),
    ("x", 50, "other", 0.17),
)
BURNS = lines_of(16.0, ("time.sleep(0.015)", 12, "other", 0.94), ("soundfile.read(path)", 11, "decode", 0.06))


def test_the_bottleneck_of_an_own_dataset_is_its_costliest_line(tmp_path):
    without = {"read": 9000.0, "transfer": 401.0, "everything": 9000.0}
    mine = Made("mine", "ram", [400.0] * 3, trials=explained(400.0, **without), item_lines=DECODES)
    other = Made("npy", "ram", [400.0] * 3, trials=explained(400.0, **without))
    tables = tables_of(tmp_path, [mine, other])
    rows = {row["loader"]: row for row in tables["ranking"]}
    assert rows["mine"]["bottleneck"] == "item" and rows["mine"]["bottleneck_percent"] > 90
    assert rows["mine"]["item_parts"] == "decode 62 %, resample 21 %, other 17 %" and rows["mine"]["item_ms"] == 4.5
    assert rows["mine"]["item_line"] == "decode 62 % (mine.py:41)"
    assert "Bottleneck: your Dataset, decode 62 % (mine.py:41)" in why.text(tables, rows["mine"])
    assert rows["npy"]["bottleneck"] == "read" and rows["npy"]["item_ms"] is None
    assert texts.held_text(rows["npy"]) == "reading from memory"
    assert [(row["loader"], row["line"], row["part"]) for row in tables["item_lines"]] == [
        ("mine", 41, "decode"),
        ("mine", 44, "resample"),
        ("mine", 50, "other"),
    ]
    said = " ".join("\n".join(answer_lines(tables, False)).split())
    assert "mine: An item takes 4.5 ms: decode 62 %, resample 21 %, other 17 %. Costliest: decode" in said


@pytest.mark.parametrize(
    ("trials", "speed", "workers", "part"),
    [
        (None, 440.0, 2, "item"),  # 2 workers at 4.5 ms an item: 444 items/s
        (None, 200.0, 2, ""),
        (None, 210.0, 0, "item"),
        (None, None, 2, ""),
        ({"without": {"read": 1.0, "decode": 1.0}}, 440.0, 2, "read"),  # decoding is a stage of its own
        ({"without": {"read": 1.0}}, 440.0, 2, "item"),
    ],
)
def test_without_trials_items_are_the_bottleneck_where_they_fill_the_workers(trials, speed, workers, part):
    row = {"items_per_second": speed, "workers": workers, "bottleneck_trials": trials, "item_lines": DECODES}
    held = ("read", 93.0, "numbers") if trials else ("", None, "")
    assert told(row, held)[0] == part


def test_what_has_no_name_is_said_by_its_code():
    assert costliest(BURNS) == "94 % mine.py:12: time.sleep(0.015)"
    assert (
        costliest(lines_of(1.0, ("f(x)", 3, "other", 0.3), ("read(x)", 4, "decode", 0.5))) == "decode 50 % (mine.py:4)"
    )


def test_a_reason_is_said_and_no_bottleneck_changes(tmp_path):
    lines = {"reason": "it is no DataLoader", "items": 0, "item_ms": None, "parts": {}, "lines": []}
    [row] = tables_of(tmp_path, [Made("mine", "ram", [400.0] * 3, item_lines=lines)])["ranking"]
    assert row["bottleneck"] == "" and row["item_ms"] is None
    assert text(row) == "Which line of your Dataset costs what is not known: it is no DataLoader."
