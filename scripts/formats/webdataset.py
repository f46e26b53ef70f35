"""WebDataset tar shards of the corpus's files, such as 16-bit WAV: few large files, read front to back.

The folder holds `shard-000000.tar`, ... of consecutive items, whose counts differ by at most one. An item is two
members, numbered by its position. `000000000.wav` (or `.jpg`, `.png`, `.npy`) is the corpus's file byte for byte.
`000000000.json` has `item`, its index in the manifest, and `classes`, the target first.
"""

import io
import json
import tarfile
from collections.abc import Iterator

from scripts.formats._contract import Corpus, Path, Progress, Rows

VERSION = 1
REQUIRES = ("numpy",)
BYTES_PER_ITEM = lambda sample: sample.stored_bytes  # noqa: E731  # at most
TAKES = lambda sample: sample.file_bytes  # noqa: E731
READERS = True
LARGEST_SHARD_BYTES = 500_000_000
COPY_BYTES = 4 * 1024 * 1024  # an item in one write; tarfile's own is 16 KiB


def shard_count(items: int, item_bytes: int, readers: int) -> int:
    """Return how many shards `items` items of at most `item_bytes` make: as many a reader, none empty."""
    by_size = -(-items * item_bytes // LARGEST_SHARD_BYTES)
    return min(items, max(1, -(-by_size // readers)) * readers)


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:
    """Write the shards of one split into the empty folder `out`, one after another."""
    from scripts.common.arrays import ahead

    count = corpus.counts[split]
    shards = shard_count(count, BYTES_PER_ITEM(corpus.sample), readers)
    samples = enumerate(ahead(lambda item: (item, (corpus.root / item.path).read_bytes()), corpus.items(split)))
    for shard in range(shards):
        size = count * (shard + 1) // shards - count * shard // shards
        with tarfile.open(
            out / f"shard-{shard:06}.tar", "w", format=tarfile.USTAR_FORMAT, copybufsize=COPY_BYTES
        ) as tar:
            for _ in range(size):
                position, (item, content) = next(samples)
                label = json.dumps({"item": item.index, "classes": list(item.classes)}).encode()
                _add(tar, f"{position:09}.{corpus.sample.ending}", content)
                _add(tar, f"{position:09}.json", label)
                tar.members = []  # the list of what was written, which nobody asks for and which only grows
                progress(1)


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)  # time, user and group are 0
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def read(out: Path, corpus: Corpus) -> Rows:
    """Yield (item index, delivered item, classes) in manifest order, through the library's own tar reader.

    The members come as bytes and are decoded here: none of the library's decoders runs. The shards are opened here as
    well, since `webdataset.WebDataset` leaves it to the garbage collector to close them.
    """
    from webdataset.tariterators import group_by_keys, tar_file_expander

    sample, kind = corpus.sample, corpus.kind
    for members in group_by_keys(tar_file_expander(_opened(out))):
        label = json.loads(members["json"])
        values = kind.read(io.BytesIO(members[sample.ending]), sample)
        yield label["item"], kind.delivered(values, sample), label["classes"]


def _opened(out: Path) -> Iterator[dict]:
    """Yield each shard with its open stream, as the library's reader wants it, and close it."""
    for path in sorted(out.glob("shard-*.tar")):
        with open(path, "rb") as stream:
            yield {"url": str(path), "stream": stream}
