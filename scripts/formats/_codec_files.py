"""What the formats share that keep recordings as numbered files of one codec."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from scripts.formats._contract import Corpus, Progress, Rows


def files_of(codec: str) -> tuple[Callable[..., None], Callable[..., Rows]]:
    """Return `write` and `read` of numbered files of a codec, which `_encoded.py` lists."""

    def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
        """Write the files and label arrays of one split into the empty folder `out`."""
        from scripts.common.arrays import ahead
        from scripts.common.labels import write_labels
        from scripts.formats._encoded import ENCODINGS, encode

        ending = ENCODINGS[codec].ending

        def encoded(numbered: tuple[int, Any]) -> None:
            position, item = numbered
            encode(out / f"{position:06}.{ending}", corpus.stored(item), corpus.sample_rate, codec)

        for _ in ahead(encoded, enumerate(corpus.items(split))):
            progress(1)
        write_labels(corpus, split, out)

    def read(out: Path, corpus: Corpus) -> Rows:
        """Yield (item index, recording, classes) in manifest order, each as the pinned decoder gives it."""
        from scripts.common.labels import numbered, with_labels
        from scripts.formats._encoded import ENCODINGS, decode

        files = numbered(out, f".{ENCODINGS[codec].ending}")
        decoded = (decode(path, corpus.sample.shape[0]) for path in files)
        return with_labels(out, (corpus.kind.delivered(pcm, corpus.sample) for pcm in decoded))

    return write, read


def truth_of(codec: str) -> Callable[..., Any]:
    """Return `truth` of numbered files of a codec with loss."""

    def truth(folder: Path, position: int, frames: int, sample: Any) -> Any:
        """Return float32 (channels, frames), full scale 32768: what is to be delivered of a recording."""
        from scripts.formats._encoded import ENCODINGS, truth

        return truth(folder / f"{position:06}.{ENCODINGS[codec].ending}", sample.shape[0], frames)

    return truth
