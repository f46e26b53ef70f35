"""Whether a loader keeps up with the user's own training: its step, its batch, and data larger than memory.

The page's form does the same arithmetic for other numbers (report/template/model.js); a test holds both together.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from scripts.common.vocabulary import OBJECTS, SPLIT
from scripts.decide.panel import asked, holds_everything, natural_bytes, with_speed
from scripts.decide.utilisation import CHECKED_POINTS, TARGET_AU_PERCENT, TRIED, Wait, au_percent, bare, feeding_of

Row = Mapping[str, Any]
Tables = Mapping[str, Any]


class Yours(NamedTuple):
    """What the user has: the training's batch and step, the data as 16-bit samples, memory, and what storage gives.

    None: of `step_ms` that it was not said, of `gigabytes` that the data fits into memory, of `storage_mbps` that the
    storage is the one that was measured.
    """

    batch: int
    step_ms: float | None
    gigabytes: float | None
    ram_gigabytes: float | None
    storage_mbps: float | None

    def problems(self) -> list[str]:
        """Return the names of the numbers that no training has: below 0, or 0 where there must be some."""
        must = {"batch": self.batch, "step_ms": self.step_ms, "ram_gigabytes": self.ram_gigabytes}
        may = {"gigabytes": self.gigabytes, "storage_mbps": self.storage_mbps}
        return [name for name, value in (must | may).items() if value is not None and not value > 0]


class Answer(NamedTuple):
    """What a result gives to a training.

    - `au`: AU in percent, None where it is not known. `low`: at the lower end of the speed's interval.
    - `most`: what AU is at most, where it is not known. `source`: `tried` with that step, `model` (batch and waiting
      time from memory), `cold` (the same, read from the disk), `storage` (its limit alone), `does_not_fit`, `unknown`.
    """

    au: float | None
    low: float | None
    most: float
    source: str

    @property
    def keeps_up(self) -> bool | None:
        """Whether AU is at least the target; None where that is not known."""
        if self.source == "does_not_fit" or self.most < TARGET_AU_PERCENT:
            return False
        if self.au is None or self.low is None:
            return None
        return True if self.low >= TARGET_AU_PERCENT else None if self.au >= TARGET_AU_PERCENT else False


class Able(NamedTuple):
    """What was measured of a result that the arithmetic needs, in milliseconds and bytes of an item."""

    item_ms: float | None  # at full rate, without epoch starts; None: it was not measured alone
    slow_item_ms: float | None  # at the lower end of the speed's interval
    wait: Wait | None  # what of it is waited for beside steps of two lengths; None: not tried, or the model is off
    loss: float  # share of a step that the loader loses
    start_ms: float  # of an epoch
    item_bytes: float | None  # as its format has them
    keeps: bool  # the whole data set in memory
    held_bytes: float  # by its processes
    cold_item_ms: float | None  # read from the disk
    storage_item_ms: float | None  # the least that the measured storage takes, at any number of readers
    tried: tuple[int, float, float] | None  # batch, step in ms, AU in percent

    def told(self) -> dict[str, Any]:
        """Return it as verdict.json has it."""
        return self._asdict() | {"wait": self.wait and self.wait._asdict()}

    def answer(self, yours: Yours, natural: float, items: int) -> Answer:
        """Return what it gives to a training; `natural`: bytes of an item of the data measured, of which there were
        `items`. Larger data has longer epochs, in which their start weighs less.
        """
        if self.item_ms is None or yours.step_ms is None:
            return Answer(None, None, 100.0, "unknown")
        step, epoch = yours.step_ms, 1e9 * yours.gigabytes / natural if yours.gigabytes else items
        large = self._large(yours, natural)
        if large and self.keeps:
            return Answer(None, None, 0.0, "does_not_fit")
        if self.tried and not large and not yours.gigabytes and self.tried[:2] == (yours.batch, step):
            return Answer(self.tried[2], self.tried[2], self.tried[2], "tried")
        limit = self.storage_ms(yours) if large else 0.0
        fastest = max(self.item_ms, limit or 0.0, (self.cold_item_ms or 0.0) if large else 0.0)
        most = self._au(yours, epoch, fastest, 0.0, 0.0)
        known = self.wait is not None and (not large or (self.cold_item_ms and not yours.storage_mbps))
        if not known:
            return Answer(None, None, most, "storage" if large and limit else "unknown")
        wait = self.wait.times(yours.batch).beside(step) * fastest / self.item_ms  # what is not made ahead is read, too
        low = self._au(yours, epoch, fastest * self.slow_item_ms / self.item_ms, wait, self.loss)
        return Answer(self._au(yours, epoch, fastest, wait, self.loss), low, most, "cold" if large else "model")

    def _au(self, yours: Yours, epoch: float, item_ms: float, wait_ms: float, loss: float) -> float:
        batches = max(1, -(-epoch // yours.batch))
        return au_percent(yours.step_ms, yours.batch * item_ms, wait_ms, loss, batches, self.start_ms / 1000)

    def _large(self, yours: Yours, natural: float) -> bool:
        """Return whether the data, in this format, is larger than the memory that its processes leave."""
        if not yours.gigabytes or not yours.ram_gigabytes:
            return False
        size = yours.gigabytes * (self.item_bytes or natural) / natural
        return size > yours.ram_gigabytes - self.held_bytes / 1e9

    def storage_ms(self, yours: Yours) -> float | None:
        """Return the least time in which the storage of the user's data gives an item; None where that is not known."""
        if yours.storage_mbps:
            return self.item_bytes and self.item_bytes / yours.storage_mbps / 1000
        return self.storage_item_ms


