"""The ring beyond the loader contract: every way to read, whatever reads do, whoever takes batches."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from scripts.common.arrays import WHOLE_PAGE, npy_header
from scripts.loaders._ring import ring_reader
from scripts.loaders._ring.ring_reader import FetchingRing, RingReader
from tests.support.loader_cases import nothing_left_open

ITEMS, SAMPLES, BATCH = 50, 2560, 8
ORDER = np.random.default_rng(1).permutation(ITEMS)
METHODS = [(threads, source) for threads in (0, 1, 3) for source in ("map", "read", "auto", "direct")]
every_way = pytest.mark.parametrize(("threads", "source"), METHODS)


@pytest.fixture(params=["float32", "int16"])
def made(request, tmp_path):
    """A file of random items and the array that is right."""
    array = np.random.default_rng(0).integers(-32768, 32768, (ITEMS, 1, SAMPLES)).astype(request.param)
    save(tmp_path / "audio.npy", array)
    return tmp_path / "audio.npy", array


def save(path, array) -> None:
    """Write an .npy file whose array begins on a page, as the formats do."""
    path.write_bytes(npy_header(array.dtype, array.shape, WHOLE_PAGE) + array.tobytes())
    assert np.array_equal(np.load(path), array)


def taken(batches) -> list[np.ndarray]:
    return [batch.numpy().copy() for batch in batches]


def expected(array, order=ORDER) -> list[np.ndarray]:
    return [array[order[start : start + BATCH]] for start in range(0, ITEMS, BATCH)]


def same(found, right) -> bool:
    return len(found) == len(right) and all(np.array_equal(a, b) for a, b in zip(found, right, strict=True))


@every_way
def test_every_item_in_the_asked_order(made, threads, source):
    path, array = made
    with nothing_left_open():
        with RingReader(path, BATCH, threads=threads, source=source) as reader:
            assert len(reader) == ITEMS
            for _ in range(3):
                assert same(taken(reader.batches(ORDER)), expected(array))
        del reader
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ring")]


@every_way
def test_int16_is_scaled_exactly(tmp_path, threads, source):
    array = np.arange(-32768, 32768, dtype=np.int16).reshape(16, 1, 4096)
    save(tmp_path / "audio.npy", array)
    with RingReader(tmp_path / "audio.npy", 5, threads=threads, source=source, scale=1 / 32768) as reader:
        found = np.concatenate(taken(reader.batches(range(16))))
    assert found.dtype == np.float32
    assert np.array_equal(found, array.astype(np.float64) / 32768)


@pytest.mark.parametrize("source", ["read", "direct"])
def test_short_reads_are_taken_up_again(made, monkeypatch, source):
    path, array = made
    whole, sizes = os.preadv, []

    def short(file, buffers, offset, *flags):
        [buffer] = buffers
        sizes.append(len(buffer))
        some = 1 + len(buffer) // 3
        some = max(ring_reader.BLOCK, some // ring_reader.BLOCK * ring_reader.BLOCK) if source == "direct" else some
        return whole(file, [memoryview(buffer)[:some]], offset, *flags)

    monkeypatch.setattr(ring_reader.os, "preadv", short)
    with RingReader(path, BATCH, source=source) as reader:
        assert same(taken(reader.batches(ORDER)), expected(array))
    assert len(sizes) > 3 * ITEMS


def test_signals_interrupt_nothing(made):
    path, array = made
    seen = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        with RingReader(path, BATCH, threads=0, source="read") as reader:
            end = time.monotonic() + 60
            while len(seen) <= 10 and time.monotonic() < end:
                assert same(taken(reader.batches(ORDER)), expected(array))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(seen) > 10


@pytest.mark.parametrize("threads", [0, 2])
def test_a_file_cut_short_while_open_is_an_error_where_the_batch_is_taken(made, threads):
    path, _ = made
    with RingReader(path, BATCH, threads=threads, source="read") as reader:
        os.truncate(path, path.stat().st_size // 2)
        with pytest.raises(EOFError, match="cut short"):
            taken(reader.batches(ORDER))


@pytest.mark.parametrize("threads", [0, 2])
def test_to_break_off_leaves_a_ring_that_is_used_again(made, threads):
    path, array = made
    with RingReader(path, BATCH, threads=threads) as reader:
        for _ in range(5):
            for batch in reader.batches(ORDER):
                assert np.array_equal(batch.numpy(), array[ORDER[:BATCH]])
                break
        assert same(taken(reader.batches(ORDER)), expected(array))
        assert len(reader._rings) == 1


@pytest.mark.parametrize("threads", [0, 2])
def test_two_iterators_at_once(made, threads):
    """In turns in one thread, and each in a thread of its own."""
    path, array = made
    with RingReader(path, BATCH, threads=threads) as reader:
        one, other = [], []
        for a, b in zip(reader.batches(ORDER), reader.batches(ORDER[::-1]), strict=True):
            one.append(a.numpy().copy())
            other.append(b.numpy().copy())
        assert same(one, expected(array))
        assert np.array_equal(np.concatenate(other), array[ORDER[::-1]])
        found: list = [None] * 4

        def take(which):
            found[which] = taken(reader.batches(ORDER))

        crew = [threading.Thread(target=take, args=[which]) for which in range(len(found))]
        for member in crew:
            member.start()
        for member in crew:
            member.join()
        assert all(same(each, expected(array)) for each in found)


@pytest.mark.parametrize("threads", [0, 2])
def test_a_batch_stays_until_the_next_is_taken_and_a_copy_for_good(made, threads):
    path, array = made
    with RingReader(path, BATCH, threads=threads) as reader:
        memory = set()
        for batch, right in zip(reader.batches(ORDER), expected(array), strict=True):
            time.sleep(0.005)  # for threads to overwrite it, if they would
            assert np.array_equal(batch.numpy(), right)
            memory.add(batch.data_ptr())
        assert len(memory) == reader.ahead + 1  # the ring, and no memory but that
    with RingReader(path, BATCH, threads=threads, copies=True) as reader:
        kept = list(reader.batches(ORDER))
    assert same([batch.numpy() for batch in kept], expected(array))


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("threads", [0, 1, 3])
def test_what_is_beside_the_items_comes_with_them(made, threads, copies):
    path, array = made
    numbers, hot = torch.arange(ITEMS), torch.eye(ITEMS)
    with RingReader(path, BATCH, threads=threads, copies=copies) as reader:
        found = []
        for batch, number, row in reader.batches(ORDER, numbers, hot):
            assert np.array_equal(batch.numpy(), array[number.numpy()]) and torch.equal(row, hot[number])
            found.append(number)
    assert np.array_equal(np.concatenate(found), ORDER)


def test_to_ask_for_a_batch_that_is_ready_waits_for_no_read(made, monkeypatch):
    path, array = made
    may_read = threading.Event()
    may_read.set()
    whole = RingReader._fill
    monkeypatch.setattr(RingReader, "_fill", lambda *arguments: may_read.wait() and whole(*arguments))
    with RingReader(path, BATCH, threads=1, ahead=2) as reader:
        stream = reader.batches(ORDER)
        found = [next(stream).numpy().copy()]
        end = time.monotonic() + 60
        while reader._work.qsize() and time.monotonic() < end:
            time.sleep(0.001)
        may_read.clear()
        found.append(next(stream).numpy().copy())
        may_read.set()
        assert same(found + taken(stream), expected(array))


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("threads", [0, 2])
def test_the_next_epoch_is_begun_ahead_and_handed_out_once(made, threads, copies):
    path, array = made
    orders = [np.random.default_rng(epoch).permutation(ITEMS) for epoch in range(4)]
    with RingReader(path, BATCH, threads=threads, copies=copies) as reader:
        for order, following in zip(orders, [*orders[1:], None], strict=True):
            assert same(taken(reader.batches(order, then=following)), expected(array, order))
            assert (reader._next is not None) == (threads > 0 and following is not None)


@pytest.mark.parametrize("otherwise", ["another order", "broken off", "other labels", "two at once"])
def test_what_was_begun_ahead_is_dropped_where_something_else_is_asked_for(made, otherwise):
    path, array = made
    other, numbers = ORDER[::-1].copy(), torch.arange(ITEMS)
    with RingReader(path, BATCH, threads=2) as reader:
        taken(reader.batches(ORDER, then=ORDER))
        assert reader._next is not None
        if otherwise == "another order":
            assert same(taken(reader.batches(other)), expected(array, other))
        elif otherwise == "broken off":
            stream = reader.batches(ORDER, then=other)
            next(stream)
            stream.close()
            assert same(taken(reader.batches(other)), expected(array, other))
        elif otherwise == "other labels":
            for batch, number in reader.batches(ORDER, numbers):
                assert np.array_equal(batch.numpy(), array[number.numpy()])
        else:
            first, second = reader.batches(ORDER, then=other), reader.batches(ORDER, then=other)
            for a, b in zip(first, second, strict=True):
                assert torch.equal(a, b)
            assert same(taken(reader.batches(other)), expected(array, other))
        assert reader._next is None
        assert len({id(buffer) for ring in reader._rings for buffer in ring}) == sum(map(len, reader._rings))


@pytest.mark.parametrize("threads", [0, 2])
def test_a_closed_reader_says_so_and_one_that_nobody_has_ends_its_threads(made, threads):
    path, _ = made
    with RingReader(path, BATCH, threads=threads) as reader:
        stream = reader.batches(ORDER)
        next(stream)
    with pytest.raises(ValueError, match="closed"):
        taken(stream)
    crew = set(threading.enumerate())
    stream = RingReader(path, BATCH, threads=threads).batches(ORDER)
    next(stream)
    crew = set(threading.enumerate()) - crew
    assert len(crew) == threads
    del stream
    for thread in crew:
        thread.join(60)
        assert not thread.is_alive()


def test_auto_reads_the_file_until_it_lies_in_the_page_cache(made, monkeypatch):
    path, array = made
    cached = False
    monkeypatch.setattr(RingReader, "_cached", lambda *_: cached)
    reads = []
    whole = RingReader._read
    monkeypatch.setattr(RingReader, "_read", lambda self, item, into: reads.append(item) or whole(self, item, into))
    with RingReader(path, BATCH, threads=1) as reader:
        assert same(taken(reader.batches(ORDER)), expected(array))
        assert sorted(reads) == sorted(ORDER)
        cached = True
        for _ in range(1 + ring_reader.PROBES // ITEMS):
            taken(reader.batches(ORDER))
        reads.clear()
        assert same(taken(reader.batches(ORDER)), expected(array))
        assert reads == []
        cached = False
        taken(reader.batches(ORDER))
        assert len(reads) == ITEMS


@pytest.mark.parametrize("folder", ["/dev/shm", None])
def test_what_has_just_been_written_is_known_to_be_in_the_page_cache(tmp_path, folder):
    """By RWF_NOWAIT on a disk, and by mincore on tmpfs, which does not know that."""
    path = (tmp_path if folder is None else Path(folder)) / f"ring-{os.getpid()}.npy"
    np.save(path, np.zeros((3, SAMPLES), dtype=np.float32))
    try:
        with RingReader(path, 2) as reader:
            assert [reader._cached(item) for item in range(3)] == [True] * 3
            assert reader._mapped(reader.offset)
    finally:
        path.unlink()


def test_says_what_is_wrong(made, tmp_path):
    path, _ = made
    with RingReader(path, BATCH) as reader, pytest.raises(IndexError, match="allowed are 0 to 49"):
        next(reader.batches([3, 50]))
    with pytest.raises(ValueError, match="source"):
        RingReader(path, BATCH, source="guess")
    np.save(tmp_path / "odd.npy", np.zeros((4, 100)))
    with pytest.raises(ValueError, match="past the page cache: items of 800 bytes"):
        RingReader(tmp_path / "odd.npy", BATCH, source="direct")
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(ValueError, match="shorter than its header"):
        RingReader(path, BATCH)
    np.save(tmp_path / "turned.npy", np.asfortranarray(np.zeros((4, 4))))
    with pytest.raises(ValueError, match="C order"):
        RingReader(tmp_path / "turned.npy", BATCH)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("pin", [False, True])
def test_on_a_gpu_batches_are_their_own(made, pin):
    path, array = made
    with RingReader(path, BATCH, device="cuda", pin=pin) as reader:
        kept = list(reader.batches(ORDER))
    assert same([batch.cpu().numpy() for batch in kept], expected(array))


@pytest.mark.parametrize("at_once", [1, 3, 100])
@pytest.mark.parametrize("in_flight", [1, 4])
def test_a_fetching_ring_hands_out_every_item_however_many_a_thread_takes(made, in_flight, at_once):
    _, array = made

    class Source:
        def read_into(self, item, row):
            row[:] = array[item]

        def close(self):
            pass

    ring = FetchingRing(Source, ITEMS, array.shape[1:], array.dtype, BATCH, in_flight=in_flight, at_once=at_once)
    with ring as reader:
        for _ in range(2):
            assert same(taken(reader.batches(ORDER)), expected(array))
    with pytest.raises(ValueError, match="at_once=0: allowed is 1 or more"):
        FetchingRing(Source, ITEMS, array.shape[1:], array.dtype, BATCH, at_once=0)
