"""What a file of the user's own reads, as a format: FILES, under other names below a split's folder.

Nothing is written twice: a hard link where the file system is the same, else a symbolic one. A copy is made only where
a storage tier is elsewhere.
"""

import glob
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from scripts.common.errors import UserError


def patterns_of(files: str | Iterable[str], folder: Path) -> list[str]:
    """Return absolute paths and patterns; what is relative starts at the folder of the user's file."""
    listed = [files] if isinstance(files, str) else list(files)
    return [os.path.normpath(folder / os.path.expanduser(one)) for one in listed]


def files_of(patterns: Iterable[str]) -> dict[str, Path]:
    """Return {name: file} of files, folders and patterns; a name is the path below the folder that all have in common.

    Raises UserError for a pattern that matches nothing.
    """
    found: list[Path] = []
    for pattern in patterns:
        matches = [Path(one) for one in sorted(glob.glob(pattern, recursive=True))]
        if not matches:
            raise UserError(f"FILES: found nothing at {pattern}; allowed are files, folders and patterns. Correct it.")
        for match in matches:
            below = (Path(top, name) for top, _, names in os.walk(match, followlinks=True) for name in sorted(names))
            found += below if match.is_dir() else [match]
    if not found:
        return {}
    shared = os.path.commonpath([file.parent for file in found])
    return {os.path.relpath(file, shared): file for file in sorted(found)}


def format_of(loader: ModuleType) -> ModuleType:
    """Return the format of a loader's FILES. Its VERSION changes with their names, sizes and times."""
    patterns = patterns_of(loader.FILES, loader.OWN_FILE.parent)
    total, told = 0, hashlib.sha256()
    files = files_of(patterns)
    for name, file in files.items():
        about = file.stat()
        total += about.st_size
        told.update(f"{name} {about.st_size} {about.st_mtime_ns}\n".encode())
    module = ModuleType(f"formats.{loader.FORMAT}", f"The user's own files, {len(files):,} of them, as they are.")
    module.VERSION, module.BYTES, module.PATTERNS = int(told.hexdigest()[:12], 16), total, patterns
    module.READERS, module.LINKED, module.REQUIRES = False, True, ()
    module.BYTES_PER_ITEM = lambda _sample: max(1, total // max(1, len(files)))
    return module


def write(patterns: Iterable[str], out: Path) -> tuple[int, int]:
    """Give the files second names below the folder `out`; return their bytes, and how many they are."""
    total, files = 0, files_of(patterns)
    for name, file in files.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        source = os.path.realpath(file)
        try:
            os.link(source, out / name)
        except OSError:  # another file system, or one without links
            os.symlink(source, out / name)
        total += file.stat().st_size
    return total, len(files)
