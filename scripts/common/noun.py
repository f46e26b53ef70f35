"""What an item of the data is called: of audio a clip, as everywhere here; of other data an image, an array."""

import re
from collections.abc import Mapping
from typing import Any

from scripts.common.sample import CLIP, noun_of_kind

_APART = re.compile(r"(<(script|style|code|pre|textarea)\b.*?</\2>)", re.DOTALL | re.IGNORECASE)  # of a page
_TEXT = re.compile(r"(?:\A|(?<=>))[^<]+")
_SAID = re.compile(r'( (?:alt|title|aria-label)=")([^"]*)')
_CLIP = re.compile(r"(?:\b(a) )?(?<![\w/.=-])(clip)(s?)(?![\w-])", re.IGNORECASE)  # no name, path, setting


def kind_of(tables: Mapping[str, Any]) -> str:
    """Return the kind of the tables' data."""
    return ((tables["dataset"]["corpus"] or {}).get("sample") or {}).get("kind", "audio")


def noun_of(tables: Mapping[str, Any]) -> str:
    """Return what an item of the tables' data is called."""
    return noun_of_kind(kind_of(tables))


def worded(text: str, noun: str) -> str:
    """Return text with `noun` for each clip: clips/s become images/s, and a clip an image."""
    return text if noun == CLIP else _CLIP.sub(lambda found: _put(found, noun), text)


def _put(found: re.Match[str], noun: str) -> str:
    article, clip, plural = found.groups()
    word = noun.capitalize() if clip[0].isupper() else noun
    article = f"{article}{'n' if noun[0] in 'aeiou' else ''} " if article else ""
    return f"{article}{word}{plural}"


def worded_page(html: str, noun: str) -> str:
    """Return a page whose words, but not its code, name the noun: text between tags, and what pictures say."""
    if noun == CLIP:
        return html
    parts = _APART.split(html)  # (between, element, its name) again and again
    for place in range(0, len(parts), 3):
        said = _SAID.sub(lambda found: found[1] + worded(found[2], noun), parts[place])
        parts[place] = _TEXT.sub(lambda found: worded(found[0], noun), said)
    return "".join(part for place, part in enumerate(parts) if place % 3 != 2)
