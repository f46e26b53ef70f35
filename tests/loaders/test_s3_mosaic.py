"""MosaicML Streaming from a bucket whose shards do not all fit into its cache."""

import pytest

from scripts.common import plugins
from scripts.measure.sink import Sink
from scripts.measure.verify import Verifier
from tests.support.isolated_cases import can_be_tested
from tests.support.loader_cases import BATCH_SIZE, Placed, request_for
from tests.support.made_corpus import make_corpus
from tests.support.object_stores import object_store

pytestmark = pytest.mark.skipif("s3_mosaic" not in can_be_tested("loaders"), reason="make isolated")
SHARD_BYTES = 5_000


def test_shards_that_are_evicted_are_downloaded_again(tmp_path, monkeypatch):
    monkeypatch.setattr(plugins.load("formats", "mosaic"), "BLOCK_BYTES", SHARD_BYTES)
    corpus = make_corpus(tmp_path / "made", clips=45, seconds=0.064)
    module = plugins.load("loaders", "s3_mosaic")
    with object_store(tmp_path / "objects") as store:
        location = Placed(corpus, tmp_path / "placed", store).location("s3_mosaic")
        request = request_for(corpus, "s3_mosaic", location, options={"cache_percent": 50})
        assert module.unsuited(request) is None
        with module.open_epochs(request) as epoch:
            for number in range(3):
                sink, verifier = Sink("cpu"), Verifier(corpus, "train", BATCH_SIZE, 1)
                verifier.finish([sink.consume(batch) for batch in epoch(number) if verifier.check(batch)])
                assert verifier.problems == []
        asked = {key: count for key, count in store.server.asked.items() if key.endswith(".mds")}
        assert len(asked) > 8 and max(asked.values()) > 1
