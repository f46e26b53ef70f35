"""docs/formats.md and docs/loaders.md are what the plug-ins say, and the formats' layout is what they write."""

import re

import pytest

from scripts.common import plugins
from scripts.kinds import crops, image
from scripts.prepare import write_format_docs as write_docs
from tests.support.isolated_cases import can_be_tested
from tests.support.loader_cases import write_format
from tests.support.made_corpus import make_corpus

OTHERS = {"000000000.wav", "image.npy", "array.npy", "image.memmap", "array.memmap"}  # in a tar file; of other data
FILE = re.compile(r"`([\w-]+\.(?:npy|npz|wav|jpg|tar|arrow|h5|beton|mdb|zarr|memmap|json))`")
TYPE = re.compile(r"\b(u?int(8|16|32|64)|float32|16-bit)\b")


def test_the_pages_are_current():
    """If not: python -m scripts.prepare.write_format_docs."""
    assert write_docs.PAGE.read_text(encoding="utf-8") == "".join(write_docs.lines())
    assert write_docs.LOADERS.read_text(encoding="utf-8") == write_docs.loaders()


@pytest.mark.parametrize("name", plugins.names("formats"))
def test_a_format_says_its_files_and_their_type(name):
    about = plugins.load("formats", name).__doc__
    assert TYPE.search(about) and ("folder holds" in about or FILE.search(about)), f"scripts/formats/{name}.py"


@pytest.mark.parametrize("name", can_be_tested("formats"))
def test_the_files_that_it_names_are_those_that_it_writes(name, tmp_path):
    first = plugins.kinds(plugins.load("formats", name))[0]
    kind = {"image": image.Kind((16, 16)), "crops": crops.Kind(48_000, 0.1, 0.0, items="crops")}.get(first)
    corpus = make_corpus(tmp_path / "corpus", items=12, seconds=0.1, kind=kind)
    write_format(corpus, name, tmp_path / name, readers=1)
    about = plugins.load("formats", name).__doc__.partition("\n\n")[2].partition("`read`")[0]
    first = [file for file in FILE.findall(about) if not re.search(r"0*[1-9]", file) and file not in OTHERS]
    members = {"000000000.json"}  # of a tar file
    for file in set(first) - members:
        assert (tmp_path / name / "train" / file).exists(), f"{file}: named in scripts/formats/{name}.py"
