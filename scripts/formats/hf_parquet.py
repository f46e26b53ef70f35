"""Parquet shards of the corpus's files, such as 16-bit WAV, as Hugging Face's Hub has audio: to be streamed.

The folder holds `train-00000-of-00004.parquet`, ... of consecutive items (of the split `validation` by that name),
whose counts differ by at most one. The column `audio` is the library's feature Audio with the file byte for byte, not
compressed; `classes` is a list of int64, the target first, and `item`, int64, the index in the manifest. A row group
has at most 100 items and 32 MB: the Hub's have 100 MB, of which a reader holds one for each of ten shards at a time.
"""

from scripts.formats import _huggingface
from scripts.formats._contract import Corpus, Path, Progress, Rows
from scripts.formats._huggingface import BLOCK_BYTES  # noqa: F401

VERSION = 1
REQUIRES = ("numpy", "pyarrow", "datasets")
BYTES_PER_ITEM = lambda sample: sample.stored_bytes  # noqa: E731  # at most
TAKES = lambda sample: sample.file_bytes  # noqa: E731
READERS = True
KINDS = ("audio",)


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:
    """Write the shards of one split into the empty folder `out`, one after another."""
    from datasets.arrow_writer import ParquetWriter

    from scripts.formats._shards import shard_sizes

    columns = _huggingface.features()
    sizes = shard_sizes(corpus.counts[split], BYTES_PER_ITEM(corpus.sample), readers)
    names = (f"{split}-{number:05}-of-{len(sizes):05}.parquet" for number in range(len(sizes)))
    paths = zip((out / name for name in names), sizes, strict=True)
    _huggingface.write(corpus, split, paths, lambda path: ParquetWriter(features=columns, path=path), progress)


def read(out: Path, corpus: Corpus) -> Rows:
    """Yield (item index, delivered item, classes) in manifest order, a row group read at a time."""
    import pyarrow.parquet as pq

    for path in sorted(out.glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            for number in range(file.num_row_groups):
                yield from _huggingface.read(file.read_row_group(number).to_pylist(), corpus)
