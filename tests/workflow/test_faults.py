"""A part of the planted faults, by the same code as `make faults`, and the page that the whole campaign has written."""

import pytest

from tests.support.faults.page import DOC, carried
from tests.support.faults.planting import FAULTS, planted, prepared
from tests.support.faults.registry import Fault

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


def test_the_page_has_every_fault():
    rows = carried(DOC.read_text(encoding="utf-8"))["rows"]
    assert {(row["stage"], row["fault"]) for row in rows} == {(one.stage, one.name) for one in FAULTS.values()}, (
        "faults were added or renamed since: type make faults"
    )
