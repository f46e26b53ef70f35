"""What the bench of whole demos says of them, and where it ends with an error, from a file of demos as it writes it."""

import json
import sys
from types import SimpleNamespace

import pytest

from tests.bench import demos

SAID = """What to use
  Fastest (CPU): use ring on disk: nothing is more than
    14 % faster
    Settings: format memmap, batch 32
  Least memory (CPU): resident on disk
"""


def row(loader, low=900.0, bottleneck="", speed=1000.0):
    """A row of the ranking, of which the in-memory ceiling is 2,000 clips/s."""
    return {
        "loader": loader,
        "tier": "ram",
        "clips_per_second": speed,
        "interval_low": low,
        "ceiling_clips_per_second": 2000.0,
        "bottleneck": bottleneck,
    }


@pytest.fixture
def said_of(tmp_path, monkeypatch, capsys):
    """A call of the bench on demos that are already in its file: what it printed and its error."""

    def call(*rankings):
        found = [
            {"seconds": 240.0 + number, "said": SAID, "ranking": rows, "noise": [{"variation_percent": 7.4}]}
            for number, rows in enumerate(rankings)
        ]
        (tmp_path / "found.json").write_text(json.dumps(found))
        (tmp_path / ".ready").touch()
        monkeypatch.setattr(demos, "sys", SimpleNamespace(prefix=str(tmp_path), exit=sys.exit))
        monkeypatch.setattr(sys, "argv", ["demos", "--demos", str(len(found)), "--json", str(tmp_path / "found.json")])
        try:
            demos.main()
        except SystemExit as end:
            return capsys.readouterr().out, str(end)
        return capsys.readouterr().out, ""

    return call


def test_demos_in_which_nothing_is_wrong_end_without_an_error(said_of):
    failed = row("torchaudio", low=None, speed=None)
    printed, error = said_of(
        [row("ring", bottleneck="memory", speed=1200.0), row("npy"), failed], [row("ring", bottleneck="none")]
    )
    assert error == ""
    assert "240 s; ring on ram leads; Fastest (CPU): use ring on disk: nothing is more than 14 % faster; " in printed
    assert "highest row 60 % of its ceiling; bottlenecks: ring memory" in printed
    assert "longest: 241 s of 2 demos" in printed
    assert "beyond their interval: 0\n" in printed
    assert "bottlenecks are named: 0\n" in printed


def test_a_row_is_above_its_ceiling_only_beyond_its_interval(said_of):
    printed, error = said_of([row("npy", low=1990.0, speed=2200.0)], [row("ring", low=2010.0, speed=2200.0)])
    assert error.startswith("error: ")
    assert "beyond their interval: 1\n  demo 2: ring on ram\n" in printed


def test_two_demos_that_name_different_bottlenecks_of_a_loader_are_an_error(said_of):
    rows = [row("ring", bottleneck="memory")], [row("ring", bottleneck="decode"), row("npy", bottleneck="storage")]
    printed, error = said_of(*rows)
    assert error.startswith("error: ")
    assert "bottlenecks are named: 1\n  ring\n" in printed


def test_an_environment_that_make_did_not_finish_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demos, "sys", SimpleNamespace(prefix=str(tmp_path), exit=sys.exit))
    monkeypatch.setattr(sys, "argv", ["demos"])
    with pytest.raises(SystemExit):
        demos.main()
    assert f"{tmp_path} is no environment that `make` has finished. Type: make demo" in capsys.readouterr().err
