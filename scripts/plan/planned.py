"""The plan as programs read it: plan.json, which the call that the user types writes once, and nobody builds again.

A row is a result with an id (TIER/LOADER/SLUG) and everything resolved: settings, location, paths, windows, scenario.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from scripts.plan.results import Bound, Result, Tensors

ROWS = ("results", "proofs", "bounds", "tensors")  # tables of the plan, each by id


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

    @cached_property
    def results(self) -> dict[str, Result]:
        """The results by id, in the order of the config."""
        return {row["id"]: Result(**row) for row in self.content["results"]}

    @cached_property
    def proofs(self) -> dict[str, Result]:
        """The proofs by id: one for each loader, tier and set of settings."""
        return {row["id"]: Result(**row) for row in self.content["proofs"]}

    @cached_property
    def bounds(self) -> dict[str, Bound]:
        """The control runs by id."""
        return {row["id"]: Bound(**row) for row in self.content["bounds"]}

    @cached_property
    def tensors(self) -> dict[str, Tensors]:
        """The micro-benchmarks of moving tensors by id."""
        return {row["id"]: Tensors(**row) for row in self.content["tensors"]}

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
