"""What the terminal, the page and errors say, to the word: as in the scenes, which `make scenes` renews."""

import pytest

from tests.scenes import made


@pytest.mark.parametrize("name", ["terminal", "page", "errors"])
def test_what_is_said_is_as_in_the_scene(name):
    """A word that was changed on purpose: type `make scenes`, and read the difference before it is committed."""
    written = (made.HERE / f"{name}.txt").read_text(encoding="utf-8")
    said = made.errors(written) if name == "errors" else getattr(made, name)()
    assert said.splitlines() == written.splitlines()
