"""What the formats of Hugging Face datasets share: the columns of an item, written a block of rows at a time."""

import io
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from scripts.formats._contract import Corpus, Path, Progress, Rows

BLOCK_BYTES = 32_000_000  # of a record batch or row group at most, and so of memory; an item at least
BLOCK_ROWS = 100  # of a record batch of audio, by the library's own default


def features() -> Any:
    """Return the columns of the library's table."""
    from datasets import Audio, Features, List, Value

    return Features({"audio": Audio(), "classes": List(Value("int64")), "item": Value("int64")})


def write(corpus: Corpus, split: str, paths: Iterable[tuple[Path, int]], open_writer: Any, progress: Progress) -> None:
    """Write the rows of one split to files: `paths` has each with its number of rows, in the order of the items.

    `open_writer(path)` opens one of the library's writers.
    """
    import pyarrow as pa

    columns = features()
    rows = _rows(corpus, split)
    size = max(1, min(BLOCK_ROWS, BLOCK_BYTES // corpus.sample.stored_bytes))
    for path, left in paths:
        with open_writer(str(path)) as writer:
            while block := list(islice(rows, min(size, left))):
                writer.write_table(pa.Table.from_pylist(block, schema=columns.arrow_schema), size)
                left -= len(block)
                progress(len(block))
            writer.finalize()


def _rows(corpus: Corpus, split: str) -> Iterator[dict[str, Any]]:
    """Yield the items of one split as rows: the file byte for byte, named by its position."""
    from scripts.common.arrays import ahead

    read = ahead(lambda item: (item, (corpus.root / item.path).read_bytes()), corpus.items(split))
    for position, (item, content) in enumerate(read):
        audio = {"bytes": content, "path": f"{position:06}.{corpus.sample.ending}"}
        yield {"audio": audio, "classes": list(item.classes), "item": item.index}


def read(rows: Iterable[dict[str, Any]], corpus: Corpus) -> Rows:
    """Yield (item index, delivered item, classes) of the library's rows, whose files it has not decoded."""
    sample, kind = corpus.sample, corpus.kind
    for row in rows:
        values = kind.read(io.BytesIO(row["audio"]["bytes"]), sample)
        yield row["item"], kind.delivered(values, sample), row["classes"]
