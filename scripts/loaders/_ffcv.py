"""What FFCV's loaders declare, and how one of their parts is left out.

The order is ours (a permutation of all items): the library shares items between ranks only by torch.distributed. It
sets the number of torch's threads to its own when an epoch begins; that is put back.
"""

from scripts.common.request import batches_of, epoch_order
from scripts.loaders._declared import simplify_threads as simplify  # noqa: F401

SETTINGS = ("workers", "prefetch")
STAGES = ("read", "decode")


def unsuited(request):
    """Return why the library cannot have so many threads or such numbers, or None."""
    import os

    if request.sample.stored == "float16":
        return "items of float16: Numba, which compiles FFCV's code, has no float16 on a CPU"
    cores = len(os.sched_getaffinity(0))
    if request.workers > cores:
        return f"{request.workers} threads: FFCV's compiled code takes at most one a core, and this process has {cores}"
    return None


def without_read(read, request):
    """Return a function that gives the first batch again and again, cut to the size of each."""
    kept = []

    def again(items, number, threads):
        if not kept:
            kept.extend(part.clone() for part in next(read(items, 0, threads)))
        for some in batches_of(epoch_order(request, number), request.batch_size):
            yield tuple(part[: len(some)] for part in kept)

    return again
