"""Our own ring over one object that holds all items: ranged GETs into its buffers, in flight from batch to batch.

Threads with a connection each receive items straight into the batch: each a range of the array. `in_flight` is how
many. They do not wait for the end of a batch, so that latency costs throughput only where they are too few: as many as
items a second times seconds of latency. No worker process; boto3 signs requests, no more. On a CPU a batch is valid
until the next one is taken; `copies: true` gives each memory of its own.
"""

from scripts.loaders._plain.ring_objects import over_bucket
from scripts.loaders._ring.plan import COPIES, buffered, lifetime
from scripts.loaders._ring.unread import without_read
from scripts.loaders._s3 import IN_FLIGHT, READS

FORMAT = "memmap"
REQUIRES = ("torch", "numpy", "boto3")
LIFETIME = lifetime
STAGES = ("read",)
SETTINGS = ("prefetch", "pin_memory")
OPTIONS = {**IN_FLIGHT, **COPIES}


def make_loader(data, key, shape, dtype, batch_size, in_flight, prefetch, device, pin_memory, copies, seed, order=None):
    """Return a loader over the ranges of one object in a bucket."""
    how = {"in_flight": in_flight, "prefetch": prefetch, "device": device, "pin_memory": pin_memory, "copies": copies}
    return over_bucket(data, key, shape, dtype, batch_size, seed, order, **how)
