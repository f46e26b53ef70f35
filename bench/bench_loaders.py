"""How fast the loaders are beside one another, beside the bounds, and beside themselves without what measuring adds.

1,024 items of 10 s, batches of 32 in random order, in RAM (the cold part: on the disk of --disk), all through the sink
of a run. Two loaders at a time are open, and take turns by the epoch, so that a ratio is of one moment. Both are opened
several times, since some fall into a fast or a slow mode each time (by where their memory lies, or on which core a
thread begins): a ratio is the median over the openings, of each the median over its turns, with the 95 % interval of
that median (order statistics). Freed memory is kept, as the demo's results have it: else both of a pair fall into modes
by the heap, and a ratio is anything from 0.8 to 1.3 (`--allocator default`).

By hand: python -m bench.bench_loaders --only bound,step
         python -m bench.bench_loaders --only bare --loaders lazy_memmap,dali_wav --seconds 30
"""

import argparse
import copy
import gc
import itertools
import json
import mmap
import multiprocessing
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from bench.reference import gathered
from scripts.common import plugins
from scripts.common.arrays import WHOLE_PAGE
from scripts.common.corpus import Corpus
from scripts.common.location import PATH
from scripts.common.request import LoaderRequest
from scripts.common.vocabulary import SPIN_COUNT
from scripts.kinds import image
from scripts.loaders import _harness
from scripts.machine import allocator
from scripts.machine.cores import cores_allowed
from scripts.machine.fio import block_of, measure_reads
from scripts.machine.host import look
from scripts.machine.page_cache import ColdCache, evict, files_of
from scripts.measure.sampler import pss_of_tree
from scripts.measure.sink import PlainLoop, Sink
from scripts.measure.step import Stepped
from scripts.sources._synthetic_images import Recipe, pixels
from tests.support.isolated_cases import can_be_tested
from tests.support.loader_cases import request_for, unsuited, write_format
from tests.support.made_corpus import make_corpus

ITEMS, BATCH = 1024, 32
SIDE = 224  # pixels, of images
COLD_ROUNDS, FIO_SECONDS = 7, 3
OPENINGS, FEWEST_TURNS = 6, 2  # of each pair; turns of each opening
PAUSE = 0.1  # seconds in which a loader has made what it makes ahead
STEP_SECONDS = 0.020
Epoch = Callable[[int], Iterator[dict[str, Any]]]
Opener = Callable[[], Any]
Turn = Callable[[], float | None]


