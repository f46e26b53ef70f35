"""What the user's own model asks of a loader, and which of the measured results can give it.

The page's form does the same arithmetic for other numbers (report/template/model.js); a test holds both together.
"""

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Any, NamedTuple

from scripts.common import sample
from scripts.common.text import bytes_text, number_text
from scripts.common.vocabulary import OBJECTS
from scripts.decide.utilisation import TARGET_AU_PERCENT, TRIED, Feeding, bare, feeding_of
from scripts.report.verdict_texts import asked, au_text, in_memory

MOST_NAMED = 6  # loaders in a sentence; the rest is counted

Row = Mapping[str, Any]
Tables = Mapping[str, Any]


class Model(NamedTuple):
    """What the user has: batch and step of the training, data as it is stored, memory, and what storage gives."""

    batch: int
    step_ms: float
    gigabytes: float | None  # None: the data fits into memory
    ram_gigabytes: float | None
    storage_mbps: float | None

    @property
    def items_per_second(self) -> float:
        """That the training takes."""
        return 1000 * self.batch / self.step_ms


class Unit(NamedTuple):
    """What the data consists of: the bytes of an item by type, as delivered and, where that differs, as it is
    stored.
    """

    sizes: tuple[tuple[str, int], ...]  # (type, bytes); the last one is as it is stored
    data: str  # what the stored data is called

    @property
    def stored_bytes(self) -> int:
        """The bytes of a stored item."""
        return self.sizes[-1][1]


def unit_of(corpus: Mapping[str, Any]) -> Unit:
    """Return what the data of a corpus consists of."""
    item = sample.from_json(corpus["sample"])
    sizes = ((item.dtype, item.bytes), (item.stored, item.stored_bytes))
    named = {"audio": "16-bit samples", "image": "decoded images"}
    return Unit(sizes if item.dtype != item.stored else sizes[:1], named.get(item.kind, f"arrays of {item.stored}"))


class Candidate(NamedTuple):
    """What the arithmetic needs to know of a result: items/s without epoch starts, seconds of one, bytes of an item."""

    rate: float | None  # None: it was measured with a step, ranks or nothing read; what the loader gives is not known
    fed: Feeding | None  # of batches that take as long as at that rate; None: it was not tried with steps
    batch: int  # items of a batch that was measured
    item_bytes: float | None  # as its format has them
    keeps: bool  # the whole data set in memory, by its tier or by itself
    measured: tuple[int, float, float] | None = None  # batch, step in ms, AU in percent that was tried

    def answer(self, model: Model, stored_bytes: int, items: int) -> "Answer":
        """Return what it gives to a model whose data has `stored_bytes` an item as stored; `items` were measured.

        Data that does not fit into memory is read from storage in each epoch: no faster than that gives. Larger data
        has longer epochs, in which their start weighs less.
        """
        if self.rate is None or self.fed is None:
            return Answer(None, None, "unknown")
        size = (self.item_bytes or stored_bytes) / stored_bytes
        large = bool(model.gigabytes and model.ram_gigabytes and model.gigabytes * size > model.ram_gigabytes)
        if large and (self.keeps or not model.storage_mbps or not self.item_bytes):
            return Answer(None, None, "does not fit" if self.keeps else "unknown")
        limit = 1e6 * model.storage_mbps / self.item_bytes if large else None
        rate = min(self.rate, limit) if limit else self.rate
        if self.measured and not large and not model.gigabytes and self.measured[:2] == (model.batch, model.step_ms):
            return Answer(rate, self.measured[2], "memory")
        epoch = 1e9 * model.gigabytes / stored_bytes if model.gigabytes else items
        fed = self.fed.of(model.batch / self.batch, ceil(epoch / model.batch))
        slower = fed._replace(batch_ms=max(fed.batch_ms, 1000 * model.batch / rate))
        return Answer(rate, slower.au_percent(model.step_ms), "storage" if limit and limit < self.rate else "memory")


class Answer(NamedTuple):
    """What a result gives to a model: items/s, AU in percent, and what it comes from (`memory`, `storage`)."""

    rate: float | None
    au: float | None
    source: str  # or why there is none: `does not fit`, `unknown`

    @property
    def sustains(self) -> bool | None:
        """Whether it feeds the model; None where that is unknown."""
        return None if self.source == "unknown" else self.au is not None and self.au >= TARGET_AU_PERCENT

    @property
    def au_text(self) -> str:
        """AU as text."""
        return au_text(self.au)


