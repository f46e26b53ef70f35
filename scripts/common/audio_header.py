"""What a file of audio says of its own length, and whether it ends where it should, without decoding it."""

import os
import struct
from pathlib import Path
from typing import Any

UNKNOWN_BYTES = 0x7FFF0000  # programs that write WAV into a pipe leave a size of this order, or zero, in the header
PCM = (1, 3, 6, 7, 0xFFFE)  # WAV's numbers: integers, floats, A-law, mu-law, and what has a longer header of PCM
OGG_PAGE_BYTES = 65_307  # of the largest page that there can be (RFC 3533, section 6)
MATROSKA = b"\x1aE\xdf\xa3"


def announced_seconds(path: Path, header_seconds: float | None) -> float | None:
    """Return how long the file's own header says it is, or None where it does not say or FFmpeg only estimates it.

    `header_seconds` is FFmpeg's figure. It is an estimate from size and bit rate for MP3 without a Xing table and for
    bare AAC, and for WAV it never exceeds what the file holds, so that a WAV file's header is read here.
    """
    with open(path, "rb") as file:
        head = file.read(16)
        if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
            file.seek(12)
            return _wav_seconds(file)
        if head[:3] == b"ID3":  # its size is four bytes of seven bits
            file.seek(10 + sum((byte & 0x7F) << shift for byte, shift in zip(head[6:10], (21, 14, 7, 0), strict=True)))
        else:
            file.seek(0)
        start = file.read(4096)
    if head[:4] in (b"fLaC", b"OggS", b"FORM", MATROSKA) or head[4:8] == b"ftyp" or start[:4] == b"fLaC":
        return header_seconds
    xing = any(tag in start for tag in (b"Xing", b"Info", b"VBRI"))
    return header_seconds if xing and start[:1] == b"\xff" else None


def _wav_seconds(file: Any) -> float | None:
    """Return the length that the WAV chunks after byte 12 announce, or None where the size was left open.

    Only of PCM is it the data's bytes by the byte rate, which is a round figure of the codec's in other headers: there
    the chunk `fact` has the number of samples, if anything has.
    """
    codec = rate = bytes_per_second = samples = 0
    while len(header := file.read(8)) == 8:
        name, size = struct.unpack("<4sI", header)
        if name == b"data":
            if not 0 < size < UNKNOWN_BYTES:
                return None
            length, unit = (size, bytes_per_second) if codec in PCM else (samples, rate)
            return length / unit if unit and 0 < length < UNKNOWN_BYTES else None
        taken = file.read(min(size, 16))
        if name == b"fmt " and len(taken) == 16:
            codec, _, rate, bytes_per_second = struct.unpack("<HHII", taken[:12])
        elif name == b"fact" and len(taken) >= 4:
            (samples,) = struct.unpack("<I", taken[:4])
        file.seek(size + size % 2 - len(taken), os.SEEK_CUR)
    return None


def ogg_fault(path: Path) -> tuple[bool, str] | None:
    """Return (whether audio is lost, what is wrong) with the end of an Ogg file, or None where it ends as it should.

    Ogg announces no length. A page says how long it is, and the last page that it is the last (RFC 3533, section 6).
    """
    with open(path, "rb") as file:
        if file.read(4) != b"OggS":
            return None
        file.seek(max(0, path.stat().st_size - 2 * OGG_PAGE_BYTES))
        tail = file.read()
    page = tail[tail.rfind(b"OggS\0") :]
    sizes = page[27 : 27 + page[26]] if len(page) > 26 else b""
    if len(page) < 27 or len(sizes) < page[26] or len(page) < 27 + len(sizes) + sum(sizes):
        return True, "the file ends in the middle of an Ogg page"
    return None if page[5] & 4 else (False, "no Ogg page says that it is the last")


def bytes_of_next_wav(path: Path) -> int:
    """Return the size of a second WAV file that was joined to this one, else 0: FFmpeg does not read it."""
    with open(path, "rb") as file:
        head = file.read(12)
        if head[:4] != b"RIFF" or head[8:] != b"WAVE":
            return 0
        (size,) = struct.unpack("<I", head[4:8])
        end = 8 + size + size % 2
        file.seek(end)
        return path.stat().st_size - end if file.read(4) == b"RIFF" else 0
