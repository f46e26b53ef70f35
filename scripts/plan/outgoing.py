"""What a session asks of storage that charges for it: GETs, bytes out and their price, told before anything runs."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from scripts.common import plugins
from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.plan.estimate import estimate
from scripts.plan.experiment import Plan

BYTES_PER_SECOND = 250e6  # that a session is thought to read at most, of storage that was not profiled yet


@dataclass(frozen=True)
class Outgoing:
    """What is left to be read of a tier."""

    tier: str
    gets: int  # of an item each, or of what stands for one
    gigabytes: float  # of 10^9 bytes
    cost: float | None  # in the currency of the prices; None where none is set
    limit_gigabytes: float | None

    def words(self) -> str:
        """Return it as a line for the terminal."""
        price = "no price is set" if self.cost is None else f"about {self.cost:,.2f} at the prices set"
        return (
            f"Tier {self.tier}: about {self.gets:,} GETs and {self.gigabytes:,.1f} GB out, {price} (docs/storage.md)."
        )


def outgoing(plan: Plan, loaders: Collection[str] = ()) -> list[Outgoing]:
    """Return what results without a run will read of each tier that is storage of the user's own; of `loaders` only.

    A proof reads each item once, the profile and the runs what the storage gives in their time: what its profile
    measured at most, or BYTES_PER_SECOND.
    """
    return [found for tier in plan.tiers for found in _of_tier(plan, tier, loaders or plan.loaders)]


def _of_tier(plan: Plan, tier: str, loaders: Collection[str]) -> Iterator[Outgoing]:
    options = plan.tiers[tier]
    prices = getattr(plugins.load("tiers", options["kind"]), "prices", lambda _options: None)(options)
    if prices is None:
        return
    found = estimate(plan, loaders)
    every = [result for result in plan.results if result.loader in loaders and not plan.settled(result)]
    left = [result for result in every if result.tier == tier]
    proofs = {result.proof: result for result in left if not (plan.project / result.proof).exists()}
    record = plan.project / plan.folder("placed") / f"{tier}.json"
    reads = ((read_json(record).get("fio") or {}).get("reads") or []) if record.exists() else []
    rate = max((1e6 * read["megabytes_per_second"] for read in reads), default=BYTES_PER_SECOND)
    seconds = 60 * found.session_minutes * len(left) / max(1, len(every))
    if not record.exists():
        seconds += len(plan.item_sizes) * len(plan.readers_at_once) * plan.config["measure"]["profile_seconds"]
    item_bytes = [plugins.takes(plan.formats[result.format], plan.sample) for result in proofs.values()]
    out = found.items * sum(item_bytes) + seconds * rate
    gets = found.items * len(proofs) + round(seconds * rate / min(plan.item_sizes))
    per_get, per_gigabyte = (prices[key] for key in ("price_per_1000_gets", "price_per_gigabyte"))
    priced = per_get is not None or per_gigabyte is not None
    cost = gets / 1000 * (per_get or 0.0) + out / 1e9 * (per_gigabyte or 0.0)
    yield Outgoing(tier, gets, out / 1e9, cost if priced else None, prices["max_gigabytes_out"])


def check(found: Collection[Outgoing]) -> None:
    """Raise UserError where more would be read of a tier than its limit allows."""
    for one in found:
        if one.limit_gigabytes is not None and one.gigabytes > one.limit_gigabytes:
            raise UserError(
                f"config: storage.{one.tier}.max_gigabytes_out: found a plan that reads about {one.gigabytes:,.1f} GB; "
                f"allowed are {one.limit_gigabytes:g}. Lower measure.minutes, name fewer loaders, or raise the limit."
            )
