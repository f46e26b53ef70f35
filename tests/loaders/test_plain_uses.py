"""The plain uses that the rows are raced with deliver what the rows do: every item once, in a new order each epoch."""

from collections.abc import Iterator
from typing import Any

import pytest

from bench.plain_uses import PLAIN, placed_kinds, problems_of
from scripts.common import plugins


@pytest.fixture(scope="module")
def placed() -> Iterator[dict[str, Any]]:
    """Corpora of audio and of images, in the formats that have been asked for."""
    with placed_kinds() as found:
        yield found


# WebDataset leaves it to the garbage collector to close its files, and PyTorch warns of arrays that are mapped.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize("loader", PLAIN)
def test_delivers_every_item_once_and_right_with_its_labels(placed, loader):
    """To the bit, but for what its decoder may differ by."""
    assert problems_of(loader, placed) == []


def test_each_is_of_a_loader_that_there_is():
    """A loader may be without one: it is raced with nothing."""
    assert set(PLAIN) <= set(plugins.names("loaders"))
