"""A model of a GPU that stands in for torch.cuda on a machine without one: what is ordered before what, and when it is.

Values are computed at once, on the CPU; what is modelled is the order. Each operation is enqueued on a stream, and is
ordered after what its stream has, what that stream has waited for (events), and what the host has waited for; nothing
else. So the model says of any run whether it was right by chance:

- an operation that reads memory, or writes it, whose last use is not ordered before it: `Fault`, where it is enqueued;
- page-locked memory that has changed before the host has waited for the copy out of it: `Fault`, at that wait, or at
  the end. A copy may happen as late as that, whatever it delivered here;
- device memory that is dropped while another stream than its own may still use it, unless that was noted
  (`record_stream`): `Fault`, at the end.

There is time too, which passes by itself: copies take one after the other their bytes by the speed of the bus, other
operations a fixed time each, and the host waits for what it waits for. `clock` and `sleep` are those of the host.

What is not modelled: several devices, graphs, memory that torch did not allocate, and what kernels do to one another.
"""

import threading
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

Stamp = dict["Stream", int]  # how many operations of each stream are over


class Fault(AssertionError):
    """What a device would have done wrong, on a bad day."""


class Memory:
    """What a tensor on the device and its views share."""

    def __init__(self, model: "Model", home: "Stream") -> None:
        self.model, self.home = model, home
        self.written: tuple[Stream, int] | None = None
        self.reads: dict[Stream, int] = {}
        self.recorded: set[Stream] = set()

    def __del__(self) -> None:
        uses = {**self.reads} | ({self.written[0]: self.written[1]} if self.written else {})
        for stream, number in uses.items():
            known = max(self.home.known.get(stream, 0), self.model.over.get(stream, 0))
            if stream is not self.home and stream not in self.recorded and known < number:
                self.model.faults.append(f"memory of {self.home} was released while {stream} may use it")


