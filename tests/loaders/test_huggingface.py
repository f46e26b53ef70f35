"""Hugging Face datasets on local files: what else its library would do by itself."""

import os
import sys

import pytest

from tests.loaders.test_programs import SEED, program
from tests.support.handed_out import data_of, run_program
from tests.support.made_corpus import make_corpus

WATCHED = """
import sys as _sys


def _refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
        raise SystemExit(f"it asks the network: {event} {arguments}")


_sys.addaudithook(_refuse)
"""
EPOCH = """
if __name__ == "__main__":
    assert len([*loader]) == 2
"""


@pytest.mark.parametrize("loader", ["hf_map", "hf_stream"])
def test_a_program_asks_no_network_and_leaves_nothing_in_the_users_cache(tmp_path, loader):
    corpus = make_corpus(tmp_path / "made", items=20, seconds=0.064)
    home, place = tmp_path / "home", tmp_path / "temporary"
    home.mkdir()
    place.mkdir()
    text = program(loader, data_of(corpus, tmp_path / "placed", loader), SEED, sample=corpus.sample, workers=0)
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "XDG_"))}
    environment = {**own, "HOME": str(home), "TMPDIR": str(place), "PATH": os.path.dirname(sys.executable)}
    done = run_program(WATCHED + text + EPOCH, "loaders", tmp_path, environment=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert [*home.rglob("*")] == [] and [*place.iterdir()] == []
