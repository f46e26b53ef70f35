"""For writers that stream arrays of delivered items: the rows one after another, and the .npy header before them.

`numpy.lib.format.open_memmap` would do the same through mapped pages, which count as memory of the process until the
kernel takes them back; plain writes keep it flat however long the array is.
"""

import io
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from scripts.common.corpus import Corpus

THREADS, AHEAD = 2, 6  # that convert items, and how many items before they are written
WHOLE_PAGE = 4096  # an array that begins on a page can be read past the page cache (O_DIRECT)


def npy_header(dtype: np.typing.DTypeLike, shape: tuple[int, ...], size: int = 0) -> bytes:
    """Return the header of a C-ordered .npy file (format 1.0): what precedes the raw bytes of the array.

    Of `size` bytes, if that is told: filled up with blanks, which every reader skips.
    """
    header = io.BytesIO()
    fields = {
        "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
        "fortran_order": False,
        "shape": shape,
    }
    np.lib.format.write_array_header_1_0(header, fields)
    written = header.getvalue()
    if not size:
        return written
    start = 10  # magic, version, and two bytes of length
    text = written[start:-1].ljust(size - start - 1) + b"\n"
    return written[: start - 2] + len(text).to_bytes(2, "little") + text


def delivered_items(corpus: Corpus, split: str, progress: Callable[[int], None]) -> Iterator[np.ndarray]:
    """Yield each item of the split in manifest order, in the type and shape of the corpus's `sample`.

    `progress(1)` is called once the item has been written. Threads read, check and convert
    some items ahead. Each comes in an array that is filled again for a later item, valid until the next is asked for:
    the pages of a fresh one would cost as much as the arithmetic.
    """
    sample = corpus.sample
    rows = [np.zeros(sample.shape, dtype=sample.dtype) for _ in range(AHEAD + 1)]
    numbered = ((item, rows[number % len(rows)]) for number, item in enumerate(corpus.items(split)))
    for row in ahead(lambda pair: corpus.delivered(*pair), numbered):
        yield row
        progress(1)


def ahead(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    """Yield what a function makes of items, in their order; threads make AHEAD of them before they are asked for."""
    with ThreadPoolExecutor(THREADS) as pool:
        waiting: deque[Future[Any]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def write_array(path: Path, dtype: np.typing.DTypeLike, shape: tuple[int, ...], rows: Iterable[np.ndarray]) -> None:
    """Write a .npy file of `shape`, whose rows come one at a time; its data begins on a page of its own."""
    with open(path, "wb") as file:
        file.write(npy_header(dtype, shape, WHOLE_PAGE))
        for row in rows:
            file.write(row)