class Bench:
    """The data in every format that is asked for, and what is measured on it."""

    def __init__(self, folder: Path, disk: Path, seconds: float, loaders: Sequence[str] = ()) -> None:
        self.folder, self.disk, self.seconds, self.loaders = folder, disk, seconds, loaders
        self.corpus: Corpus = make_corpus(folder / "corpus", items=ITEMS, seconds=10, validation=0)
        self.images: Corpus | None = None
        self.results: list[dict[str, Any]] = []

    def of_images(self) -> "Bench":
        """Return the same bench on images of 224 x 224 that JPEG shrinks as it shrinks photographs."""
        other = copy.copy(self)
        other.folder, other.disk = self.folder / "images", self.disk / "images"
        if self.images is None:
            kind, recipe = image.Kind((SIDE, SIDE)), Recipe("green", SIDE, SIDE, quality=90, odd="")
            root, items = other.folder / "corpus", lambda _sample, random: pixels(recipe, random)
            self.images = make_corpus(root, items=ITEMS, validation=0, kind=kind, content=items)
        other.corpus = self.images
        return other

    def data(self, name: str, root: Path | None = None) -> Path:
        """Return the folder of a format, written once."""
        folder = (root or self.folder) / name
        if not folder.exists():
            write_format(self.corpus, name, folder, readers=2)
        return folder

    def request(self, loader: str, root: Path | None = None, **changes: Any) -> LoaderRequest:
        """Return what a loader is asked for."""
        module = plugins.load("loaders", loader)
        return request_for(self.corpus, loader, self.data(module.FORMAT, root), batch_size=BATCH, **changes)

    def opener(self, loader: str, root: Path | None = None, **changes: Any) -> Opener:
        """Return what opens a loader with these settings."""
        return partial(plugins.load("loaders", loader).open_epochs, self.request(loader, root, **changes))

    def race(self, one: Opener, other: Opener) -> tuple[float, float, float]:
        """Return how many times as fast `one` is as `other`: (median, low, high)."""
        sink, numbers = Sink("cpu"), itertools.count()

        def opened(stack: ExitStack) -> list[Turn]:
            epochs = [stack.enter_context(opener()) for opener in (one, other)]
            return [partial(self._passed, epoch, numbers, sink) for epoch in epochs]

        return self._openings(opened)

    def beside(self, opener: Opener, alone: Turn) -> tuple[float, float, float]:
        """Return how many times as fast a loader's epoch is as what is done `alone`: (median, low, high).

        The epoch follows another one at once: what was made ahead of it, another makes ahead at its end. Then there is
        a pause, for what is ahead to be made before the other's turn.
        """
        sink, numbers = Sink("cpu"), itertools.count()

        def opened(stack: ExitStack) -> list[Turn]:
            epoch = stack.enter_context(opener())

            def timed() -> float:
                self._passed(epoch, numbers, sink)
                began = time.perf_counter()
                self._passed(epoch, numbers, sink)
                seconds = time.perf_counter() - began
                time.sleep(PAUSE)
                return seconds

            return [timed, alone]

        return self._openings(opened)

    def _passed(self, epoch: Epoch, numbers: Iterator[int], sink: Any) -> None:
        passed(epoch, next(numbers), sink)

    def _openings(self, opened: Callable[[ExitStack], list[Turn]]) -> tuple[float, float, float]:
        """Return how many times as fast the first of a pair is that is opened anew each time: (median, low, high)."""
        found = []
        for _ in range(OPENINGS):
            with ExitStack() as stack:
                found.append(self._turns(opened(stack)))
            gc.collect()
        return middle(found)

    def _turns(self, pair: list[Turn]) -> float:
        """Return how many times as fast the first of a pair is: the median over turns of both, in random order.

        A turn's time is what it returns; of one that returns None, from its call to its end.
        """
        seconds: tuple[list[float], list[float]] = ([], [])
        for turn in pair:
            turn()
        end = time.perf_counter() + self.seconds / OPENINGS
        while time.perf_counter() < end or len(seconds[0]) < FEWEST_TURNS:
            for which in random.sample((0, 1), 2):
                began = time.perf_counter()
                own = pair[which]()
                seconds[which].append(time.perf_counter() - began if own is None else own)
        return statistics.median(slow / fast for fast, slow in zip(*seconds, strict=True))

    def note(self, bench: str, found: tuple[float, float, float], goal: float, lower_is_better: bool = False) -> None:
        """Print a ratio, and keep it for the table."""
        ratio, low, high = found
        print(f"{bench}: {ratio:.3f} (95 %: {low:.3f} to {high:.3f})", flush=True)
        print(
            json.dumps({"bench": bench, "ratio": ratio, "goal": goal, "lower_is_better": lower_is_better}), flush=True
        )


def passed(epoch: Epoch, number: int, sink: Any) -> int:
    """Pass one epoch to the sink; return the number of items."""
    items = 0
    for batch in epoch(number):
        items += len(sink.consume(batch).item)
    sink.finish()
    assert items == ITEMS, f"{items} of {ITEMS} items came"
    return items


def middle(values: Any) -> tuple[float, float, float]:
    """Return the median, and the 95 % interval of the median by order statistics."""
    ordered = sorted(values)
    reach = 0.98 * len(ordered) ** 0.5
    low = max(0, round(len(ordered) / 2 - reach) - 1)
    return statistics.median(ordered), ordered[low], ordered[len(ordered) - 1 - low]


def against_the_bound(bench: Bench) -> None:
    """Race the fastest rows and the gather from a resident tensor, by torch and by numpy."""
    resident = {way: partial(gathered, bench.request("resident"), way) for way in ("torch", "numpy")}
    numpy_over_torch = bench.race(resident["numpy"], resident["torch"])
    bound = "numpy" if numpy_over_torch[0] > 1 else "torch"
    print(f"the bound gathers by {bound}: numpy is {numpy_over_torch[0]:.3f} times as fast as torch")
    for name, changes in (
        ("ring", {"workers": 0}),
        ("ring", {"workers": 2}),
        ("ring_int16", {"workers": 2}),
        ("resident", {}),
        ("numpy_memmap", {}),
    ):
        said = f"{name}{''.join(f', {key} {value}' for key, value in changes.items())}"
        bench.note(f"{said} / resident gather, warm", bench.race(bench.opener(name, **changes), resident[bound]), 0.95)