class OnDevice(torch.Tensor):
    """A tensor on the modelled device: its values are in `held`, on the CPU."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    device = property(lambda _self: torch.device("cuda", 0))
    is_cuda = True
    held: torch.Tensor
    memory: Memory

    @staticmethod
    def __new__(cls, held: torch.Tensor, memory: Memory) -> "OnDevice":
        form = {"strides": held.stride(), "storage_offset": held.storage_offset(), "dtype": held.dtype}
        tensor = torch.Tensor._make_wrapper_subclass(cls, held.size(), **form)
        tensor.held, tensor.memory = held, memory
        return tensor

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return next(_models()).operation(function, args, kwargs or {})

    def record_stream(self, stream: "Stream") -> None:
        """Note that this stream uses the memory, which is not to be reused before."""
        self.memory.recorded.add(stream)

    def cpu(self) -> torch.Tensor:
        """Return a copy in RAM; the host waits for it."""
        return self.memory.model.copied_out(self)

    def tolist(self) -> list:
        return self.cpu().tolist()

    def item(self) -> Any:
        return self.cpu().item()

    def numpy(self) -> Any:
        raise TypeError("a tensor of the device has no numpy array")


class Stream:
    """As torch.cuda.Stream."""

    def __init__(self, model: "Model", name: str) -> None:
        self.model, self.name = model, name
        self.known: Stamp = {self: 0}  # what the next operation is ordered after
        self.end = 0.0  # when all that it was given is over

    def __repr__(self) -> str:
        return f"stream {self.name}"

    def wait_event(self, event: "Event") -> None:
        """Let what comes later wait for the event."""
        _merge(self.known, event.stamp)
        self.end = max(self.end, event.time)

    def wait_stream(self, stream: "Stream") -> None:
        """Let what comes later wait for all that the other one has now."""
        self.wait_event(stream.record_event())

    def record_event(self) -> "Event":
        """Return an event of what the stream has now."""
        event = Event(self.model)
        event.record(self)
        return event

    def synchronize(self) -> None:
        """Let the host wait for the stream."""
        self.model.wait(self.known, self.end)


class Event:
    """As torch.cuda.Event."""

    def __init__(self, model: "Model", enable_timing: bool = False) -> None:
        self.model, self.timed = model, enable_timing
        self.stamp: Stamp = {}
        self.time = 0.0

    def record(self, stream: Stream | None = None) -> None:
        """Stand for what the stream has now."""
        with self.model.lock:
            stream = stream or self.model.current_stream()
            _merge(stream.known, self.model.over)
            stream.end = max(stream.end, self.model.now)
            self.stamp, self.time = dict(stream.known), stream.end

    def query(self) -> bool:
        """Return whether it is over by now; the host then knows."""
        if self.time > self.model.now:
            return False
        self.model.wait(self.stamp, self.time)
        return True

    def synchronize(self) -> None:
        """Let the host wait for it."""
        self.model.wait(self.stamp, self.time)

    def elapsed_time(self, later: "Event") -> float:
        """Return milliseconds to another event; Fault where the host does not know that both are over."""
        if not (self.timed and later.timed and all(map(self.model.knows, (self.stamp, later.stamp)))):
            raise Fault("the time between events was asked for before they were over, or they are not timed")
        return 1000 * (later.time - self.time)


class Model:
    """The device, its default stream, and the host's clock.

    `bus` is in bytes/s, `kernel` in seconds an operation, `tick` what passes on the host at each look at the clock.
    """

    def __init__(self, bus: float = 1e9, kernel: float = 1e-6, tick: float = 0.0) -> None:
        self.bus, self.kernel, self.tick = bus, kernel, tick
        self.lock = threading.RLock()
        self.faults: list[str] = []
        self.now = 0.0  # the host's time: that of the thread that made the model
        self.host = threading.get_ident()
        self.waited: list[float] = []  # seconds of each wait of that thread for the device
        self.over: Stamp = {}  # what the host knows to be over
        self.default = Stream(self, "default")
        self.streams = [self.default]
        self.chosen = threading.local()
        self.engine = 0.0  # until when the copy engine is at work
        self.copies: list[tuple[Stream, int, torch.Tensor, torch.Tensor]] = []  # of page-locked memory: what it was
        self.locked: set[int] = set()  # addresses of page-locked storages
        self.kept: list[torch.Tensor] = []  # so that no address is given away twice

    # the host

    def clock(self) -> float:
        """Return the host's time in seconds."""
        self.now += self.tick
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let the host's time pass."""
        self.now += seconds

    def wait(self, stamp: Stamp, until: float) -> None:
        """Let the calling thread wait until the operations of `stamp` are over; look at what copies read."""
        with self.lock:
            if threading.get_ident() == self.host and until > self.now:
                self.waited.append(until - self.now)
                self.now = until
            _merge(self.over, stamp)
            self._look_at_copies(lambda stream, number: self.over.get(stream, 0) >= number)

    def knows(self, stamp: Stamp) -> bool:
        """Return whether the host has waited for all of this."""
        return all(self.over.get(stream, 0) >= number for stream, number in stamp.items())

    def _look_at_copies(self, is_over: Any) -> None:
        for copy in [one for one in self.copies if is_over(*one[:2])]:
            self.copies.remove(copy)
            stream, _, source, was = copy
            if not torch.equal(source.contiguous().view(torch.uint8), was.contiguous().view(torch.uint8)):
                self._fault(f"page-locked memory was written while a copy on {stream} may read it")

    def _fault(self, text: str) -> None:
        self.faults.append(text)
        raise Fault(text)

    def close(self) -> None:
        """Raise Fault for what only shows in the end."""
        with self.lock:
            self._look_at_copies(lambda *_: True)
            if self.faults:
                raise Fault("; ".join(dict.fromkeys(self.faults)))

    # the device

    def current_stream(self) -> Stream:
        """Return the stream of this thread."""
        return getattr(self.chosen, "stream", self.default)

    def new_stream(self) -> Stream:
        """Return one more stream."""
        self.streams.append(Stream(self, str(len(self.streams))))
        return self.streams[-1]

    @contextmanager
    def on(self, stream: Stream):
        """Let a stream be the current one."""
        before, self.chosen.stream = self.current_stream(), stream
        yield
        self.chosen.stream = before

    def synchronize(self) -> None:
        """Let the host wait for the device."""
        for stream in self.streams:
            stream.synchronize()

    def _enqueue(self, reads: list[Memory], writes: list[Memory], copied_bytes: int = 0) -> tuple[Stream, int]:
        """Give the current stream an operation; return (stream, its number)."""
        stream = self.current_stream()
        _merge(stream.known, self.over)
        for memory in (*reads, *writes):
            if memory.written and not _after(stream, *memory.written):
                self._fault(f"{stream} uses memory that {memory.written[0]} writes, and has not waited for that")
        for memory in writes:
            for other, number in memory.reads.items():
                if not _after(stream, other, number):
                    self._fault(f"{stream} writes memory that {other} reads, and has not waited for that")
        number = stream.known[stream] = stream.known[stream] + 1
        start = max(stream.end, self.now, self.engine if copied_bytes else 0.0)
        stream.end = start + (copied_bytes / self.bus if copied_bytes else self.kernel)
        if copied_bytes:
            self.engine = stream.end
        for memory in reads:
            memory.reads[stream] = number
        for memory in writes:
            memory.written = (stream, number)
        return stream, number

    def new(self, held: torch.Tensor) -> OnDevice:
        """Return a tensor of the device in new memory of the current stream, which nothing has written."""
        return OnDevice(held, Memory(self, self.current_stream()))

    def made(self, held: torch.Tensor) -> OnDevice:
        """Return a tensor that an operation of the current stream has filled."""
        with self.lock:
            tensor = self.new(held)
            self._enqueue([], [tensor.memory])
            return tensor

    def copy_in(self, source: torch.Tensor, into: OnDevice, non_blocking: bool) -> OnDevice:
        """Copy from RAM: the host waits for the copy, or only until what is not page-locked is staged."""
        with self.lock:
            into.held.copy_(source)
            locked = self.is_locked(source)
            if not locked:  # it is staged, for which what the stream has must be over
                self.current_stream().synchronize()
            stream, number = self._enqueue([], [into.memory], source.nbytes)
            if locked:
                self.copies.append((stream, number, source, source.clone()))
            if not non_blocking:
                stream.synchronize()
            return into

    def copied_out(self, tensor: OnDevice) -> torch.Tensor:
        """Return a copy in RAM; the host waits for it."""
        with self.lock:
            stream, _ = self._enqueue([tensor.memory], [], tensor.held.nbytes)
            stream.synchronize()
            return tensor.held.clone()

    def lock_pages(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the tensor, whose memory is now page-locked."""
        with self.lock:
            self.locked.add(tensor.untyped_storage().data_ptr())
            self.kept.append(tensor)
            return tensor

    def is_locked(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor is in page-locked memory."""
        return type(tensor) is not OnDevice and tensor.untyped_storage().data_ptr() in self.locked

    def operation(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Do an operation on tensors of the device; what it reads and writes is in its schema."""
        with self.lock:
            given, aliased = {}, []  # what results that are, or share memory with, an argument are made of
            reads, writes = [], []
            schema = function._schema.arguments
            values = [*args, *(kwargs.get(one.name) for one in schema[len(args) :])]
            for argument, value in zip(schema, values, strict=False):
                for tensor in (one for one in tree_leaves(value) if isinstance(one, torch.Tensor)):
                    if not isinstance(tensor, OnDevice):
                        if function is torch.ops.aten.copy_.default:
                            return self.copy_in(tensor, args[0], non_blocking=len(args) > 2 and args[2])
                        if tensor.dim():
                            raise Fault(f"{function}: found tensors on the device and on the CPU")
                        continue
                    given[id(tensor.held)] = tensor
                    if argument.alias_info is None:
                        reads.append(tensor.memory)
                    elif argument.alias_info.is_write:
                        writes.append(tensor.memory)
                    aliased.append(tensor)
            if function is torch.ops.aten.copy_.default and not isinstance(args[0], OnDevice):
                return args[0].copy_(self.copied_out(args[1]))
            held = lambda one: one.held if isinstance(one, OnDevice) else one  # noqa: E731
            results = function(*tree_map(held, args), **tree_map(held, kwargs))
            fresh: list[Memory] = []

            def on_device(result: Any) -> Any:
                if not isinstance(result, torch.Tensor):
                    return result
                if id(result) in given:
                    return given[id(result)]
                for tensor in aliased:
                    if tensor.held.untyped_storage()._cdata == result.untyped_storage()._cdata:
                        return OnDevice(result, tensor.memory)
                tensor = self.new(result)
                fresh.append(tensor.memory)
                return tensor

            results = tree_map(on_device, results)
            if fresh or writes:
                self._enqueue(reads, [*writes, *fresh])
            return results


def _merge(into: Stamp, stamp: Stamp) -> None:
    for stream, number in stamp.items():
        into[stream] = max(into.get(stream, 0), number)


def _after(stream: Stream, other: Stream, number: int) -> bool:
    return stream.known.get(other, 0) >= number


_at_work: list[Model] = []


def _models():
    """Yield the model that stands in for the device."""
    return iter(_at_work)


def stands_in(monkeypatch: Any, **speeds: float) -> Model:
    """Let a new model stand in for torch.cuda until the test ends; `model.close()` says what only shows in the end."""
    model = Model(**speeds)
    monkeypatch.setattr(f"{__name__}._at_work", [model])
    patches = {
        "Stream": lambda *_: model.new_stream(),
        "Event": lambda enable_timing=False: Event(model, enable_timing),
        "stream": model.on,
        "current_stream": lambda *_: model.current_stream(),
        "synchronize": lambda *_: model.synchronize(),
        "current_device": lambda: 0,
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "get_device_name": lambda _number: "a model",
        "mem_get_info": lambda *_: (1 << 34, 1 << 34),
    }
    for name, value in patches.items():
        monkeypatch.setattr(torch.cuda, name, value)
    for name in ("empty", "zeros", "arange", "tensor"):
        monkeypatch.setattr(torch, name, _making(model, getattr(torch, name), name))
    to, new_empty = torch.Tensor.to, torch.Tensor.new_empty

    def moved(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        where = kwargs.get("device", args[0] if args else None)
        if not isinstance(where, str | torch.device):
            return to(tensor, *args, **kwargs)
        there, here = torch.device(where).type == "cuda", isinstance(tensor, OnDevice)
        if there and not here:
            empty = torch.empty_like(tensor, memory_format=torch.contiguous_format)
            return model.copy_in(tensor, model.new(empty), bool(kwargs.get("non_blocking")))
        if here and not there:
            return model.copied_out(tensor)
        return tensor if there else to(tensor, *args, **kwargs)

    def empty_beside(tensor: torch.Tensor, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        where = torch.device(device or tensor.device)
        held = tensor.held if isinstance(tensor, OnDevice) else tensor
        made = new_empty(held, *args, **kwargs)
        return model.new(made) if where.type == "cuda" else made

    def pin_memory(tensor: torch.Tensor) -> torch.Tensor:
        if isinstance(tensor, OnDevice):
            raise Fault("cannot pin a tensor of the device")
        return tensor if model.is_locked(tensor) else model.lock_pages(tensor.clone())

    monkeypatch.setattr(torch.Tensor, "to", moved)
    monkeypatch.setattr(torch.Tensor, "new_empty", empty_beside)
    monkeypatch.setattr(torch.Tensor, "pin_memory", pin_memory)
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda tensor: model.is_locked(tensor))
    return model


def _making(model: Model, function: Any, name: str) -> Any:
    """Return a function of torch that makes a tensor on the device too, and in page-locked memory."""

    def make(*args: Any, device: Any = None, pin_memory: bool = False, **kwargs: Any) -> Any:
        if device is not None and torch.device(device).type == "cuda":
            held = function(*args, **kwargs)
            return model.new(held) if name == "empty" else model.made(held)
        tensor = function(*args, **kwargs)
        return model.lock_pages(tensor) if pin_memory else tensor

    return make
