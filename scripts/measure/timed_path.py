"""The code that a timed epoch goes through: its hash stands in each record, so that a table can say where it differs.

A run is not made again when this code changes, since runs cost days: `PROTOCOL` (scripts/common/vocabulary.py) does
that. tests/measure/test_timed_path.py fails when this code changes and nobody has decided which of the two it is.
"""

import hashlib
from pathlib import Path
from types import ModuleType

from scripts.common.code import closure, file_hash
from scripts.common.files import PROJECT

FILES = tuple(  # whichever loader it is; that of a loader comes to it
    PROJECT / "scripts" / name
    for name in (
        *(
            "common/request.py",
            "machine/device_prefetch.py",
            "machine/gpu.py",
            "measure/ceiling.py",
            "measure/protocol.py",
            "measure/run.py",
            "measure/window.py",
        ),
        *("measure/sink.py", "measure/step.py", "measure/tasks/iterate.py", "measure/tasks/read.py"),
        *(
            "measure/tasks/lightning.py",
            "measure/tasks/train.py",
            "measure/training.py",
            "measure/training_lightning.py",
        ),
    )
)


def shared_by_loaders() -> list[Path]:
    """Return FILES and what several loaders share: the files of scripts/loaders that begin with an underscore.

    But _program.py, which writes text before anything is timed.
    """
    folder = PROJECT / "scripts" / "loaders"
    return sorted({*FILES, *folder.glob("_*.py"), *folder.glob("_*/*.py")} - {folder / "_program.py"})


def timed_code(loader: ModuleType) -> str:
    """Return the hash of what every run goes through, and after a dash that of the loader: 12 digits each.

    Of a loader in a file of the user's own it is that file and what it imports beside it.
    """
    folder = PROJECT / "scripts" / "loaders"
    name = loader.__name__.rpartition(".")[2]
    own = getattr(loader, "OWN_FILE", None)
    reached = closure("scripts.loaders._own_epochs" if own else f"scripts.loaders.{name}")
    files = [path for path in reached if path.is_relative_to(folder)]
    files += [Path(path) for path in ([own, *loader.LOCAL_IMPORTS] if own else [])]
    return f"{shared_hash()}-{_hash(files)}"


def shared_hash() -> str:
    """Return the hash of FILES."""
    return _hash(FILES)


def _hash(files: tuple[Path, ...] | list[Path]) -> str:
    return hashlib.sha256("".join(file_hash(path) for path in files).encode()).hexdigest()[:12]