def against_fio(bench: Bench) -> None:
    """Compare cold epochs of ours with fio's random reads of an item's size by as many readers, in turns.

    fio reads each item into the same memory again, which stays in the CPU's caches. A loader's batches do not: on a
    disk that is nearly as fast as memory this alone keeps it below fio (see `into_new_memory`, which reads as fio
    does, but into memory as large as the ring).
    """
    for readers, direct in itertools.product((1, 2, 4), (False, True)):
        request = bench.request("ring", bench.disk, workers=readers, options={"direct": direct})
        cold = ColdCache(request.data, lambda: look(time.perf_counter).read_bytes)
        ratios = []
        for number in range(COLD_ROUNDS):
            size = block_of(4 * bench.corpus.samples)
            fio, reason = measure_reads(bench.disk, [size], [readers], FIO_SECONDS / 3, False, 1 << 29)
            assert fio, reason
            [read] = [r for r in fio["reads"] if r["pattern"] == "random" and r["readers"] == readers]
            cold.evict()
            with plugins.load("loaders", "ring").open_epochs(request) as epoch:
                cold.begin()
                began = time.perf_counter()
                passed(epoch, number, Sink("cpu"))
                seconds = time.perf_counter() - began
                problem = cold.end().problem
            del epoch
            assert not problem, problem
            ratios.append(ITEMS * 4 * bench.corpus.samples / 1e6 / seconds / read["megabytes_per_second"])
        how = "past the page cache" if direct else "through the page cache"
        bench.note(f"ring, {readers} threads, {how} / fio random, {readers} readers, cold", middle(ratios), 0.95)


def into_new_memory(bench: Bench) -> None:
    """Compare cold epochs of ours with the same reads by as many threads that do nothing else."""
    for readers in (1, 2, 4):
        request = bench.request("ring", bench.disk, workers=readers, options={"direct": True})
        ratios = []
        for number in range(COLD_ROUNDS):
            evict(files_of(request.data))
            with plugins.load("loaders", "ring").open_epochs(request) as epoch:
                began = time.perf_counter()
                passed(epoch, number, Sink("cpu"))
                seconds = time.perf_counter() - began
            ratios.append(bare_reads(request, readers, number) / seconds)
        bench.note(f"ring, {readers} threads, past the page cache / the bare reads", middle(ratios), 0.95)


def bare_reads(request: LoaderRequest, readers: int, number: int) -> float:
    """Return the seconds in which threads read every item past the page cache, into memory as large as the ring."""
    item = 4 * request.samples
    ring = BATCH * (request.prefetch + 1)
    memory = memoryview(mmap.mmap(-1, ring * item))
    for start in range(0, ring * item, mmap.PAGESIZE):
        memory[start] = 1
    order = random.Random(number).sample(range(request.items), request.items)
    file = os.open(request.data / "audio.npy", os.O_RDONLY | os.O_DIRECT)

    def read(first: int) -> None:
        for turn in range(first, len(order), readers):
            place = turn % ring * item
            os.preadv(file, [memory[place : place + item]], WHOLE_PAGE + order[turn] * item)

    evict(files_of(request.data))
    try:
        with ThreadPoolExecutor(readers) as pool:
            began = time.perf_counter()
            list(pool.map(read, range(readers)))
            return time.perf_counter() - began
    finally:
        os.close(file)


def idiomatic_against_naive(bench: Bench) -> None:
    """Race every loader that gathers by batch or by item with itself."""
    for name in plugins.names("loaders"):
        module = plugins.load("loaders", name)
        if {"batch", "item"} <= set(getattr(module, "OPTIONS", {}).get("gather", {}).get("enum", ())):
            again = bench.folder / "again"  # LMDB opens a file once in a process
            ways = [bench.opener(name, options={"gather": "batch"})]
            ways.append(bench.opener(name, again, options={"gather": "item"}))
            bench.note(f"{name}: a batch at a time / an item at a time", bench.race(*ways), 1.0)
            shutil.rmtree(again)


