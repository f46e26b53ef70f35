"""What the loaders of pieces of encoded recordings declare alike: readers, and how far each may be from the truth.

In value and in time, by codec and reader (`_plain/pieces.py`).

The truth is what PyAV's FFmpeg gives of the file, read forward from its beginning. docs/decoders.md has what was
measured.
"""

from collections.abc import Callable, Mapping
from typing import Any

LIBRARIES = {"soundfile": "soundfile", "torchcodec": "torchcodec", "torchaudio": "torchaudio", "pyav": "av"}
LIBRARIES |= {"spdl": "spdl"}
LOSSY = 0.25  # 1/32768: floating point differs by at most 0.03 among decoders; one sample of shift, by thousands
OPUS = 256.0  # between FFmpeg's own decoder and libopus, at 64 kbit/s a channel: 81 was measured
EXACT = ("soundfile_aligned", "soundfile_whole", "torchcodec_aligned", "torchcodec_whole", "torchaudio")
EXACT += ("pyav", "pyav_whole", "spdl_aligned", "spdl_whole")
WITHOUT_AAC = tuple(name for name in EXACT if not name.startswith("soundfile"))
PLAIN = ("soundfile", "torchcodec", "spdl")

# Largest difference in 1/32768, after the shift. A pair without a limit cannot be held to one, or does not read it.
LIMITS: dict[str, dict[str, float]] = {
    "wav": dict.fromkeys((*EXACT, *PLAIN, "torchcodec_wav"), 0.0),
    "flac": dict.fromkeys((*EXACT, *PLAIN), 0.0),
    "mp3": dict.fromkeys((*EXACT, "torchcodec"), LOSSY),  # soundfile begins too late for low bit rates
    "mp3_bare": dict.fromkeys((*EXACT, "torchcodec"), LOSSY),  # without a Xing tag
    "opus": dict.fromkeys((*EXACT, "torchcodec"), OPUS),
    "vorbis": dict.fromkeys((*EXACT, "torchcodec"), LOSSY),
    "aac": dict.fromkeys((*WITHOUT_AAC, "torchcodec"), LOSSY),  # encoded with aac_pns=0
    "aac_noise": {name: LOSSY for name in WITHOUT_AAC if name.endswith("_whole") or name == "torchaudio"},
}

# Samples by which a piece comes early; 0 where none is named. Of MP3 it is the encoder's delay and the decoder's, which
# FFmpeg leaves out of the samples and keeps in the time stamps.
SHIFTS: dict[str, dict[str, int]] = {"mp3": {"torchcodec": 1105, "spdl": 1105}}


def decoders(*names: str) -> dict[str, Any]:
    """Return the OPTIONS of a loader with these readers, the first one by default."""
    requires = {name: LIBRARIES[name.partition("_")[0]] for name in names}
    return {"decoder": {"enum": list(names), "default": names[0], "requires": requires}}


def piece(settings: Mapping[str, Any]) -> str:
    """Return the PIECE of a loader: whether its reader seeks, or decodes the whole recording and cuts."""
    return "whole" if settings["decoder"].endswith("_whole") or settings["decoder"] == "torchaudio" else "sought"


def limit(codec: str) -> Callable[[Mapping[str, Any]], float]:
    """Return the VALUE_LIMIT of a loader of files of a codec, in 32768ths: by its reader."""
    return lambda settings: LIMITS[codec][settings["decoder"]]


def shift(codec: str) -> Callable[[Mapping[str, Any]], int]:
    """Return the TIME_SHIFT of a loader of files of a codec, in samples: by its reader."""
    return lambda settings: -SHIFTS.get(codec, {}).get(settings["decoder"], 0)
