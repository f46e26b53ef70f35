"""What the formats of Lhotse share: an item as a cut, with its recording, and its labels as custom fields."""

from typing import Any

from scripts.formats._contract import Corpus, Path

REQUIRES = ("numpy", "lhotse")


def cut_of(corpus: Corpus, item: Any, name: str, source: str) -> Any:
    """Return a MonoCut of a whole item of the corpus, whose recording is in the file `source`."""
    from lhotse import MonoCut, Recording
    from lhotse.audio import AudioSource

    rate, seconds = corpus.sample_rate, item.frames / corpus.sample_rate
    sources = [AudioSource(type="file", channels=[0], source=source)]
    recording = Recording(id=name, sources=sources, sampling_rate=rate, num_samples=item.frames, duration=seconds)
    about = {"classes": list(item.classes), "item": item.index}
    return MonoCut(id=name, start=0.0, duration=seconds, channel=0, recording=recording, custom=about)


def opened(path: Path, **how: Any) -> Any:
    """Return Lhotse's writer of a manifest, which is not compressed: a compressed one holds the time of writing."""
    from lhotse.serialization import SequentialJsonlWriter

    return SequentialJsonlWriter(str(path), **how)