def model_of(tables: Tables, batch: int) -> Model:
    """Return what the config says of the user's model; what it leaves out is the batch and the machine measured."""
    hosts = tables["host"]["hosts"]
    memory = hosts[0]["host"].get("memory_bytes") if hosts else None
    disks = [
        row["sequential_megabytes_per_second"]
        for row in tables["tiers"]
        if row["sequential_megabytes_per_second"] and not in_memory(tables, row["tier"]) and not row["emulated"]
    ]
    return Model(
        asked(tables, "batch") or batch,
        asked(tables, "step_ms") or 20.0,
        asked(tables, "gigabytes"),
        asked(tables, "ram_gigabytes") or (memory and round(memory / 1e9, 1)),
        asked(tables, "storage_mbps") or (disks[0] if disks else None),
    )


def candidate(row: Row, tables: Tables) -> Candidate:
    """Return what is known of a result that has a speed."""
    sizes = {one["format"]: one["bytes"] / one["items"] for one in tables["formats"] if one["bytes"] and one["items"]}
    objects = {one["tier"] for one in tables["tiers"] if one["kind"] == OBJECTS}  # the storage asked for is a disk
    known = Candidate(
        (row["steady_items_per_second"] or row["items_per_second"]) if bare(row) else None,
        feeding_of(row),
        row["batch_size"],
        None if row["tier"] in objects else sizes.get(row["format"]),
        bool(in_memory(tables, row["tier"]) or row["declared"]["preloads"]),
    )
    if row["step_au_from"] != TRIED:
        return known
    return known._replace(measured=(row["batch_size"], asked(tables, "step_ms"), row["step_au_percent"]))


def needs_text(model: Model, unit: Unit) -> str:
    """Return what a model asks for in a sentence."""
    need = model.items_per_second
    rates = ", ".join(f"{bytes_text(need * size)}/s as {name}" for name, size in unit.sizes)
    return f"{model.batch:,} items every {model.step_ms:,g} ms are {number_text(need)} items/s: {rates}."


def smallest(candidates: Iterable[Candidate], unit: Unit) -> float:
    """Return the bytes of an item in the smallest format that was measured, at most those of a stored item."""
    return min([float(unit.stored_bytes), *(one.item_bytes for one in candidates if one.item_bytes)])


def fits_text(model: Model, unit: Unit, least: float) -> str:
    """Return in a sentence where the data is read from in each epoch; `least`: the `smallest` bytes of an item."""
    if not model.gigabytes or not model.ram_gigabytes:
        return "The data is taken to fit into memory: after the first epoch its files are read from there."
    size = f"{model.gigabytes:,g} GB of {unit.data}"
    if model.gigabytes <= model.ram_gigabytes:
        return f"{size} fit into {model.ram_gigabytes:,g} GB: after the first epoch they are read from memory."
    text = f"{size} do not fit into {model.ram_gigabytes:,g} GB: storage is read in each epoch"
    encoded = model.gigabytes * least / unit.stored_bytes
    if encoded <= model.ram_gigabytes:
        return f"{text}, unless they are encoded: the smallest format here has {number_text(encoded)} GB of them."
    if not model.storage_mbps:
        return f"{text}, and what it gives is not known."
    most = number_text(1e6 * model.storage_mbps / least)
    return f"{text}, at {number_text(model.storage_mbps)} MB/s {most} items/s at most."


def feeds_text(answers: Iterable[tuple[str, Answer]]) -> str:
    """Return in a sentence who sustains the step, of (loader, answer)."""
    answers = list(answers)
    fed = [name for name, answer in answers if answer.sustains]
    unknown = sum(answer.sustains is None for _, answer in answers)
    shown = ", ".join(fed[:MOST_NAMED]) + (f" and {len(fed) - MOST_NAMED} more" if len(fed) > MOST_NAMED else "")
    said = f"Sustained at {TARGET_AU_PERCENT:g} % AU by {len(fed)} of {len(answers)}"
    said += f": {shown}." if fed else "."
    return f"{said} Of {unknown} it is not known." if unknown else said
