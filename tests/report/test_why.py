"""Why it is slow, in sentences: a batch's parts, and only such opportunities as were measured and are surely ones."""

import pytest

from scripts.report.sentences import answer_of
from scripts.report.why import NOW as NOW_TITLE, reasons
from tests.support.made_runs import Made, explained
from tests.support.report_pages import tables_of

NOW = Made(
    "torchaudio", "disk", [100.0, 102.0, 98.0, 101.0, 99.0], "wav", trials=explained(100.0, 60000.0, decode=700.0)
)
SAME_FILES = Made("soundfile", "disk", [790.0, 800.0, 785.0, 795.0, 788.0], "wav")
FASTEST = Made("ring", "disk", [9000.0, 9100.0, 8900.0, 9050.0, 8950.0])


def found(tmp_path, *made, **more):
    tables = tables_of(tmp_path, made, **more)
    return {one["title"]: one for one in reasons(tables, answer_of(tables))}


def test_another_loader_of_the_same_files_is_an_opportunity_with_its_interval(tmp_path):
    same, other, without = found(tmp_path, NOW, SAME_FILES, FASTEST)[NOW_TITLE]["opportunities"]
    assert all(part in same for part in ("86 %", "soundfile", " 7."))
    assert all(part in other for part in ("ring", "memmap", "1.50 s"))
    assert "700 items/s" in without


@pytest.mark.parametrize(
    "rival",
    [
        Made("soundfile", "disk", [60.0, 300.0, 90.0, 160.0, 99.0], "wav"),  # not distinguishable
        Made("soundfile", "disk", [900.0], "wav"),  # a single run
        Made("soundfile", "ram", SAME_FILES.outcomes, "wav"),  # on another tier
        Made("soundfile", "disk", SAME_FILES.outcomes, "wav", cache="cold"),  # in another scenario
        Made("soundfile", "disk", ["failed"] * 5, "wav"),
        Made("soundfile", "disk", [50.0, 51.0, 49.0, 50.5, 49.5], "wav"),  # slower
    ],
)
def test_what_is_not_surely_faster_is_none(tmp_path, rival):
    assert "soundfile" not in " ".join(found(tmp_path, NOW, rival, FASTEST)[NOW_TITLE]["opportunities"])


def ladder(*steps):
    return [
        {"change": change, "loader": made.loader, "tier": made.tier, "slug": made.slug, "reason": None}
        for change, made in steps
    ]


def test_of_the_ladder_the_step_above_what_one_has(tmp_path):
    same = Made("soundfile", "ram", SAME_FILES.outcomes, "wav")
    said = found(tmp_path, NOW, same, FASTEST, ladder=ladder(("naive", NOW), ("faster", same), ("mapped", FASTEST)))
    [step] = [text for text in said[NOW_TITLE]["opportunities"] if text.startswith("On the ladder")]
    assert "faster (soundfile) is 7." in step


def test_what_is_said_of_a_pair_is_said_once(tmp_path):
    said = found(tmp_path, NOW, SAME_FILES, FASTEST, ladder=ladder(("naive", NOW), ("faster", SAME_FILES)))
    assert "ladder" not in " ".join(said[NOW_TITLE]["opportunities"])
