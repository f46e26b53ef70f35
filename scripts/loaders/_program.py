"""Writes the program behind a result: what it is, what it needs, and the text of the loader that was measured."""

import textwrap
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from scripts.common import plugins
from scripts.common.sample import Sample
from scripts.common.settings import settings_text
from scripts.common.vocabulary import SPIN_COUNT
from scripts.loaders._bundle import WIDTH, Program

KEEP = """\
libc = ctypes.CDLL(None)  # glibc is to keep memory that is freed, for the next batch: no page faults (allocator: keep)
libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD; before glibc 2.35 it takes 1 << 25 at most
libc.mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD
libc.mallopt(-8, 1)  # M_ARENA_MAX: the heap of a thread is given back when it is empty"""


def program(
    module: ModuleType,
    settings: Mapping[str, Any],
    format_about: str,
    data: str | Path,
    sample: Sample,
    seed: int = 0,
    versions: Mapping[str, str | None] | None = None,
    classes: int | None = None,
) -> str:
    """Return the program of a loader with the settings of a run, formatted as ruff does it.

    `format_about` is what its format says of itself, `data` the folder of the split, `sample` what an item is, `seed`
    that of the order, `versions` those of what the loader REQUIRES, by distribution, `classes` how many there are.
    """
    text = Program({**settings, "classes": classes}, sample, Path(data), seed)
    keep = KEEP if settings.get("allocator") == "keep" else ""
    body = text.text(Path(module.__file__), keep, ["import ctypes"] if keep else [])
    return f"{_heading(module, settings, format_about, versions or {})}\n\n{body}\n"


def _heading(
    module: ModuleType, settings: Mapping[str, Any], format_about: str, versions: Mapping[str, str | None]
) -> str:
    """Return the comment above the program: what it is, what it needs and what it reads."""
    name = module.__name__.rpartition(".")[2]
    about = (module.__doc__ or "").strip().splitlines()[0]
    paragraphs = [
        f"{name}: {about}",
        f"As feedrate measured it: device {settings['device']}, {settings_text(settings)}.",
        f"Reads feedrate's format {module.FORMAT}: {format_about}",
        f"Start your training with GOMP_SPINCOUNT={SPIN_COUNT}, as this was measured: torch's threads then give the "
        "cores back soon after each operation.",
    ]
    if settings.get("device_prefetch"):
        paragraphs.append(
            f"The measured program also copied {settings['device_prefetch']} batches to the GPU ahead, on a stream of "
            "their own (device_prefetch); this one does not."
        )
    if settings.get("allocator") not in (None, "keep"):
        paragraphs.append(
            f"The measured program ran on {settings['allocator']}: start this one with its library in LD_PRELOAD."
        )
    if settings.get("transform"):
        paragraphs.append(
            f"The measured program also applied the transform {settings['transform']} to each item; this one does not."
        )
    pins = (f"{name}=={versions[name]}" if versions.get(name) else name for name in plugins.required(module, settings))
    return "\n".join([*map(comment, paragraphs), f"# pip install {' '.join(pins)}"])


def comment(text: str) -> str:
    """Return text as lines of a comment."""
    return textwrap.fill(" ".join(text.split()), WIDTH, initial_indent="# ", subsequent_indent="# ")
