"""What is done with each item once it is read: a file in scripts/transforms with its options, or one of the user's."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.common import plugins
from scripts.common.errors import UserError, nearest
from scripts.common.versions import hash_of

NONE = "none"


def defined(name: str | None, entries: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return a transform by its name in the sweep: `name`, `options`, `version`, and `transform` or `file`; or None.

    `entries` are those of the config's `transforms`. Raises UserError for a name that is none, and for a file that is
    not there.
    """
    if name in (None, NONE):
        return None
    known = plugins.names("transforms")
    entry = entries.get(name, {"transform": name})
    if "file" in entry:
        path = Path(os.path.abspath(os.path.expanduser(entry["file"])))
        if not path.is_file():
            raise UserError(f"transforms.{name}.file: found no file {entry['file']!r}. Correct the path.")
        return {"name": name, "file": str(path), "options": {}, "version": hash_of([path])}
    if entry["transform"] not in known:
        allowed = [NONE, *entries, *known]
        raise UserError(
            f"transform: found {name!r}, allowed are {', '.join(dict.fromkeys(allowed))}.{nearest(name, allowed)} "
            f"A file of your own is transforms: {{{name}: {{file: PATH}}}} (docs/transforms.md)."
        )
    module = plugins.load("transforms", entry["transform"])
    options = {option: entry.get(option, fragment["default"]) for option, fragment in module.OPTIONS.items()}
    return {"name": name, "transform": entry["transform"], "options": options, "version": str(module.VERSION)}


def required(transform: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the distributions that a transform needs."""
    if transform is None or "file" in transform:
        return ()
    return tuple(plugins.load("transforms", transform["transform"]).REQUIRES)


def unsuited(transform: Mapping[str, Any] | None, kind: str) -> str | None:
    """Return why a transform is not for data of this kind, or None."""
    if transform is None or "file" in transform:
        return None
    kinds = plugins.kinds(plugins.load("transforms", transform["transform"]))
    if kind in kinds:
        return None
    return f"{transform['name']} is for data of the kind {' or '.join(kinds)}, and the data set is of the kind {kind}"
