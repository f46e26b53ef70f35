"""Copies batches to the GPU ahead of the step that needs them: the setting `device_prefetch`, for every loader.

The loader delivers on the CPU; its batches go to the device on a CUDA stream of their own, so that the copies run
beside what the device computes. On a CPU there is nothing to copy, and the setting has no effect.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import ModuleType

from scripts.common.plugins import lifetime
from scripts.common.request import LoaderRequest
from scripts.common.settings import asked
from scripts.machine import gpu
from scripts.machine.gpu import Batch, CopyStream, Sent


@contextmanager
def open_epochs(module: ModuleType, request: LoaderRequest) -> Iterator[Callable[[int], Iterator[Batch]]]:
    """Open a loader as `request` asks; with `device_prefetch` batches, so many are on the device or on their way."""
    if request.device == "cpu" or not request.device_prefetch:
        with module.open_epochs(request) as epoch:
            yield epoch
        return
    host = replace(request, device="cpu")
    with module.open_epochs(host) as on_host:
        if gpu.COPY in request.without:
            yield lambda number: gpu.uncopied(on_host(number), request)
            return
        lasting = lifetime(module, {name: getattr(host, name) for name in asked({})} | dict(host.options)) == "lasting"
        stream = CopyStream(request.device)
        yield lambda number: ahead(on_host(number), request.device_prefetch, stream, lasting)


def ahead(batches: Iterator[Batch], count: int, stream: CopyStream, lasting: bool) -> Iterator[Batch]:
    """Yield the batches on the device, `count` of them copied ahead.

    The host waits for no copy where a batch is `lasting`; else a batch in page-locked memory of the loader's is waited
    for before the next one is asked for, which is after a step has been given to the device.
    """
    under_way: deque[Sent] = deque()
    for batch in batches:
        sent = stream.send(batch)
        under_way.append(sent)
        if len(under_way) > count:
            yield stream.arrived(under_way.popleft())
        if not lasting:
            stream.give_back(sent, batch)
    while under_way:
        yield stream.arrived(under_way.popleft())
