"""How the formats of FFCV write a beton, and find what lies in it.

The library's own writer runs a process that fills the pages, and waits for ever if that process fails; here the same
functions of it are called in this process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from scripts.common.corpus import Item
    from scripts.formats._contract import Corpus, Path, Progress

SMALLEST_PAGE = 1 << 23  # bytes; the library's own choice
FILE = "items.beton"


def write_beton(
    corpus: Corpus,
    split: str,
    out: Path,
    field: Any,
    of_item: Callable[[Item], Any],
    largest: int,
    progress: Progress,
    writes: Any = None,
) -> None:
    """Write the beton and the label arrays of one split: what `of_item` gives in `field`, and the item's position.

    `largest` are the most bytes of an item. `writes` is the field that puts them there, where that is not `field`.
    """
    from multiprocessing import resource_tracker

    import numpy as np
    from ffcv.fields import IntField
    from ffcv.memory_allocator import MemoryAllocator
    from ffcv.writer import DatasetWriter, handle_sample

    from scripts.common.labels import write_labels

    write_labels(corpus, split, out)
    fields = {corpus.sample.key: field, "position": IntField()}
    page = max(SMALLEST_PAGE, 1 << (largest - 1).bit_length())  # a power of two
    writer = DatasetWriter(str(out / FILE), fields, page_size=page, num_workers=1)
    writer.num_samples = corpus.counts[split]
    resource_tracker.ensure_running()  # removes the writer's shared memory if this process is killed
    writer.prepare()
    pages = MemoryAllocator(writer.fname, writer.data_region_start, page)
    table = np.zeros(writer.num_samples, dtype=writer.metadata_type)
    written = {**fields, corpus.sample.key: writes or field}
    try:
        with pages:
            for position, item in enumerate(corpus.items(split)):
                handle_sample((of_item(item), position), position, table.dtype.names, table, pages, written)
                progress(1)
        writer.metadata_sm.buf[: table.nbytes] = table.tobytes()
        writer.finalize(pages.allocations)
    finally:
        if hasattr(pages, "fp"):
            pages.fp.close()  # it leaves its file open where the last page cannot be written
        writer.metadata_sm.close()
        writer.metadata_sm.unlink()


def stored_bytes(out: Path) -> Iterator[np.ndarray]:
    """Yield what lies in the beton of each item, uint8 (bytes,), in the order of the positions."""
    import numpy as np
    from ffcv.reader import Reader

    pages = np.memmap(out / FILE, dtype=np.uint8, mode="r")
    found = Reader(str(out / FILE)).alloc_table
    for start, size in zip(found["ptr"].tolist(), found["size"].tolist(), strict=True):  # as they were written
        yield pages[start : start + size]
