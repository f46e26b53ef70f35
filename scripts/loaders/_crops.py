"""What the loaders of pieces of encoded recordings declare alike: decoders, and what each may differ by."""

from collections.abc import Callable, Mapping
from typing import Any

LIBRARIES = {"soundfile": "soundfile", "torchcodec": "torchcodec", "torchaudio": "torchaudio", "pyav": "av"}
LIBRARIES |= {"spdl": "spdl"}
LIMITS: dict[str, int] = {"wav": 0, "flac": 0, "mp3": 4, "opus": 40, "vorbis": 4, "aac": 4}  # in 32768ths


SHIFTS = {("mp3", "torchcodec"): -1105}  # samples, by codec and decoder


def decoders(*names: str) -> dict[str, Any]:
    """Return the OPTIONS of a loader with these decoders, the first one by default."""
    requires = {name: LIBRARIES[name.partition("_")[0]] for name in names}
    return {"decoder": {"enum": list(names), "default": names[0], "requires": requires}}


def limit(codec: str) -> Callable[[Mapping[str, Any]], int]:
    """Return the VALUE_LIMIT of a loader of files of a codec: by its decoder."""
    return lambda _settings: LIMITS[codec]


def shift(codec: str) -> Callable[[Mapping[str, Any]], int]:
    """Return the TIME_SHIFT of a loader of files of a codec: by its decoder."""
    return lambda settings: SHIFTS.get((codec, settings["decoder"]), 0)