def yours_of(tables: Tables, batch: int) -> Yours:
    """Return what the config says of the user's training; what it leaves out is the batch and the machine measured."""
    hosts = tables["host"]["hosts"]
    memory = hosts[0]["host"].get("memory_bytes") if hosts else None
    said = Yours(*(asked(tables, name) for name in Yours._fields))
    if said.batch is None:
        said = said._replace(batch=batch)
    return said if said.ram_gigabytes is not None else said._replace(ram_gigabytes=memory and round(memory / 1e9, 1))


def items_of(tables: Tables) -> tuple[float, int]:
    """Return (natural bytes of an item, items of an epoch) of the data that was measured."""
    corpus = tables["dataset"]["corpus"]
    return natural_bytes(corpus), corpus["items"][SPLIT]


def able_of(tables: Tables, row: Row) -> Able:
    """Return what is known of a result that has a speed."""
    sizes = {one["format"]: one["bytes"] / one["items"] for one in tables["formats"] if one["bytes"] and one["items"]}
    objects = {one["tier"] for one in tables["tiers"] if one["kind"] == OBJECTS}  # their data is no local file
    rate = (row["steady_items_per_second"] or row["items_per_second"]) if bare(row) else None
    item_ms, batch = rate and 1000 / rate, row["batch_size"]
    slower = row["items_per_second"] / (row["interval_low"] or row["items_per_second"])
    off = row["step_check_points"] is not None and abs(row["step_check_points"]) > CHECKED_POINTS
    fed = None if off else feeding_of(row)
    own = tables["dataset"]["config"]["report"]["step_ms"]  # of the session, whatever is asked for now
    tried = row["step_au_from"] == TRIED and (batch, own, row["step_au_percent"])
    return Able(
        item_ms,
        item_ms and item_ms * slower,
        fed and fed.wait.times(1 / batch),
        row["step_loss"] or 0.0,
        1000 * (row["epoch_start_seconds"] or 0.0) if row["steady_items_per_second"] else 0.0,
        None if row["tier"] in objects else sizes.get(row["format"]),
        holds_everything(tables, row),
        row["pss_peak_bytes"] or 0,
        _cold_item_ms(tables, row),
        _storage_item_ms(tables, row),
        tried or None,
    )


def _cold_item_ms(tables: Tables, row: Row) -> float | None:
    """Return what an item takes where the same settings were measured on the same tier from a cold cache."""
    same = (name for name in row if name not in ("cache", "slug"))
    wanted = {name: row[name] for name in same if name in _SAME}
    for one in with_speed(tables["ranking"]):
        if one["cache"] == "cold" and all(one[name] == value for name, value in wanted.items()):
            return 1000 / (one["steady_items_per_second"] or one["items_per_second"])
    return None


_SAME = ("loader", "tier", "device", "size", "task", "step_ms", "batch_size", "workers", "prefetch", "world", "options")


def _storage_item_ms(tables: Tables, row: Row) -> float | None:
    """Return the least time in which the row's tier gives an item of its format, by reads at random."""
    rates = [
        one["items_per_second"]
        for one in tables["bounds"]
        if (one["bound"], one["tier"]) == ("storage", row["tier"])
        and row["format"] in (one["formats"] or "").split(", ")
    ]
    return 1000 / max(rates) if rates else None


def answers(tables: Tables, rows: list[Row]) -> dict[str, tuple[Able, Answer]]:
    """Return what each result is able to, and what it gives to the user's own training, by the results' names."""
    if not rows or not tables["dataset"]["corpus"]:
        return {}
    natural, items = items_of(tables)
    found = {}
    for row in rows:
        able = able_of(tables, row)
        found[row["id"]] = able, able.answer(yours_of(tables, row["batch_size"]), natural, items)
    return found
