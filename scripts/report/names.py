"""Leaves the reader's name and home folders out of what a report shows."""

import getpass
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def anonymous(value: Any) -> Any:
    """Return `value` with home folders as ``~`` and path parts that are the user's name as ``USER``, at any depth."""
    return texts_changed(value, _without_user)


def texts_changed(value: Any, change: Callable[[str], str]) -> Any:
    """Return `value` with each text in it changed, at any depth."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: texts_changed(part, change) for key, part in value.items()}
    if isinstance(value, list):
        return [texts_changed(part, change) for part in value]
    return value


def _without_user(text: str) -> str:
    if "/" not in text:
        return text
    home = str(Path.home())
    if home != "/":
        text = re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text)
    text = re.sub(r"(?<![\w.~-])/(?:home|Users)/[^/\s'\",;:]+", "~", text)
    return re.sub(rf"(?<=/){re.escape(_user())}(?![\w.-])", "USER", text)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return "nobody"
