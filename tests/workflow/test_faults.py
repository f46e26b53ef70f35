"""A part of the planted faults, by the same code as `make faults`, and the page that the whole campaign has written."""

import json

import pytest

from tests.support.faults.page import DOC, carried, page
from tests.support.faults.planting import FAULTS, planted, prepared
from tests.support.faults.registry import STAGES, Fault

SHORT = [one for one in FAULTS.values() if one.short]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project of which every stage has run once."""
    with prepared(tmp_path_factory.mktemp("faults")) as made:
        yield made


@pytest.mark.parametrize("one", SHORT, ids=lambda one: one.name)
def test_a_planted_fault_does_no_harm_and_what_to_do_is_said(project, one: Fault):
    row = planted(one, project)
    if row.found.startswith("not run"):
        pytest.skip(row.found)
    assert row.holds, row


def test_the_page_has_every_fault_and_its_counts_are_those_of_its_record():
    text = DOC.read_text(encoding="utf-8")
    record = carried(text)
    assert [(row["stage"], row["fault"]) for row in record["rows"]] == [(one.stage, one.name) for one in ordered()], (
        "faults were added, renamed or moved since: type make faults"
    )
    assert page(record) == text, "edited by hand, or written by other code: type make faults"
    assert record["commit"] and record["date"]


def ordered() -> list[Fault]:
    """Return the faults as the page lists them."""
    return sorted(FAULTS.values(), key=lambda one: STAGES.index(one.stage))


def test_the_campaign_is_as_large_as_it_says():
    assert len(FAULTS) >= 40
    assert {one.stage for one in FAULTS.values()} == set(STAGES)


def test_a_row_of_the_page_keeps_its_cells():
    """A fault, or what it said, may have bars and brackets."""
    row = {"stage": "plan", "fault": "a|b", "expected": "<x>", "found": "as expected", "said": "c\\|d"}
    counts = {"lost": 0, "half": 0, "wrong": 0, "says": "yes", "seconds": 1.0}
    about = {"commit": "0", "date": "2026-01-01", "kernel": "6", "who": "root"}
    record = {**about, "rows": [{**row, **counts}]}
    text = page(record)
    assert carried(text) == record and json.dumps("a|b") in text
    assert r"a\|b" in text and "&lt;x>" in text
