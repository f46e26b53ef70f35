"""What the formats share that keep the corpus's own files, one an item: numbered, byte for byte."""

import os

from scripts.formats._contract import Corpus, Path, Progress, Rows


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
    """Write the files and label arrays of one split into the empty folder `out`."""
    from scripts.common.labels import write_labels

    write_files(corpus, split, out, progress)
    write_labels(corpus, split, out)


def write_files(corpus: Corpus, split: str, out: Path, progress: Progress) -> None:
    """Write the numbered files of one split into the empty folder `out`."""
    for position, item in enumerate(corpus.items(split)):
        source, copy = corpus.root / item.path, out / f"{position:06}.{corpus.sample.ending}"
        try:
            os.link(source, copy)  # another name of the same file, where both are on one file system
        except OSError:
            copy.write_bytes(source.read_bytes())
        progress(1)


def read(out: Path, corpus: Corpus) -> Rows:
    """Yield (item index, delivered item, classes) in manifest order."""
    from scripts.common.labels import numbered, with_labels

    sample, kind = corpus.sample, corpus.kind
    decoded = (kind.read(path, sample) for path in numbered(out, f".{sample.ending}"))
    return with_labels(out, (kind.delivered(values, sample) for values in decoded))
