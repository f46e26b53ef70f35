"""Lhotse's CutSet over 16-bit WAV files in natural length, one per item: the corpus itself, and a manifest of it.

The folder holds `000000.wav`, ..., the corpus's files byte for byte, and `cuts.jsonl`, one MonoCut a line in the order
of the items. The custom fields of a cut are `classes`, the target first, and `item`, the index in the manifest. Open it
with `CutSet.from_file(path).with_recording_path_prefix(folder)`: the names of the files are relative.
"""

import json

from scripts.formats import _lhotse
from scripts.formats._contract import Corpus, Path, Progress, Rows

VERSION = 1
REQUIRES = _lhotse.REQUIRES
BYTES_PER_ITEM = lambda sample: sample.stored_bytes  # noqa: E731
READERS = False
LINKED = True  # its files are the corpus's own, under another name
KINDS = ("audio",)


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
    """Write the files and the manifest of one split into the empty folder `out`."""
    from scripts.formats._files import write_files

    write_files(corpus, split, out, progress)
    if corpus.counts[split]:
        with _lhotse.opened(out / "cuts.jsonl") as manifest:
            for position, item in enumerate(corpus.items(split)):
                name = f"{position:06}"
                manifest.write(_lhotse.cut_of(corpus, item, name, f"{name}.{corpus.sample.ending}"))


def read(out: Path, corpus: Corpus) -> Rows:
    """Yield (item index, delivered item, classes) in manifest order."""
    sample, kind = corpus.sample, corpus.kind
    with open(out / "cuts.jsonl", encoding="utf-8") as lines:
        for line in lines:
            cut = json.loads(line)
            values = kind.read(out / cut["recording"]["sources"][0]["source"], sample)
            yield cut["custom"]["item"], kind.delivered(values, sample), cut["custom"]["classes"]
