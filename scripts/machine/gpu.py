"""What touches a GPU: streams, events, page-locked memory, and what lies in the device's memory.

Loaders and instrument go through this module, so that tests hold the order of what they ask a device for to a model of
one (tests/support/stream_model.py). `_ring/ring_reader.py` alone has its own, since it stands alone. What it keeps to:

- A batch is the caller's once the caller's stream waits for its copy, and for no later one.
- Page-locked memory is written again when the copies out of it are over; memory of torch's own it may drop before,
  which its allocator gives to nobody until then.
- Memory that another stream uses than the one that it was taken on is noted as such (`record_stream`).

Imports torch and NVIDIA's libraries inside functions, since loaders are named where they are not installed.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from scripts.common.request import LoaderRequest

Batch = dict[str, Any]
COPY = "host_to_device"  # a part of a batch's time (common/vocabulary.py) that `LoaderRequest.without` may name


def available() -> bool:
    """Return whether torch can use a GPU in this process."""
    import torch

    return torch.cuda.is_available()


def names() -> list[str]:
    """Return the names of the GPUs that this process sees; why, where they cannot be used."""
    import torch

    if not available():
        return []
    try:
        return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    except RuntimeError as error:  # a GPU that is there and cannot be used must not stop a run on the CPU
        return [f"not usable: {str(error).splitlines()[0]}"]


def current() -> int:
    """Return the number of the GPU that is used."""
    import torch

    return torch.cuda.current_device()


def use(number: int) -> None:
    """Use the GPU of this number from now on, counted again from 0 where there are fewer."""
    import torch

    torch.cuda.set_device(number % max(1, torch.cuda.device_count()))


def free_bytes() -> int:
    """Return how much of the GPU's memory is free."""
    import torch

    return torch.cuda.mem_get_info()[0]


def uuid() -> str:
    """Return the UUID of the first GPU that CUDA_VISIBLE_DEVICES shows, without GPU- or MIG-; takes no memory there.

    CUDA counts the fastest first, and NVML by place on the bus: a number is not the same GPU to both. Raises
    RuntimeError without a driver or a GPU, ImportError without NVIDIA's Python bindings, which come with torch.
    """
    from cuda.bindings import driver

    def found(answer: tuple[Any, ...]) -> Any:
        status, *values = answer
        if status != driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(status.name)
        return values[0] if values else None

    found(driver.cuInit(0))
    of_device = getattr(driver, "cuDeviceGetUuid_v2", None) or driver.cuDeviceGetUuid  # CUDA 13 has the latter alone
    digits = bytes(found(of_device(found(driver.cuDeviceGet(0)))).bytes).hex()
    return "-".join(digits[start:stop] for start, stop in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)))


def synchronize(device: str = "cuda") -> None:
    """Return when the device has done all that it was given, on every stream; at once on the CPU."""
    if device != "cpu":
        import torch

        torch.cuda.synchronize()


def reached(device: str) -> Callable[[], None]:
    """Return a function that returns when the device has done what its current stream was given, whatever others have.

    It is the moment at which a training step could begin: the batch is there, and a later one may be on its way.
    """
    if device == "cpu":
        return lambda: None
    import torch

    return lambda: torch.cuda.current_stream().synchronize()


def moment() -> Any:
    """Return an event of the current stream, which is timed: `start.elapsed_time(end)` are milliseconds."""
    import torch

    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


class DeviceClock:
    """A clock of the host which also says when the device had a batch: that the host hands out before it is there."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock

    def __call__(self) -> float:
        return self.clock()

    def arrived(self) -> Any:
        """Note that the batch is there once the current stream comes to here."""
        return moment()

    def resolved(self, noted: Sequence[Any]) -> list[float]:
        """Return what was noted as times of this clock; waits for the current stream."""
        now = moment()
        now.synchronize()
        end = self.clock()
        return [end - event.elapsed_time(now) / 1000 for event in noted]


def clock_of(device: str, clock: Callable[[], float] = time.perf_counter) -> Callable[[], float]:
    """Return the clock of a measurement on this device."""
    return clock if device == "cpu" else DeviceClock(clock)


def pinned(tensor: Any) -> Any:
    """Return the tensor in page-locked memory: itself where it is there, else a copy that lasts until it is dropped."""
    return tensor if tensor.is_pinned() else tensor.pin_memory()


def empty_pinned(shape: Sequence[int], dtype: Any = None) -> Any:
    """Return an unfilled tensor in page-locked memory, float32 unless told."""
    import torch

    return torch.empty(shape, dtype=dtype or torch.float32, pin_memory=True)


def moved(tensor: Any, device: str) -> Any:
    """Return the tensor on the device, for use on the current stream; the host does not wait for the copy."""
    return tensor if tensor.device.type == device else pinned(tensor).to(device, non_blocking=True)


def all_moved(batch: Mapping[str, Any], device: str, pin: bool) -> Batch:
    """Return a batch on the device; without `pin` the host waits for the copy of what is not page-locked."""
    return {name: moved(tensor, device) if pin else tensor.to(device) for name, tensor in batch.items()}


def zeros(request: LoaderRequest, count: int) -> Batch:
    """Return a batch of `count` items of silence on the asked device, as the loader contract has it."""
    import torch

    return {
        request.sample.key: torch.zeros(
            (count, *request.sample.shape), dtype=getattr(torch, request.sample.dtype), device=request.device
        ),
        "target": torch.zeros(count, dtype=torch.int64, device=request.device),
        "labels": torch.zeros((count, request.classes), device=request.device),
        "item": torch.arange(count, device=request.device),
    }


def uncopied(batches: Iterator[Batch], request: LoaderRequest) -> Iterator[Batch]:
    """Yield silence that is on the device already in place of each batch: its copy is left out, and nothing else."""
    on_device = zeros(request, request.batch_size)
    for batch in batches:
        yield {name: tensor[: len(batch["item"])] for name, tensor in on_device.items()}


class Sent(NamedTuple):
    """A batch whose copy has begun."""

    tensors: Batch  # on the device; no stream but that of copies may use them before it has waited for `copied`
    host: Batch  # what it is copied from
    copied: Any  # an event: the copy is over


class CopyStream:
    """A stream of its own for copies to a GPU, which run beside what the device computes."""

    def __init__(self, device: str) -> None:
        import torch

        self.torch, self.device = torch, device
        self.stream = torch.cuda.Stream()
        self.under_way: deque[tuple[Any, Batch]] = deque()  # keeps what is copied from until that is over

    def send(self, batch: Batch) -> Sent:
        """Begin to copy a batch. Memory that is not page-locked is copied on the host first, and free at once."""
        host = {name: pinned(tensor) for name, tensor in batch.items()}
        with self.torch.cuda.stream(self.stream):
            tensors = {name: tensor.to(self.device, non_blocking=True) for name, tensor in host.items()}
            copied = self.torch.cuda.Event()
            copied.record()
        while self.under_way and self.under_way[0][0].query():
            self.under_way.popleft()
        self.under_way.append((copied, host))
        return Sent(tensors, host, copied)

    def arrived(self, sent: Sent) -> Batch:
        """Return a batch for use on the current stream, whose later work waits for this copy."""
        current = self.torch.cuda.current_stream()
        current.wait_event(sent.copied)
        for tensor in sent.tensors.values():
            tensor.record_stream(current)
        return sent.tensors

    def give_back(self, sent: Sent, batch: Mapping[str, Any]) -> None:
        """Return when nothing is read any more from the memory of `batch`, which `sent` was made of."""
        if any(sent.host[name] is tensor for name, tensor in batch.items()):
            sent.copied.synchronize()
