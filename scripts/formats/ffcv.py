"""FFCV's beton of stored values, such as 16-bit PCM at the fixed length: one file of 8 MB pages, to be mapped.

A split's folder holds `clips.beton` with the fields `audio`, int16 (samples,) (of other data `image` or `array`, its
values as decoded, in one dimension), and `position`, the clip's position in the split, and the three label arrays of
`common/labels.py`. A clip is within a page. The library's own writer runs a process that fills the pages, and waits for
ever if that process fails; here the same functions of it are called in this process.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scripts.formats._contract import Corpus, Path, Progress, Rows

ENV = "ffcv"
REQUIRES = ("ffcv", "numpy")
BYTES_PER_CLIP = lambda sample: sample.stored_bytes  # noqa: E731
READERS = False
SMALLEST_PAGE = 1 << 23  # bytes; the library's own choice
FILE = "clips.beton"


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
    """Write the beton and the label arrays of one split into the empty folder `out`."""
    from multiprocessing import resource_tracker

    import numpy as np
    from ffcv.fields import IntField, NDArrayField
    from ffcv.memory_allocator import MemoryAllocator
    from ffcv.writer import DatasetWriter, handle_sample

    from scripts.common.labels import write_labels

    write_labels(corpus, split, out)
    dtype = np.dtype(corpus.sample.stored)
    fields = {corpus.sample.key: NDArrayField(dtype, (prod(corpus.sample.shape),)), "position": IntField()}
    page = max(SMALLEST_PAGE, 1 << (BYTES_PER_CLIP(corpus.sample) - 1).bit_length())  # a power of two
    writer = DatasetWriter(str(out / FILE), fields, page_size=page, num_workers=1)
    writer.num_samples = corpus.counts[split]
    resource_tracker.ensure_running()  # removes the writer's shared memory if this process is killed
    writer.prepare()
    pages = MemoryAllocator(writer.fname, writer.data_region_start, page)
    table = np.zeros(writer.num_samples, dtype=writer.metadata_type)
    try:
        with pages:
            for position, clip in enumerate(corpus.clips(split)):
                sample = (corpus.padded(clip).reshape(-1), position)
                handle_sample(sample, position, table.dtype.names, table, pages, fields)
                progress(1)
        writer.metadata_sm.buf[: table.nbytes] = table.tobytes()
        writer.finalize(pages.allocations)
    finally:
        if hasattr(pages, "fp"):
            pages.fp.close()  # it leaves its file open where the last page cannot be written
        writer.metadata_sm.close()
        writer.metadata_sm.unlink()


def read(out: Path, corpus: Corpus) -> Rows:
    """Yield (clip index, delivered clip, classes) in manifest order, by the file's table of where clips are."""
    import numpy as np
    from ffcv.reader import Reader

    from scripts.common.labels import with_labels

    table = Reader(str(out / FILE)).metadata
    starts = table[table.dtype.names[0]].tolist()  # in the order of the positions, as they were written
    pages, size = np.memmap(out / FILE, dtype=np.uint8, mode="r"), BYTES_PER_CLIP(corpus.sample)
    clips = (pages[start : start + size].view(corpus.sample.stored) for start in starts)
    return with_labels(out, (corpus.kind.delivered(values, corpus.sample) for values in clips))
