"""What is done with the batches: a file a task, with its line in TASKS of scripts/common/vocabulary.py.

A task has `sink(request)`, which returns what consumes a batch (`protocol.Sink`), and an emulated step follows it where
the run asks for one; or, where it has an epoch loop of its own, `times(run)`, which takes a run (`measure/run.py`)
through its phases and returns their times.
"""

from importlib import import_module
from types import ModuleType


def load(name: str) -> ModuleType:
    """Return the module of a task."""
    return import_module(f"{__name__}.{name}")
