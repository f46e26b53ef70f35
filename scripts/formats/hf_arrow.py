"""A Hugging Face Dataset of the corpus's files, as `save_to_disk` leaves it: 16-bit WAV in Arrow files, to be mapped.

The folder holds `data-00000-of-00001.arrow`, ... of at most 500 MB, `dataset_info.json` and `state.json`. The column
`audio` is the library's feature Audio with the file byte for byte, `classes` a list of int64, the target first, and
`item`, int64, the index in the manifest. Row i is item i. Open it with `datasets.load_from_disk(folder)`.
"""

from scripts.formats import _huggingface
from scripts.formats._contract import Corpus, Path, Progress, Rows
from scripts.formats._huggingface import BLOCK_BYTES  # noqa: F401

VERSION = 1
REQUIRES = ("numpy", "pyarrow", "datasets")
BYTES_PER_ITEM = lambda sample: sample.stored_bytes  # noqa: E731  # at most
TAKES = lambda sample: sample.file_bytes  # noqa: E731
READERS = False
KINDS = ("audio",)


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
    """Write the Arrow files of one split into the empty folder `out`, and what the library says of them."""
    from datasets import DatasetInfo
    from datasets.arrow_writer import ArrowWriter

    from scripts.common.files import write_json
    from scripts.formats._shards import shard_sizes

    columns = _huggingface.features()
    sizes = shard_sizes(corpus.counts[split], BYTES_PER_ITEM(corpus.sample), readers=1)
    names = [f"data-{number:05}-of-{len(sizes):05}.arrow" for number in range(len(sizes))]
    paths = zip((out / name for name in names), sizes, strict=True)
    _huggingface.write(corpus, split, paths, lambda path: ArrowWriter(features=columns, path=path), progress)
    DatasetInfo(features=columns).write_to_directory(str(out))
    formatting = {"_format_columns": None, "_format_kwargs": {}, "_format_type": None, "_output_all_columns": False}
    files = [{"filename": name} for name in names]
    # The library's own fingerprint is another each time; it names what is derived of a data set in a cache.
    known = {"_data_files": files, "_fingerprint": f"feedrate-{split}", "_split": split}
    write_json(out / "state.json", {**known, **formatting})


def read(out: Path, corpus: Corpus) -> Rows:
    """Yield (item index, delivered item, classes) in manifest order, through the library's own reader."""
    from datasets import Audio, load_from_disk

    return _huggingface.read(load_from_disk(out).cast_column("audio", Audio(decode=False)), corpus)
