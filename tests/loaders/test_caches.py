"""Loaders over object storage that keep shards on this machine, where not all of them fit into the cache."""

import pytest

from scripts.common import plugins
from scripts.measure.sink import Sink
from scripts.measure.verify import Verifier
from tests.support.isolated_cases import can_be_tested
from tests.support.loader_cases import BATCH_SIZE, Placed, request_for, unsuited
from tests.support.made_corpus import make_corpus
from tests.support.object_stores import object_store

SHARD_BYTES = 5_000


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(("loader", "ending"), [("s3_litdata", ".bin")])
def test_shards_that_are_evicted_are_downloaded_again(tmp_path, monkeypatch, loader, ending, workers):
    if loader not in can_be_tested("loaders"):
        pytest.skip("make isolated")
    module = plugins.load("loaders", loader)
    monkeypatch.setattr(plugins.load("formats", module.FORMAT), "BLOCK_BYTES", SHARD_BYTES)
    corpus = make_corpus(tmp_path / "made", items=45, seconds=0.064)
    with object_store(tmp_path / "objects") as store:
        location = Placed(corpus, tmp_path / "placed", store).location(loader)
        request = request_for(corpus, loader, location, workers=workers, options={"cache_percent": 50})
        assert unsuited(module, request) is None
        with module.open_epochs(request) as epoch:
            for number in range(3):
                sink, verifier = Sink("cpu"), Verifier(corpus, "train", BATCH_SIZE, max(1, workers))
                verifier.finish([sink.consume(batch) for batch in epoch(number) if verifier.check(batch)])
                assert verifier.problems == []
        asked = {key: count for key, count in store.server.asked.items() if key.endswith(ending)}
        assert len(asked) > 8 and max(asked.values()) > 1
