"""The in-memory ceiling streams more than the processor's caches hold, where memory allows that."""

import pytest

from scripts.common.sample import audio
from scripts.machine import host
from scripts.measure import ceiling

LARGE = audio(160_000)


@pytest.mark.parametrize("caches", [None, 32 << 20, 503_000_000])
def test_the_pool_is_larger_than_the_last_level_caches(monkeypatch, caches):
    monkeypatch.setattr(host, "last_level_cache_bytes", lambda: caches)
    monkeypatch.setattr(ceiling, "MEMORY_SHARE", 1.0)
    assert ceiling.pool_bytes(32, LARGE) >= max(ceiling.POOL_BYTES, 2 * (caches or 0))


def test_the_pool_takes_no_more_than_its_share_of_memory(monkeypatch):
    monkeypatch.setattr(host, "last_level_cache_bytes", lambda: 1 << 50)
    monkeypatch.setattr(ceiling, "MEMORY_SHARE", 1e-9)
    assert ceiling.pool_bytes(32, LARGE) < ceiling.POOL_BYTES + 32 * LARGE.bytes
