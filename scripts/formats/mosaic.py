"""MosaicML's MDS shards of stored values, such as 16-bit PCM: files of 64 MB with an index, for any item at random.

The folder holds `shard.00000.mds`, ... and `index.json`, as the library's MDSWriter makes them. A sample is
{"audio": int16 (frames,), "position": in the split}; other data is flat too.
"""

from scripts.formats._contract import Corpus, Path, Progress, Rows

VERSION = 1
ENV = "mosaic"
REQUIRES = ("streaming", "numpy")
BYTES_PER_ITEM = lambda sample: sample.stored_bytes  # noqa: E731
READERS = False
BLOCK_BYTES = 1 << 26  # of a shard, which is held in memory until it is full; the library's own default


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
    """Write the shards, the index and the label arrays of one split into the empty folder `out`."""
    from streaming import MDSWriter

    from scripts.common.labels import write_labels
    from scripts.formats._flat import flattened

    key = corpus.sample.key
    columns = {key: f"ndarray:{corpus.sample.stored}", "position": "int"}
    with MDSWriter(columns=columns, out=str(out), size_limit=BLOCK_BYTES) as writer:  # it wants the folder empty
        write_labels(corpus, split, out)
        for position, item in enumerate(corpus.items(split)):
            writer.write({key: flattened(corpus, item), "position": position})
            progress(1)


def read(out: Path, corpus: Corpus) -> Rows:
    """Yield (item index, delivered item, classes) in manifest order, through the library's reader of shards.

    Not through its LocalDataset, which leaves it to the garbage collector to close the index.
    """
    from streaming.base.format import reader_from_json

    from scripts.common.files import read_json
    from scripts.common.labels import with_labels

    shards = (reader_from_json(str(out), None, about) for about in read_json(out / "index.json")["shards"])
    items = (shard[number] for shard in shards for number in range(len(shard)))
    key, sample = corpus.sample.key, corpus.sample
    return with_labels(out, (corpus.kind.delivered(item[key], sample) for item in items))
