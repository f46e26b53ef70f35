"""16-bit WAV files in natural length, one a clip: the corpus itself, numbered.

A split's folder holds `000000.wav`, `000001.wav`, ... where the number is the clip's position in the split, and the
three label arrays of `common/labels.py`. The files are the corpus's own, byte for byte; whoever reads them pads.
`read` gives the target first and the other classes in ascending order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from scripts.common.corpus import Corpus

REQUIRES = ("numpy",)
BYTES_PER_CLIP = lambda samples: samples * 2  # noqa: E731
READERS = False


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Callable[[int], None]) -> None:  # noqa: ARG001
    """Write the WAV files and label arrays of one split into the empty folder `out`."""
    from scripts.common.labels import write_labels

    for position, clip in enumerate(corpus.clips(split)):
        (out / f"{position:06}.wav").write_bytes((corpus.root / clip.path).read_bytes())
        progress(1)
    write_labels(corpus, split, out)


def read(out: Path, corpus: Corpus) -> Iterator[tuple[int, np.ndarray, list[int]]]:
    """Yield (clip index, float32 (1, samples), classes) in manifest order, decoded by libsndfile."""
    import numpy as np
    import soundfile

    from scripts.common.labels import class_lists, read_labels

    if not any(out.iterdir()):
        return
    clips, target, labels = read_labels(out)
    for position, classes in enumerate(class_lists(target, labels)):
        decoded, _ = soundfile.read(out / f"{position:06}.wav", frames=corpus.samples, dtype="float32")
        audio = np.zeros((1, corpus.samples), dtype=np.float32)
        audio[0, : len(decoded)] = decoded
        yield int(clips[position]), audio, classes
