"""What the loaders share whose ring is filled item by item: threads fetch or decode each straight into its row."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from scripts.common.request import LoaderRequest
from scripts.loaders._ring.epochs import Batch, device_of, epochs_of_ring

COPIES = {"copies": {"enum": [False, True], "default": False}}
AT_ONCE = 4  # images that a thread takes at a time, one after another: 8 and 16 give no more (bench_loaders.py, images)
_PROGRAM = """

random = np.random.default_rng($seed)
reader = FetchingRing(  # ring_reader.py is one file that stands alone: copy it from feedrate's scripts
    SOURCE,
    len(target),
    shape,
    "$dtype",
    batch_size,
    in_flight=IN_FLIGHT,
    ahead=$prefetch,
    device=device,
    pin=$pin_memory,
    copies=$copies,  # False: on a CPU a batch is valid until the next one is taken
    at_once=AT_ONCE,
)


class Loader:
    def __iter__(self):
        order = random.permutation(len(target))
        for $item, targets, hot in reader.batches(order, target, labels):
            yield {"$item": $item, "target": targets, "labels": hot}


$own_loader
"""


def program(source: str, in_flight: str, at_once: int = 1) -> str:
    """Return the end of a program: a ring filled by the class `source` with so many threads, and the loop.

    `target` and `labels` are above it.
    """
    return _PROGRAM.replace("SOURCE", source).replace("IN_FLIGHT", in_flight).replace("AT_ONCE", str(at_once))


@contextmanager
def open_fetching(
    request: LoaderRequest,
    connect: Callable[[], Any],
    in_flight: int,
    at_once: int = 1,
    beside: Batch | None = None,
) -> Iterator[Callable[[int], Iterator[Batch]]]:
    """Yield the epoch function over items that `connect()` reads, one for each thread; see FetchingRing.

    `beside`: as of `labels_of`; None: those of the split's folder.
    """
    from scripts.loaders._ring.ring_reader import FetchingRing

    with FetchingRing(
        connect,
        request.items,
        request.sample.shape,
        request.sample.dtype,
        request.batch_size,
        in_flight=in_flight,
        ahead=request.prefetch,
        device=device_of(request),
        pin=request.pin_memory,
        copies=request.options["copies"],
        at_once=at_once,
    ) as reader:
        yield epochs_of_ring(request, reader, beside)
