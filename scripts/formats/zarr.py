"""One Zarr array per split (format 3, in a local folder): a chunk for each item, not compressed, each chunk a file.

The folder holds `items.zarr`, of audio float32 (n, 1, samples); row i is item i as it is delivered, in the file
`c/i/0/0`. It has no shards: an item in one costs two reads.
"""

from scripts.formats._contract import Corpus, Path, Progress, Rows

VERSION = 1
REQUIRES = ("numpy", "zarr")
BYTES_PER_ITEM = lambda sample: sample.bytes  # noqa: E731
READERS = False


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
    """Write items.zarr and the label arrays of one split into the empty folder `out`, an item at a time."""
    import zarr

    from scripts.common.arrays import delivered_items
    from scripts.common.labels import write_labels

    sample = corpus.sample
    array = zarr.create_array(
        out / "items.zarr",
        shape=(corpus.counts[split], *sample.shape),
        chunks=(1, *sample.shape),
        dtype=sample.dtype,
        compressors=None,
        config={"write_empty_chunks": True},  # a silent item is an item: without its file nothing would be read
    )
    for position, row in enumerate(delivered_items(corpus, split, progress)):
        array[position] = row
    write_labels(corpus, split, out)


def read(out: Path, corpus: Corpus) -> Rows:  # noqa: ARG001
    """Yield (item index, delivered item, classes) in manifest order, by indexing the array."""
    import zarr

    from scripts.common.labels import with_labels

    array = zarr.open_array(out / "items.zarr", mode="r")
    return with_labels(out, (array[position] for position in range(array.shape[0])))
