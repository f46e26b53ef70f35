"""The code on the timed path: a change of it is a decision, and each record says which code it was."""

import json
import shutil
from types import ModuleType

import pytest

from scripts.common import plugins
from scripts.common.code import file_hash
from scripts.loaders import _own
from scripts.measure import timed_path
from tests.support.programs import PROJECT

KNOWN = PROJECT / "tests" / "measure" / "timed_path.json"  # {file: hash}


def found() -> dict[str, str]:
    """Return the hash of each file on the timed path that several loaders share."""
    return {str(path.relative_to(PROJECT)): file_hash(path)[:16] for path in timed_path.shared_by_loaders()}


def test_a_change_on_the_timed_path_is_decided():
    known, now = json.loads(KNOWN.read_text()), found()
    changed = sorted(name for name in known.keys() | now.keys() if known.get(name) != now.get(name))
    assert not changed, (
        f"{', '.join(changed)}: changed since {KNOWN.name} was written. Where older runs are no longer comparable, "
        "raise PROTOCOL in scripts/common/vocabulary.py. Then, or where the numbers stay the same, renew them with "
        "`python -m tests.measure.test_timed_path`, and say why in the commit."
    )


def own_loader(folder, text: str) -> ModuleType:
    (folder / "gain.py").write_text("GAIN = 1\n")
    (folder / "mine.py").write_text(text)
    return _own.declared("mine", str(folder / "mine.py"))


def test_a_record_tells_a_loaders_code_from_what_all_go_through(tmp_path):
    npy, wav = (timed_path.timed_code(plugins.load("loaders", name)) for name in ("npy", "soundfile"))
    assert npy.split("-")[0] == wav.split("-")[0] and npy.split("-")[1] != wav.split("-")[1]
    text = 'import gain\nFORMAT = "wav"\ndef dataset(request): return []\n'
    first = timed_path.timed_code(own_loader(tmp_path, text))
    assert first.split("-")[0] == npy.split("-")[0]
    assert timed_path.timed_code(own_loader(tmp_path, text + "# a comment\n")) == first
    assert timed_path.timed_code(own_loader(tmp_path, text + "X = 1\n")) != first
    loader = own_loader(tmp_path, text)
    (tmp_path / "gain.py").write_text("GAIN = 2\n")
    assert timed_path.timed_code(loader) != first, "what it imports beside it counts"


@pytest.mark.parametrize("name", ["measure/protocol.py", "common/request.py"])
def test_what_every_run_goes_through_is_in_every_hash(name, tmp_path, monkeypatch):
    before = timed_path.timed_code(plugins.load("loaders", "npy"))
    copy = tmp_path / "changed.py"
    shutil.copy(PROJECT / "scripts" / name, copy)
    copy.write_text(copy.read_text() + "CHANGED = True\n")
    files = [copy if path == PROJECT / "scripts" / name else path for path in timed_path.FILES]
    monkeypatch.setattr(timed_path, "FILES", files)
    shared, own = timed_path.timed_code(plugins.load("loaders", "npy")).split("-")
    assert shared != before.split("-")[0] and own == before.split("-")[1]


if __name__ == "__main__":
    KNOWN.write_text(json.dumps(found(), indent=1) + "\n")
