"""Which files of a placed format are not as they were written: what a run says that was given wrong data."""

import filecmp
from pathlib import Path

SHOWN = 3  # files named; the rest is counted


def files_changed(written: Path, placed: Path) -> list[str]:
    """Return the files of a split, by their names below it, that are absent where it is placed or have other bytes."""
    names = sorted(path.relative_to(written) for path in written.rglob("*") if path.is_file())
    return [
        str(name)
        for name in names
        if not (placed / name).is_file() or not filecmp.cmp(written / name, placed / name, shallow=False)
    ]


def words(written: Path | None, placed: Path | None) -> str:
    """Return, to be added to a reason, which files of a placed split have changed and what to do; empty for none.

    `written`: the split as write_format left it; nothing is said where it is not there, or has no files of its own.
    """
    if written is None or placed is None or not written.is_dir():
        return ""
    try:
        changed = files_changed(written, placed)
    except OSError as error:  # which the reason is about
        return f" | {error.filename or placed} cannot be read ({error.strerror})"
    if not changed:
        return ""
    more = f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
    return (
        f" | changed since it was placed: {', '.join(changed[:SHOWN])}{more} in {placed}; delete {placed.parent}, then "
        "type the same command again"
    )
