"""The plain uses that the rows are raced with deliver what the rows do: every clip once, in a new order each epoch."""

from pathlib import Path

import pytest

from scripts.common import plugins
from scripts.common.corpus import Corpus
from tests.support.loader_cases import request_for, write_format
from tests.support.made_corpus import make_corpus
from tests.support.plain_uses import PLAIN, problems


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Corpus:
    """A corpus with clips shorter and longer than the fixed length, and a short last batch."""
    return make_corpus(tmp_path_factory.mktemp("corpus") / "made", clips=45, seconds=0.1)


@pytest.fixture(scope="module")
def placed(tmp_path_factory) -> Path:
    """The folder of the formats that have been asked for."""
    return tmp_path_factory.mktemp("placed")


# WebDataset leaves it to the garbage collector to close its files, and PyTorch warns of arrays that are mapped.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize("loader", PLAIN)
def test_delivers_every_clip_once_bit_identical_with_its_labels(corpus, placed, loader):
    changes, plain = PLAIN[loader]
    name = plugins.load("loaders", loader).FORMAT
    if not (placed / name).exists():
        write_format(corpus, name, placed / name, readers=4)
    assert problems(corpus, request_for(corpus, loader, placed / name, **changes), plain) == []


def test_each_is_of_a_loader_that_there_is():
    """A loader may be without one: it is raced with nothing."""
    assert set(PLAIN) <= set(plugins.names("loaders"))
