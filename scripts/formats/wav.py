"""16-bit WAV files in natural length, one an item: the corpus itself, numbered.

A split's folder holds `000000.wav`, `000001.wav`, ... where the number is the item's position in the split, and the
three label arrays of `common/labels.py`. The files are the corpus's own, byte for byte; whoever reads them pads.
`read` gives the target first and the other classes in ascending order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scripts.formats._contract import Corpus, Path, Progress, Rows

VERSION = 1
REQUIRES = ("numpy",)
BYTES_PER_ITEM = lambda sample: sample.stored_bytes  # noqa: E731
READERS = False
KINDS = ("audio",)


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
    """Write the WAV files and label arrays of one split into the empty folder `out`."""
    from scripts.common.labels import write_labels

    for position, item in enumerate(corpus.items(split)):
        (out / f"{position:06}.wav").write_bytes((corpus.root / item.path).read_bytes())
        progress(1)
    write_labels(corpus, split, out)


def read(out: Path, corpus: Corpus) -> Rows:
    """Yield (item index, float32 (1, samples), classes) in manifest order, decoded by libsndfile."""
    import soundfile

    from scripts.common.labels import numbered, padded_float, with_labels

    decoded = (soundfile.read(path, dtype="int16")[0] for path in numbered(out, ".wav"))
    return with_labels(out, (padded_float(pcm, corpus.samples) for pcm in decoded))
