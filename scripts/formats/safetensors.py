"""One safetensors file per split: a short header and one tensor of all items, which the library maps into memory.

The folder holds `items.safetensors` with the tensor `audio` (of other data `image` or `array`), of audio float32
(n, 1, samples); row i is item i as it is delivered.
"""

import json

from scripts.formats._contract import Corpus, Path, Progress, Rows

VERSION = 1
REQUIRES = ("numpy", "safetensors")
BYTES_PER_ITEM = lambda sample: sample.bytes  # noqa: E731
READERS = False
NAMES = {"float": "F", "uint": "U", "int": "I"}  # of types: a letter and the bits
FILE = "items.safetensors"


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
    """Write the file and the label arrays of one split into the empty folder `out`, front to back.

    By hand, since the library writes what is in memory. A file is 8 bytes (the size of the header), the header in
    JSON, and the data.
    """
    from scripts.common.arrays import delivered_items
    from scripts.common.labels import write_labels

    sample, count = corpus.sample, corpus.counts[split]
    kind = sample.dtype.rstrip("0123456789")
    about = {
        "dtype": NAMES[kind] + sample.dtype.removeprefix(kind),
        "shape": [count, *sample.shape],
        "data_offsets": [0, count * sample.bytes],
    }
    header = json.dumps({sample.key: about}).encode()
    header += b" " * (-len(header) % 64 + 56)  # so that the data begins at a multiple of 64
    with open(out / FILE, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for item in delivered_items(corpus, split, progress):
            file.write(item)
    write_labels(corpus, split, out)


def read(out: Path, corpus: Corpus) -> Rows:
    """Yield (item index, delivered item, classes) in manifest order, by the library."""
    from safetensors import safe_open

    from scripts.common.labels import with_labels

    with safe_open(out / FILE, "numpy") as file:
        items = file.get_slice(corpus.sample.key)
        yield from with_labels(out, (items[position] for position in range(items.get_shape()[0])))
