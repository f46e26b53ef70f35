"""What the verdict says of another loader with the user's transform, and beside it without."""

import pytest

from scripts.report import render_report, terminal
from scripts.report.sentences import answer_of, with_transform_texts
from tests.support.made_runs import Made
from tests.support.made_verdicts import other, runs, tables_of, transformed
from tests.support.report_pages import blank_pictures


def made(loader: str, speed: float, transform: str = "", where: str = "worker", of=runs, **more) -> Made:
    """Return five runs of a loader, with a transform or without."""
    options = {"transform": transform, "transform_in": where} if transform else {}
    return Made(loader, "disk", of(speed), options=options, **more)


SWEPT = [
    *(made("mine", 100.0), made("fast", 5000.0, of=other), made("slow", 20.0)),
    *(made("mine", 80.0, "mel"), made("fast", 160.0, "mel", of=other), made("slow", 18.0, "mel")),
]


def answered(root, results, now="mine"):
    tables = tables_of(root, results, now)
    return tables, answer_of(tables)


def led(one):
    """Return loader, current loader and ratio of a comparison."""
    return one["id"].split("/")[0], one["now"].split("/")[0], pytest.approx(one["times"], rel=0.01)


def test_the_leader_with_a_transform_stands_beside_that_without(tmp_path):
    tables, answer = answered(tmp_path, SWEPT)
    assert answer["scenario"] == "CPU" and answer["now"]["times"] == pytest.approx(50, rel=0.01)
    [one] = answer["transforms"]
    assert (one["transform"], one["transform_in"]) == ("mel", "worker")
    assert led(one) == ("fast", "mine", 2) and 1.5 < one["low"] < 2 < one["high"] < 2.5
    assert led(one["without"]) == ("fast", "mine", 50) and one["without"]["low"] < 50 < one["without"]["high"]
    [text] = with_transform_texts(tables, answer)
    assert text.startswith("With your transform mel: fast on disk gives 2.00 times the speed of mine on disk (1.9")
    assert "Without it: fast on disk gives 50.0 times the speed of mine on disk (4" in text
    assert max(len(sentence.split()) for sentence in text.split(". ")) <= 25
    assert any(line.startswith("With your transform mel") for line in terminal.answer_lines(tables, False))


def test_the_page_says_it_too(tmp_path):
    tables, answer = answered(tmp_path, transformed(), "c")
    blank_pictures(tmp_path / "figures")
    html = render_report.render(tables, tmp_path / "figures")
    assert with_transform_texts(tables, answer)[0] in html


def test_places_of_work_are_apart_and_scenarios_too(tmp_path):
    """On the device another one leads; what was read from a cold disk has no part in it."""
    more = [
        *(made("mine", 300.0, "mel", "device"), made("slow", 900.0, "mel", "device", of=other)),
        *(made("mine", 10.0, "mel", cache="cold"), made("slow", 90.0, "mel", cache="cold", of=other)),
    ]
    tables, answer = answered(tmp_path, [*SWEPT, *more])
    found = {one["transform_in"]: one for one in answer["transforms"]}
    assert len(answer["transforms"]) == 2
    assert led(found["worker"]) == ("fast", "mine", 2) and led(found["device"]) == ("slow", "mine", 3)
    assert {one["without"]["id"] for one in found.values()} == {answer["choice"]}
    assert any(
        "mel on the device: slow on disk gives 3.00 times" in text for text in with_transform_texts(tables, answer)
    )


def test_each_transform_has_an_entry_and_the_best_settings_count(tmp_path):
    more = [made("mine", 40.0, "gain"), made("mine", 120.0, "mel", workers=4), made("slow", 40.01, "gain", of=other)]
    tables, answer = answered(tmp_path, [*SWEPT, *more])
    found = {one["transform"]: one for one in answer["transforms"]}
    assert led(found["mel"]) == ("fast", "mine", 160 / 120) and "-w4-" in found["mel"]["now"]
    assert found["gain"]["times"] == pytest.approx(1, abs=0.01)
    assert any(
        "not distinguishable" in text or "your current loader" in text for text in with_transform_texts(tables, answer)
    )


def test_the_current_loader_may_lead_with_it(tmp_path):
    tables, answer = answered(tmp_path, [*SWEPT[:3], made("mine", 80.0, "mel"), made("fast", 60.0, "mel", of=other)])
    [one] = answer["transforms"]
    assert one["id"] == one["now"] and (one["times"], one["low"], one["high"]) == (1.0, None, None)
    [text] = with_transform_texts(tables, answer)
    assert text.startswith(
        "With your transform mel: mine on disk, your current loader, is the fastest. Without it: fast"
    )


@pytest.mark.parametrize("now", ["elsewhere", None])
def test_without_the_current_loader_nothing_is_compared(tmp_path, now):
    assert answered(tmp_path, SWEPT, now)[1]["transforms"] == []


def test_what_was_not_measured_without_it_has_no_other_half(tmp_path):
    tables, answer = answered(tmp_path, SWEPT[3:])
    [one] = answer["transforms"]
    assert led(one) == ("fast", "mine", 2) and one["without"] is None
    assert "Without" not in with_transform_texts(tables, answer)[0]
    mixed, answer = answered(tmp_path / "failed", [Made("mine", "disk", ["failed"] * 5), *SWEPT[1:]])
    assert answer["transforms"][0]["without"] is None and with_transform_texts(mixed, answer)


def test_too_few_rounds_have_no_interval(tmp_path):
    results = [Made(one.loader, "disk", one.outcomes[:1], options=one.options) for one in SWEPT]
    tables, answer = answered(tmp_path, results)
    [one] = answer["transforms"]
    assert one["low"] is None and "(too few rounds for an interval)" in with_transform_texts(tables, answer)[0]