def against_workers_per_item(bench: Bench) -> None:
    """Race ours with a DataLoader with workers over a memory map, item by item."""
    workers = max(1, cores_allowed() - 1)
    plain = bench.opener("numpy_memmap", workers=workers, options={"gather": "item"})
    for threads in (0, 2):
        said = f"ring, {threads} threads / DataLoader, {workers} workers, numpy memmap by the item"
        bench.note(said, bench.race(bench.opener("ring", workers=threads), plain), 20.0)


def in_training(bench: Bench) -> None:
    """Let ours feed an emulated step, and say which part of the time the steps took.

    The step is all that is done with a batch: a model's step reads the batch itself, so nothing else does here.
    """
    for threads in (1, 2):
        with bench.opener("ring", workers=threads)() as epoch:
            shares = []
            passed(epoch, 0, PlainLoop())
            for number in range(1, 9):
                sink = Stepped(PlainLoop(), STEP_SECONDS, time.perf_counter)
                began = time.perf_counter()
                passed(epoch, number, sink)
                shares.append(sink.computed() / (time.perf_counter() - began))
        bench.note(f"ring, {threads} threads: AU with a step of 20 ms", middle(shares), 0.99)


def memory(bench: Bench) -> None:
    """Say how many batches of memory ours takes over the bare process, and whether it grows."""
    batch = BATCH * 4 * bench.corpus.samples
    sink, ahead = Sink("cpu"), 2
    sink.consume(_two_items(bench))
    gc.collect()
    before = pss_of_tree(os.getpid())["anonymous_bytes"]
    with bench.opener("ring", bench.disk, workers=2, prefetch=ahead)() as epoch:  # not on tmpfs, whose files are memory
        taken = []
        for number in range(8):
            passed(epoch, number, sink)
            taken.append((pss_of_tree(os.getpid())["anonymous_bytes"] - before) / batch)
    print(f"batches of memory after each of 8 epochs: {', '.join(f'{share:.2f}' for share in taken)}")
    bench.note(f"ring of {ahead + 1}: memory / (ring + 1) batches", middle([max(taken) / (ahead + 2)]), 1.0, True)
    bench.note("ring: memory after the last epoch / after the second", middle([taken[-1] / taken[1]]), 1.02, True)


def _two_items(bench: Bench) -> dict[str, Any]:
    """Return a small batch, for the sink to have what it needs."""
    import torch

    count, labels = torch.arange(2), torch.zeros(2, bench.corpus.classes)
    return {"audio": torch.zeros((2, 1, bench.corpus.samples)), "target": count, "labels": labels, "item": count}


def bare_loaders(bench: Bench) -> None:
    """Race each loader as it is measured with its `make_loader` alone, as a training would have it, with 2 workers."""
    for loader in bench.loaders or can_be_tested("loaders"):
        module = plugins.load("loaders", loader)
        if not hasattr(module, "make_loader") or PATH not in getattr(module, "READS", (PATH,)):
            continue
        own = bench if "audio" in plugins.kinds(module) else bench.of_images()
        request = own.request(loader, workers=2)
        if unsuited(module, request) is None:
            race = own.race(own.opener(loader, workers=2), partial(bare, module, request))
            bench.note(f"{loader} as measured / alone", race, 0.95)


@contextmanager
def bare(declared: ModuleType, request: LoaderRequest) -> Iterator[Epoch]:
    """Yield the epoch function of a loader without its harness; in place of an item's number comes its target."""
    module = import_module(declared.__name__)
    arguments = (_harness.settings_of(module, request), request.sample, request.data, request.seed)
    loader = module.make_loader(**_harness.arguments_of(_harness.names_of(module.make_loader), *arguments))
    yield lambda _number: ({**batch, "item": batch["target"]} for batch in loader)
    if getattr(loader, "close", None):
        loader.close()
    if hasattr(module, "close"):
        module.close(loader)


