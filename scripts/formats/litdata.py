"""LitData's chunks of stored values, such as 16-bit PCM: binary files of 64 MB with an index, to be mapped.

The folder holds `chunk-0-0.bin`, ... and `index.json`, as the library's BinaryWriter makes them, but without the time
of writing. A sample is {"audio": int16 (frames,), "position": in the split}; other data is flat too.
"""

from scripts.formats._contract import Corpus, Path, Progress, Rows

VERSION = 1
ENV = "litdata"
REQUIRES = ("litdata", "numpy", "torch")
BYTES_PER_ITEM = lambda sample: sample.stored_bytes  # noqa: E731
READERS = False
BLOCK_BYTES = 1 << 26  # of a chunk, which is held in memory until it is full; the library's own default


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
    """Write the chunks, the index and the label arrays of one split into the empty folder `out`."""
    import torch
    from litdata.streaming.serializers import NoHeaderTensorSerializer
    from litdata.streaming.writer import BinaryWriter

    from scripts.common.files import read_json, write_json
    from scripts.common.labels import write_labels
    from scripts.formats._flat import flattened

    write_labels(corpus, split, out)
    plain = {"no_header_tensor": NoHeaderTensorSerializer()}  # asked first: the one for video imports its decoder
    writer = BinaryWriter(str(out), chunk_bytes=BLOCK_BYTES, serializers=plain)
    for position, item in enumerate(corpus.items(split)):
        values = torch.from_numpy(flattened(corpus, item).copy())
        writer[position] = {corpus.sample.key: values, "position": position}
        progress(1)
    writer.done()
    writer.merge(1)
    index = read_json(out / "index.json")
    write_json(out / "index.json", {**index, "updated_at": "0"})


def read(out: Path, corpus: Corpus) -> Rows:
    """Yield (item index, delivered item, classes) in manifest order, through the library's StreamingDataset."""
    from litdata import StreamingDataset

    from scripts.common.labels import with_labels

    items = StreamingDataset(str(out), shuffle=False, drop_last=False)
    key, sample = corpus.sample.key, corpus.sample
    return with_labels(out, (corpus.kind.delivered(item[key].numpy(), sample) for item in items))
