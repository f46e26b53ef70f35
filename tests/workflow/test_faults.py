"""A part of the planted faults, by the same code as `make faults`, and the record and page that it writes."""

import pytest

from tests.support.faults.page import page, record_of
from tests.support.faults.planting import FAULTS, planted, prepared
from tests.support.faults.registry import Fault, Row

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


def row(name: str, found: str = "as expected", **counts: int) -> Row:
    """A row of a fault by name."""
    one = FAULTS[name]
    none = dict.fromkeys(("lost", "half", "wrong"), 0)
    return Row(one.stage, name, one.expected, found, **{**none, **counts}, says="-", seconds=30.0, said="a | b")


def test_faults_that_are_planted_again_renew_their_rows_alone():
    first, second, third = list(FAULTS)[:3]
    earlier = record_of([row(second), row(third, "FAILED: 2 lost", lost=2)], "old")
    earlier["rows"].append({**earlier["rows"][0], "fault": "a fault that no longer exists"})
    record = record_of([row(third), row(first)], "new", earlier)
    assert {(one["fault"], one["commit"], one["lost"]) for one in record["rows"]} == {
        *((first, "new", 0), (second, "old", 0), (third, "new", 0))
    }


def test_the_page_sums_up_what_was_planted():
    first, second, third = list(FAULTS)[:3]
    text = page(record_of([row(first), row(second, "FAILED: 2 lost", lost=2), row(third, "not run: no fio")], "abc"))
    assert f"| planted | 2 of {len(FAULTS)} |\n| as expected | 1 |\n" in text
    assert "delivered nor named with a reason | 2 |" in text
    assert text.count("| a \\| b | abc |") == 3
