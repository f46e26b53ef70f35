"""Names of recordings, whatever they hold: what the sources of files share."""

import re


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
