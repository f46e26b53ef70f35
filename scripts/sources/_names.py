"""Names of recordings, whatever they hold, and how they are shared out: what the sources of files share."""

import os
import re
from pathlib import Path

from scripts.common.ledger import SourceRequest

SHARDS = {  # the option of that name
    **{"type": "integer", "minimum": 1, "maximum": 1000, "default": 1},
    "description": "Parts that are worked on as jobs of their own; one per few hundred recordings is plenty.",
}


def escape(relative: str) -> str:
    """Return the id of the file `relative`: '%', '#' (which separates recording from clip) and non-UTF-8 bytes as %XX.

    `relative` is as Python gives file names: bytes that are not UTF-8 are lone surrogates.
    """
    return re.sub("[%#\udc80-\udcff]", lambda match: f"%{ord(match[0]) & 0xFF:02X}", relative)


def is_utf8(text: str) -> bool:
    """Return whether a name can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_ours(recording: str, request: SourceRequest) -> bool:
    """Return whether a recording of this id is one of the shard's: its hash says so, so that adding some moves none."""
    import xxhash

    return xxhash.xxh3_64_intdigest(recording.encode()) % request.shards == request.shard


def absolute(text: str) -> Path:
    """Return the path that a user has typed, from the root on; links stay."""
    return Path(os.path.abspath(os.path.expanduser(text)))