def images(bench: Bench) -> None:
    """Race each row of encoded images with decoding alone on all cores, and of decoded ones with the bare gather.

    FFCV's among them where its environment is first on the path: PYTHONPATH=.venv/isolated/ffcv:. python -m ...
    """
    bench, cores = bench.of_images(), cores_allowed()
    with decoding_alone(bench.request("image_files"), cores) as alone:
        found = {}
        encoded = ("image_files", "webdataset_images", "dali_images", "ring_images", "ring_image_shards")
        isolated = [name for name in ("ffcv_jpeg",) if name in can_be_tested("loaders")]
        for name in (*encoded, "spdl_images", "spdl_image_batches", "spdl_image_dataset", *isolated):
            found[name] = bench.beside(bench.opener(name, workers=cores, prefetch=2), alone)
            print(f"{name}, {cores} workers / decoding alone on {cores} cores: {found[name][0]:.3f}", flush=True)
    best = max(found, key=lambda name: found[name][0])
    bench.note(f"best row of encoded images ({best}) / decoding alone on all cores", found[best], 0.9)
    bound = partial(gathered, bench.request("resident"), "numpy")
    found = {name: bench.race(bench.opener(name), bound) for name in ("ring", "resident", "numpy_memmap", "npy")}
    for name, ratio in found.items():
        print(f"{name}, decoded images / resident gather: {ratio[0]:.3f}", flush=True)
    best = max(found, key=lambda name: found[name][0])
    bench.note(f"best row of decoded images ({best}) / resident gather", found[best], 0.9)


@contextmanager
def decoding_alone(request: LoaderRequest, cores: int) -> Iterator[Callable[[], None]]:
    """Yield what decodes every image once, in as many processes as there are cores, and keeps none."""
    import simplejpeg

    contents = [path.read_bytes() for path in sorted(request.data.glob("*.jpg"))]
    shares = [range(core, len(contents), cores) for core in range(cores)]

    def work(share: range, pipe: Any) -> None:
        while pipe.recv():
            for number in share:
                simplejpeg.decode_jpeg(contents[number], "RGB")
            pipe.send(True)

    forked = multiprocessing.get_context("fork")
    pipes, processes = [], []
    for share in shares:
        ours, theirs = forked.Pipe()
        processes.append(forked.Process(target=work, args=(share, theirs), daemon=True))
        processes[-1].start()
        pipes.append(ours)

    def alone() -> None:
        for pipe in pipes:
            pipe.send(True)
        for pipe in pipes:
            pipe.recv()

    try:
        yield alone
    finally:
        for pipe, process in zip(pipes, processes, strict=True):
            pipe.send(False)
            process.join()


PARTS = {
    "bound": against_the_bound,
    "fio": against_fio,
    "reads": into_new_memory,
    "naive": idiomatic_against_naive,
    "workers": against_workers_per_item,
    "step": in_training,
    "memory": memory,
    "bare": bare_loaders,
    "images": images,
}


@contextmanager
def folders(disk: Path) -> Iterator[tuple[Path, Path]]:
    """Yield a folder in RAM and one on a disk, both gone afterwards."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as ram, tempfile.TemporaryDirectory(dir=disk) as real:
        yield Path(ram), Path(real)


def main() -> None:
    """Print the ratios."""
    os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)  # before OpenMP is loaded: as runs have it
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--seconds", default=15.0, type=float, help="of turns, for each ratio")
    parser.add_argument("--loaders", default="", help="of the part bare: the loaders to race; all where none is named")
    parser.add_argument("--allocator", default=allocator.KEEP, choices=(allocator.DEFAULT, allocator.KEEP))
    parser.add_argument("--disk", default=Path(), type=Path, help="a folder on a disk, for the cold part")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",")
    if set(wanted) - set(PARTS):
        sys.exit(f"error: --only: found {arguments.only!r}, allowed are {', '.join(PARTS)}")
    loaders = list(filter(None, arguments.loaders.split(",")))
    if unknown := set(loaders) - set(allowed := can_be_tested("loaders")):
        sys.exit(f"error: --loaders: found {', '.join(sorted(unknown))}, allowed are {', '.join(allowed)}")
    if reason := allocator.chosen(arguments.allocator):
        sys.exit(f"error: --allocator: {reason}")
    torch.set_num_threads(cores_allowed())
    with folders(arguments.disk) as (ram, disk):
        bench = Bench(ram, disk, arguments.seconds, loaders)
        for name in wanted:
            print(f"-- {name}", flush=True)
            PARTS[name](bench)


if __name__ == "__main__":
    main()
