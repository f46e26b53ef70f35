"""Golden bytes: what every stage writes of the same items stays the same until its VERSION is raised."""

import pytest

from scripts.common import plugins
from scripts.common.files import read_json
from tests.support import golden


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What each stage writes, by its name."""
    return golden.make(tmp_path_factory.mktemp("golden"))


def test_bytes_are_those_of_their_version(made):
    assert list(golden.problems(read_json(golden.GOLDEN), made)) == []


@pytest.mark.parametrize("name", plugins.names("formats"))
def test_every_format_and_its_copy_are_among_them(made, name):
    if env := golden.missing_formats().get(name):
        pytest.skip(f"{env} is not installed: type `make isolated`")
    if hasattr(plugins.load("formats", name), "truth"):
        pytest.skip("its bytes are the encoder's: tests/formats/test_encoded.py")
    kinds = {stage.split()[-1] for stage in made if stage.startswith(f"write_format {name} ")}
    assert kinds and kinds <= set(plugins.kinds(plugins.load("formats", name)))
    for kind in kinds:
        assert made[f"write_format {name} {kind}"].digest == made[f"place_format posix {name} {kind}"].digest


@pytest.mark.parametrize(
    ("name", "module", "constant", "value"),
    [
        ("memmap", "scripts.common.arrays", "WHOLE_PAGE", 8192),
        ("webdataset", "scripts.formats.webdataset", "LARGEST_SHARD_BYTES", 1),
    ],
)
def test_a_changed_constant_fails_until_the_version_is_raised(name, module, constant, value, monkeypatch, tmp_path):
    known = read_json(golden.GOLDEN)
    monkeypatch.setattr(f"{module}.{constant}", value)
    changed = golden.make(tmp_path / "one", ["audio"], [name])
    said = list(golden.problems(known, changed))
    assert [one.partition(":")[0] for one in said] == [f"write_format {name} audio", f"place_format posix {name} audio"]
    assert f"scripts/formats/{name}.py" in said[0] and golden.RENEW in said[0]
    with pytest.raises(SystemExit):
        golden.renewed(known, changed)
    format = plugins.load("formats", name)
    monkeypatch.setattr(format, "VERSION", format.VERSION + 1)
    raised = golden.make(tmp_path / "two", ["audio"], [name])
    assert len(list(golden.problems(known, raised))) == 2, "not renewed yet"
    assert list(golden.problems(golden.renewed(known, raised), raised)) == []
