"""For writers that stream arrays of delivered items: the rows one after another, and the .npy header before them.

`numpy.lib.format.open_memmap` would do the same through mapped pages, which count as memory of the process until the
kernel takes them back; plain writes keep it flat however long the array is.
"""

import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from scripts.common.corpus import Corpus

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

    `progress(1)` is called when the next one is asked for: the item has been written.

    It is one array, filled again for each item, valid until the next is asked for: a fresh one an item, whose pages
    cost as much as the arithmetic, would hold the same.
    """
    row = np.zeros(corpus.sample.shape, dtype=corpus.sample.dtype)
    for item in corpus.items(split):
        yield corpus.delivered(item, row)
        progress(1)


def write_array(path: Path, dtype: np.typing.DTypeLike, shape: tuple[int, ...], rows: Iterable[np.ndarray]) -> None:
    """Write a .npy file of `shape`, whose rows come one at a time; its data begins on a page of its own."""
    with open(path, "wb") as file:
        file.write(npy_header(dtype, shape, WHOLE_PAGE))
        for row in rows:
            file.write(row)
