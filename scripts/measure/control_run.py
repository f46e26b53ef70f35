"""The control run of a session: the in-memory ceiling by itself (measure/ceiling.py), the same work all the time."""

import time
from pathlib import Path
from typing import Any

from scripts.common.location import Location
from scripts.common.request import LoaderRequest
from scripts.common.vocabulary import SPLIT
from scripts.measure.record import begun, cannot_run, failed
from scripts.plan.results import Bound


def new_record(bound: Bound) -> dict[str, Any]:
    """Return the record of a bound that has not been measured."""
    return begun("bound", bound, bound=bound.bound, **dict.fromkeys(("items_per_second", "seconds", "pool_bytes")))


def measure(bound: Bound, pool: Any) -> dict[str, Any]:
    """Return the bound's record; `pool`: the batches to stream, which the warm server has."""
    import torch

    from scripts.common.corpus import Corpus
    from scripts.machine import host
    from scripts.measure import ceiling

    record = new_record(bound)
    torch.set_num_threads(record["threads"])
    corpus = Corpus(Path(bound.corpus))
    request = LoaderRequest(
        location=Location("ram:///"),
        items=corpus.counts[SPLIT],
        sample=corpus.sample,
        classes=corpus.classes,
        seed=bound.seed,
        threads=record["threads"],
        **bound.settings,
    )
    record |= {"items": request.items, "item_bytes": corpus.sample.bytes}
    reason = cannot_run(None, request)
    if reason:
        return {**record, "status": "skipped", "reason": reason}
    record["host"], _ = host.describe(("torch",))
    before = host.look(time.perf_counter)
    try:
        record["items_per_second"] = ceiling.ceiling(request, pool, time.perf_counter, bound.seconds)
    except (RuntimeError, MemoryError) as error:
        return failed(record, error)
    after = host.look(time.perf_counter)
    record["before"], record["after"] = before.as_json(), after.as_json()
    record["warnings"] = host.disturbance(before, after)
    record["pool_bytes"] = pool.nbytes
    return {**record, "seconds": after.wall_seconds - before.wall_seconds}
