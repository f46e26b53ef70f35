"""The plan as programs read it: plan.json, which the call that the user types writes once, and nobody builds again.

A row is a result with an id (TIER/LOADER/SLUG) and everything resolved: settings, location, paths, windows, scenario.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from scripts.plan.results import Bound, Measurement, Result, Tensors

ROWS = ("results", "proofs", "bounds", "tensors")  # tables of the plan, each by id


def _rows(table: str, kind: type[Measurement]) -> Any:
    """Return a property: the rows of a table by their ids, as objects."""
    return cached_property(lambda plan: {row["id"]: kind(**row) for row in plan.content[table]})


class Planned:
    """What plan.json holds. Rows are objects: `results` and `proofs` by id, a proof has that of its plain result."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.content = content
        self.dataset: str = content["dataset"]
        self.config: Mapping[str, Any] = content["config"]
        self.loaders: Mapping[str, Any] = content["loaders"]
        self.formats: Mapping[str, Any] = content["formats"]
        self.tiers: Mapping[str, Any] = content["tiers"]
        self.sessions: Mapping[str, list[str]] = content["sessions"]
        self.part: Mapping[str, Any] | None = content["part"]  # what is measured first; None: all items are at once

    results = _rows("results", Result)  # in the order of the config
    proofs = _rows("proofs", Result)  # one for each loader, tier and set of settings
    bounds = _rows("bounds", Bound)  # the control runs
    tensors = _rows("tensors", Tensors)  # the micro-benchmarks of moving tensors

    def of_loader(self, loader: str) -> list[Result]:
        """Return the results of a loader."""
        return [result for result in self.results.values() if result.loader == loader]

    def of_session(self, name: str) -> list[Result]:
        """Return the results that a session measures."""
        return [self.results[result] for result in self.sessions[name]]

    def folder(self, stage: str) -> str:
        """Return the folder of a stage for the data set, relative to the project."""
        return f"results/{stage}/{self.dataset}"

    def digest(self, results: Any, measure: tuple[str, ...]) -> str:
        """Return a hash of what results are, and of how long they are measured: keys of `measure`."""
        told = [vars(result) for result in results], {key: self.config["measure"][key] for key in measure}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
