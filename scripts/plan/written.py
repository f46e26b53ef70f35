"""The plan as it is written down: what plan.json holds."""

from typing import Any

from scripts.plan.config import presets_for
from scripts.plan.estimate import estimate
from scripts.plan.experiment import Plan
from scripts.plan.outgoing import outgoing


def written(plan: Plan, preset: str) -> dict[str, Any]:
    """Return what plan.json holds of a plan; `preset`: the one whose values stand in its config."""
    found = plan.as_json() | {"estimate": estimate(plan).as_json()}
    found["outgoing"] = [one.as_json() for one in outgoing(plan)]
    found["config"]["preset"] = preset
    found["presets"] = presets_for(plan.kind, plan.dataset, preset)
    return found
