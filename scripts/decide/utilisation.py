"""AU, accelerator utilisation: the share of a training's time that its steps take, for a step of any length.

A few numbers of a loader say it. A batch takes t at full rate, where nothing waits. Beside a step that is much longer
than t the loader works behind the step, and s remains: what it does in the training's own thread; with no workers all
of its work. So a period, from a batch to the next, is no shorter than t, and no shorter than step + s.

Where step + s is near t these two said up to 15 points too much on two cores: step and loader take turns at the same
cores and the same interpreter. Hence a third number, the share k of a step that the loader loses, and

    period = max(t + k step, step + s(step)),  AU = step / (period + epoch start / batches of an epoch)

s grows with the step: after 20 ms of rest a copy that takes 1.2 ms took 3.4 ms. So it is two numbers, what remains
beside a short step and beside a long one, with a line between them.

t is that of the loader's rate. s and k are those of trials with a short step, as long as a batch, and a long one, four
times that and at least 20 ms. A trial with a third step checks them. Of a batch of another size all are in proportion.
"""

from collections.abc import Iterable, Mapping
from math import ceil, isfinite
from typing import Any, NamedTuple

from scripts.common.vocabulary import ranks_of

TARGET_AU_PERCENT = 90.0  # AU from which a training waits for its own steps alone
CHECKED_POINTS = 3.0  # of AU, by which the check may differ from what follows from the other trials
SAME = 1.02  # times: periods within are one
TRIED, MODEL = "tried", "model"
WAITS = ("step_short_wait_ms", "step_wait_ms", "step_short_ms", "step_long_ms")  # columns, as Wait has them
Row = Mapping[str, Any]


class Wait(NamedTuple):
    """What a batch lets a training wait, in ms, beside a short step and a long one, and how long these are."""

    short_ms: float
    long_ms: float
    short_step_ms: float
    long_step_ms: float

    def beside(self, step_ms: float) -> float:
        """Return the time beside a step of this length: on the line between the two, and no further."""
        along = (step_ms - self.short_step_ms) / (self.long_step_ms - self.short_step_ms)
        return self.short_ms + min(1.0, max(0.0, along)) * (self.long_ms - self.short_ms)

    def times(self, factor: float) -> "Wait":
        """Return that of a batch of so many times the items."""
        return Wait(*(factor * value for value in self))

    def least_step_ms(self, share: float, start_ms: float) -> float:
        """Return the step from which on it takes at least this share of a period without the loader's own time."""
        rest = 1 / share - 1  # of a step, that may be waited
        if rest * self.long_step_ms < self.long_ms + start_ms:
            return (self.long_ms + start_ms) / rest
        lacking = self.short_ms + start_ms - rest * self.short_step_ms
        if lacking <= 0:
            return (self.short_ms + start_ms) / rest
        slope = (self.long_ms - self.short_ms) / (self.long_step_ms - self.short_step_ms)
        return self.short_step_ms + lacking / (rest - slope)


def au_percent(
    step_ms: float, batch_ms: float, wait_ms: float, loss: float = 0.0, batches: int = 1, start_seconds: float = 0.0
) -> float:
    """Return AU in percent over epochs of so many batches, each of which takes `start_seconds` more to begin.

    loss: the share of a step that the loader loses, 0 to 1. Raises ValueError for a step, a batch or a number of
    batches that is not above 0, and for another number below 0.
    """
    known, others = (step_ms, batch_ms, batches), (wait_ms, loss, start_seconds)
    if not all(isfinite(value) and value > 0 for value in known) or not all(value >= 0 for value in others):
        raise ValueError(f"AU of a step of {step_ms} ms with {batches} batches of {batch_ms} ms: all must be above 0")
    period = max(batch_ms + loss * step_ms, step_ms + wait_ms)
    return 100 * step_ms / (period + 1000 * start_seconds / batches)


class Feeding(NamedTuple):
    """What AU of a result follows from; times of a batch of the size that was measured."""

    batch_ms: float
    wait: Wait
    loss: float
    batches: int = 1  # of an epoch
    start_seconds: float = 0.0  # of an epoch

    def au_percent(self, step_ms: float) -> float:
        """Return AU at a step of this length."""
        wait_ms = self.wait.beside(step_ms)
        return au_percent(step_ms, self.batch_ms, wait_ms, self.loss, self.batches, self.start_seconds)

    def minimum_step_ms(self) -> float:
        """Return the shortest step, in ms, from which on AU is at least TARGET_AU_PERCENT."""
        share, start = TARGET_AU_PERCENT / 100, 1000 * self.start_seconds / self.batches
        behind = share * (self.batch_ms + start) / (1 - share * self.loss)
        return max(behind, self.wait.least_step_ms(share, start))

    def of(self, times: float, batches: int) -> "Feeding":
        """Return what it is with batches of so many times the items, of which an epoch has so many."""
        return self._replace(batch_ms=times * self.batch_ms, wait=self.wait.times(times), batches=batches)

    def au_at(self, step_ms: float, trials: Mapping[str, Any]) -> tuple[float, str]:
        """Return (AU in percent, TRIED) where this step was tried, else (AU that follows, MODEL)."""
        check = trials["check"]
        if check["step_ms"] != step_ms:
            return self.au_percent(step_ms), MODEL
        period = max(step_ms, check["period_ms"]) + 1000 * self.start_seconds / self.batches
        return 100 * step_ms / period, TRIED


