"""Why it is slow, in sentences: a batch's parts, and only such opportunities as were measured and are surely ones."""

import pytest

from scripts.report.verdicts import verdicts
from scripts.report.why import reasons
from tests.support.made_runs import Made, explained, session
from tests.support.report_pages import report_of, section, tables_of

NOW = Made(
    "torchaudio", "disk", [100.0, 102.0, 98.0, 101.0, 99.0], "wav", trials=explained(100.0, 60000.0, decode=700.0)
)
SAME_FILES = Made("soundfile", "disk", [790.0, 800.0, 785.0, 795.0, 788.0], "wav")
FASTEST = Made("ring", "disk", [9000.0, 9100.0, 8900.0, 9050.0, 8950.0])


def found(tmp_path, *made, **more):
    tables = tables_of(tmp_path, made, **more)
    return {one["title"]: one for one in reasons(tables, verdicts(tables)[0])}


def test_a_sentence_says_what_a_batch_is_made_of_and_the_bottleneck(tmp_path):
    text = found(tmp_path, NOW, FASTEST)["What you have now"]["text"]
    assert text.startswith(
        "torchaudio on disk: a batch of 32 comes every 320 ms. Of that, which may overlap: decoding 86 %."
    )
    assert "The bottleneck is decoding. In its timeline the main process waits 71 % of the time." in text


def test_another_loader_of_the_same_files_is_an_opportunity_with_its_interval(tmp_path):
    same, other, without = found(tmp_path, NOW, SAME_FILES, FASTEST)["What you have now"]["opportunities"]
    assert same.startswith("decoding takes 86 %: soundfile delivers the same wav files 7.")
    assert same.endswith(" times faster here.") and " to " in same
    assert other.startswith("ring reads the items as memmap, ") and other.endswith("writing that format took 1.50 s.")
    assert (
        without == "Without decoding torchaudio reached 700 items/s here: no faster way of doing that alone gains more."
    )


@pytest.mark.parametrize(
    "rival",
    [
        Made("soundfile", "disk", [60.0, 300.0, 90.0, 160.0, 99.0], "wav"),  # not distinguishable
        Made("soundfile", "disk", [900.0], "wav"),  # a single visit
        Made("soundfile", "ram", SAME_FILES.outcomes, "wav"),  # on another tier
        Made("soundfile", "disk", SAME_FILES.outcomes, "wav", cache="cold"),  # in another condition
        Made("soundfile", "disk", ["failed"] * 5, "wav"),
        Made("soundfile", "disk", [50.0, 51.0, 49.0, 50.5, 49.5], "wav"),  # slower
    ],
)
def test_what_is_not_surely_faster_is_none(tmp_path, rival):
    assert "soundfile" not in " ".join(found(tmp_path, NOW, rival, FASTEST)["What you have now"]["opportunities"])


def ladder(*steps):
    return [
        {"change": change, "loader": made.loader, "tier": made.tier, "slug": made.slug, "reason": None}
        for change, made in steps
    ]


def test_of_the_ladder_the_step_above_what_one_has(tmp_path):
    same = Made("soundfile", "ram", SAME_FILES.outcomes, "wav")
    said = found(tmp_path, NOW, same, FASTEST, ladder=ladder(("naive", NOW), ("faster", same), ("mapped", FASTEST)))
    [step] = [text for text in said["What you have now"]["opportunities"] if text.startswith("On the ladder")]
    assert step.startswith("On the ladder, faster (soundfile) is 7.") and step.endswith("here than naive.")


def test_what_is_said_of_a_pair_is_said_once(tmp_path):
    said = found(tmp_path, NOW, SAME_FILES, FASTEST, ladder=ladder(("naive", NOW), ("faster", SAME_FILES)))
    assert "ladder" not in " ".join(said["What you have now"]["opportunities"])


def test_titles_say_what_it_is(tmp_path):
    assert list(found(tmp_path / "two", NOW, FASTEST)) == ["Recommended", "What you have now"]
    assert list(found(tmp_path / "same", NOW)) == ["Recommended, and what you have now"]
    assert list(found(tmp_path / "none", FASTEST)) == ["Recommended"]
    assert found(tmp_path / "lost", Made("torchaudio", "disk", ["failed"])) == {}


def test_the_page_says_it_above_the_timelines(tmp_path):
    words = section(report_of(tmp_path, **session(3))[2], "why")
    assert "Recommended. lazy_memmap on ram: a batch of 32 comes every " in words
    assert "What you have now. torchaudio on ram: a batch of 32 comes every " in words
    assert words.index("Without decoding torchaudio reached ") < words.index("What each process does")
