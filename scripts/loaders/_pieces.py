"""How far a piece may be from the truth, by codec and reader (`_plain/pieces.py`): in value, and in time.

The truth is what PyAV's FFmpeg gives of the file, read forward from its beginning. docs/decoders.md has what was
measured.
"""

LOSSY = 0.25  # 1/32768: floating point differs by at most 0.03 among decoders; one sample of shift, by thousands
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
    "opus": dict.fromkeys((*EXACT, "torchcodec"), LOSSY),
    "vorbis": dict.fromkeys((*EXACT, "torchcodec"), LOSSY),
    "aac": dict.fromkeys((*WITHOUT_AAC, "torchcodec"), LOSSY),  # encoded with aac_pns=0
    "aac_noise": {name: LOSSY for name in WITHOUT_AAC if name.endswith("_whole") or name == "torchaudio"},
}

# Samples by which a piece comes early; 0 where none is named. Of MP3 it is the encoder's delay and the decoder's, which
# FFmpeg leaves out of the samples and keeps in the time stamps.
SHIFTS: dict[str, dict[str, int]] = {"mp3": {"torchcodec": 1105, "spdl": 1105}}