def feeding(batch_ms: float, trials: Mapping[str, Any], batches: int = 1, start_seconds: float = 0.0) -> Feeding:
    """Return what follows from the time of a batch in ms and the trials of a record, `steps`.

    The trials are compared with the batch that they saw without a step. Where the period beside a step as long as a
    batch is no longer than the step and what remains, the loss is anything up to what this leaves: half of it is taken.
    What remains beside that step is all that it waits there, and at most what remains beside the long one.
    """
    knee, long, plain = trials["knee"], trials["long"], trials["plain"]["period_ms"]
    short_wait, long_wait = (max(0.0, one["period_ms"] - one["step_ms"]) for one in (knee, long))
    wait = Wait(min(short_wait, long_wait), long_wait, knee["step_ms"], long["step_ms"])
    lost = [(one["period_ms"] - plain) / one["step_ms"] for one in (knee, long)]  # of the long one at most so much
    loss = min(1.0, max(0.0, min(lost)))
    explained = knee["period_ms"] <= SAME * (knee["step_ms"] + long_wait)
    return Feeding(batch_ms, wait, loss / 2 if explained else loss, batches, start_seconds)


def feeding_of(row: Row, batches: int = 1) -> Feeding | None:
    """Return what AU of a row of the ranking follows from, in epochs of so many batches; None of one without trials."""
    if row["step_loss"] is None:
        return None
    wait = Wait(*(row[name] for name in WAITS))
    return Feeding(row["batch_ms"], wait, row["step_loss"], batches, row["epoch_start_seconds"] or 0.0)


def bare(row: Row) -> bool:
    """Return whether a result's speed is that of its loader alone: one process that reads warm data, with no step."""
    return (row["task"], row["cache"], row["step_ms"], ranks_of(row)) == ("read", "warm", 0, 1)


def with_step_au(rows: Iterable[Row], plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the results with the columns of AU; all None where a result was not tried with steps.

    A result that was not tried takes the trials of the same loader with the same settings on another tier: both read
    from a warm cache. AU at `report.step_ms` is the one that was tried, where that step was, and else what follows.
    """
    own, rows = plan["config"].get("report", {}).get("step_ms"), list(rows)
    tried = {(row["loader"], row["slug"]): row["steps"] for row in rows if bare(row) and row.get("steps")}
    return [{**row, **_columns(row, row.get("steps") or tried.get((row["loader"], row["slug"])), own)} for row in rows]


def _columns(row: Row, trials: Mapping[str, Any] | None, own: float | None) -> dict[str, Any]:
    names = ("batch_ms", *WAITS, "step_loss", "step_check_points", "minimum_step_ms", "step_au_percent")
    found = dict.fromkeys((*names, "step_au_low")) | {"step_au_from": ""}
    rate = row["steady_items_per_second"] or row["items_per_second"]  # of whole epochs: their starts are in it
    if not (bare(row) and rate and row["items"]):
        return found
    start = (row["epoch_start_seconds"] or 0.0) if row["steady_items_per_second"] else 0.0
    found["batch_ms"] = batch_ms = 1000 * row["batch_size"] / rate
    if not trials:
        return found
    fed = feeding(batch_ms, trials, ceil(row["items"] / row["batch_size"]), start)
    step = trials["check"]["step_ms"]
    found |= {
        "step_loss": fed.loss,
        "minimum_step_ms": fed.minimum_step_ms(),
        **dict(zip(WAITS, fed.wait, strict=True)),
    }
    found["step_check_points"] = fed.au_percent(step) - fed.au_at(step, trials)[0]
    if own:
        au, source = fed.au_at(own, trials) if row.get("steps") else (fed.au_percent(own), MODEL)
        slowest = row["interval_low"] or row["items_per_second"]
        slower = fed._replace(batch_ms=batch_ms * row["items_per_second"] / slowest)
        low = max(0.0, au - fed.au_percent(own) + slower.au_percent(own))
        found |= {"step_au_percent": au, "step_au_low": low, "step_au_from": source}
    return found
