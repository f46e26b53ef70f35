"""Lhotse Shar: tar shards of the corpus's 16-bit WAV files, each with a manifest of its cuts, read front to back.

The folder holds `recording.000000.tar`, ... and `cuts.000000.jsonl`, ... of consecutive items, whose counts differ by
at most one. An item is two members of the tar, numbered by its position: `000000000.wav`, the corpus's file byte for
byte, and `000000000.json`, its Recording. A line of the manifest is its MonoCut, whose custom fields are `classes`, the
target first, and `item`, the index in the corpus's manifest. The library's own writer makes FLAC by default, which is
smaller and takes longer to decode; WAV is what the other formats of files hold.
"""

import json
import tarfile

from scripts.formats import _lhotse
from scripts.formats._contract import Corpus, Path, Progress, Rows

VERSION = 1
REQUIRES = _lhotse.REQUIRES
BYTES_PER_ITEM = lambda sample: sample.stored_bytes  # noqa: E731  # at most
TAKES = lambda sample: sample.file_bytes  # noqa: E731
READERS = True
KINDS = ("audio",)


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:
    """Write the shards of one split into the empty folder `out`, one after another."""
    from lhotse.shar.utils import to_shar_placeholder

    from scripts.common.arrays import ahead
    from scripts.formats._shards import add, opened_tar, shard_sizes

    ending, sizes = corpus.sample.ending, shard_sizes(corpus.counts[split], BYTES_PER_ITEM(corpus.sample), readers)
    items = enumerate(ahead(lambda item: (item, (corpus.root / item.path).read_bytes()), corpus.items(split)))
    for shard, size in enumerate(sizes):
        with (
            opened_tar(out / f"recording.{shard:06}.tar") as tar,
            _lhotse.opened(out / f"cuts.{shard:06}.jsonl") as manifest,
        ):
            for _ in range(size):
                position, (item, content) = next(items)
                name = f"{position:09}"
                cut = _lhotse.cut_of(corpus, item, name, f"{name}.{ending}")
                cut.recording = to_shar_placeholder(cut.recording)
                about = json.dumps(cut.recording.to_dict()).encode()
                add(tar, f"{name}.{ending}", content)
                add(tar, f"{name}.json", about)
                tar.members = []  # the list of what was written, which nobody asks for and which only grows
                manifest.write(cut)
                progress(1)


def read(out: Path, corpus: Corpus) -> Rows:
    """Yield (item index, delivered item, classes) in manifest order: the library's own reader leaves files open."""
    sample, kind = corpus.sample, corpus.kind
    for manifest in sorted(out.glob("cuts.*.jsonl")):
        shard = manifest.name.removeprefix("cuts.").removesuffix(".jsonl")
        with open(manifest, encoding="utf-8") as lines, tarfile.open(out / f"recording.{shard}.tar") as tar:
            for line in lines:
                cut = json.loads(line)
                values = kind.read(tar.extractfile(f"{cut['id']}.{sample.ending}"), sample)
                yield cut["custom"]["item"], kind.delivered(values, sample), cut["custom"]["classes"]
