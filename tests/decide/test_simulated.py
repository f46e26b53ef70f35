"""What is said of simulated sessions, by a few of those that `python -m bench.verdicts` takes."""

import pytest

from bench import verdicts
from scripts.decide import choice

SESSIONS = 24


@pytest.mark.parametrize("tiers", verdicts.TIERS)
@pytest.mark.parametrize("noise", verdicts.NOISES)
def test_what_is_said_is_rarely_wrong(noise, tiers):
    cell = verdicts.Cell(noise, 8, tiers)
    holds, line = verdicts.line(cell, cell.said(SESSIONS))
    assert holds, line


def test_it_finds_what_is_said_too_soon(monkeypatch):
    """With intervals for an error of one half."""
    monkeypatch.setattr(choice, "OF_TWO", 0.5)
    cell = verdicts.Cell("loader x round 10 %", 8, 2)
    holds, line = verdicts.line(cell, cell.said(SESSIONS))
    assert not holds, line
