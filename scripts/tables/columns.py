"""Every column of every table, declared once: its type, where its value is from, how a report shows it, what it is.

CSV files are written and read by these declarations, reports take their headings and number formats from them, and
`python -m scripts.tables.write_docs` makes docs/tables.md of them. A column with a heading among those of `runs` is
shown in the report's table of all runs, so that a record's field becomes a column by one line here (docs/extending.md).
"""

import csv
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from scripts.common import settings
from scripts.common.counting import run_of
from scripts.common.errors import UserError, reading
from scripts.common.files import read_json
from scripts.common.scenarios import panel_of
from scripts.common.text import bytes_text, number_text, percent_text
from scripts.common.vocabulary import (
    BOUNDS,
    CACHES,
    CHECKS,
    COMPARED_KEYS,
    ITEM_PARTS,
    LIFETIMES,
    ORDERS,
    PARTS,
    PHASES,
    REASONS,
    SHARING,
    SIZES,
    TASKS,
    Term,
)
from scripts.tables import records

Record = Mapping[str, Any]


_FORMATS = {int: "{:,}", float: number_text, bool: lambda value: "yes" if value else "no", str: "{}"}


@dataclass(frozen=True)
class Column:
    """One column of a table.

    `of` says where the value is from: ``record: before.load_1m`` is that field of the record of a run, a tier or a
    format (None where it is not there), ``plan: tier`` one of the plan's entry, ``settings: workers`` a setting; a
    function gets the record. In the tables of results it is a column of the ok runs, of results with a speed, and
    `over_runs` says what is made of their values: ``median`` or ``largest``. Without `of` the module of the table works
    it out. `format` is a format string or a function that returns text.
    """

    name: str
    type: type = str
    of: str | Callable[[Record], Any] = ""
    heading: str = ""
    format: str | Callable[[Any], str] = ""
    doc: str = ""
    over_runs: str = ""

    def value(self, **sources: Any) -> Any:
        """Return the value from its source, None where that is absent or has nothing there."""
        if callable(self.of):
            return None if sources["record"] is None else self.of(sources["record"])
        source, _, path = self.of.partition(": ")
        found = sources[source]
        for key in path.split("."):
            found = found.get(key) if isinstance(found, Mapping) else None
        return found

    def parsed(self, text: str) -> Any:
        """Return what a cell of a CSV file says, None for a blank one that is no text. Raises ValueError for others."""
        if self.type is str:
            return text
        if not text:
            return None
        return {"true": True, "false": False}[text] if self.type is bool else self.type(text)

    def shown(self, value: Any) -> str:
        """Return the value as the report shows it; nothing for None."""
        if value is None:
            return ""
        how = self.format or _FORMATS[self.type]
        return how(value) if callable(how) else how.format(value)

    @property
    def is_number(self) -> bool:
        """Whether reports set it to the right."""
        return self.type in (int, float)


class Table(NamedTuple):
    """One CSV file: what a row is, and its columns."""

    doc: str
    columns: tuple[Column, ...]


def _seconds(value: float) -> str:
    return f"{number_text(value)} s"


def _milliseconds(value: float) -> str:
    return f"{number_text(value, 2)} ms"


def _unless_cold(key: str) -> Callable[[Record], Any]:
    """Return where `key` of what a run used is from. That of a cold run holds constructing a loader for each epoch."""
    return lambda record: (record.get("resources") or {}).get(key) if record["cache"] != "cold" else None


def _faults_per_batch(record: Record) -> float | None:
    faults = _unless_cold("minor_faults")(record)
    batches = sum(len(epoch.get("batch_items") or ()) for epoch in records.timed_epochs(record))
    return None if faults is None or not batches else faults / batches


def _an_epoch(key: str) -> Callable[[Record], Any]:
    """Return where `key` of what a run used is from, for as many items as the split has."""

    def value(record: Record) -> float | None:
        used = (record.get("resources") or {}).get(key)
        items = sum(sum(epoch.get("batch_items") or ()) for epoch in records.timed_epochs(record))
        return used / items * record["items"] if used and items else None

    return value


def _words(terms: Mapping[str, Term]) -> str:
    return "; ".join(f"`{key}`: {term.about.replace('; ', ', ')}" for key, term in terms.items())


_SHARED = {
    column.name: column
    for column in (
        Column("loader", of="plan: loader", heading="Loader", doc="name of the loader"),
        Column("tier", of="plan: tier", heading="Tier", doc="storage tier"),
        Column("emulated", bool, "plan: emulated", doc="whether its reads are slowed down to emulate other storage"),
        Column("format", of="plan: format", heading="Format", doc="format that the loader reads"),
        Column("task", of="plan: task", heading="Task", doc=_words(TASKS)),
        Column("cache", of="plan: cache", heading="Cache", doc=_words(CACHES)),
        Column("step_ms", float, "plan: step_ms", doc="emulated training step after each batch, in ms; 0: none"),
        Column("size", of="plan: size", heading="Data", doc=_words(SIZES)),
        *(
            Column(name, settings.type_of(name), f"settings: {name}", row.column, doc=row.about)
            for name, row in settings.TABLE.items()
            if row.column is not None
        ),
        Column("slowest_rank_items_per_second", float, "record: ranks.slowest_items_per_second", "Slowest rank",
               doc="its items/s; `items_per_second` is that of all ranks together; blank of one process"),
        Column("rank_spread_percent", float, "record: ranks.spread_percent", "Spread of ranks", percent_text,
               "by how much the fastest rank is faster than the slowest"),
        Column("sharing", of="record: ranks.sharing", heading="Ranks together", doc=_words(SHARING)),
        Column("repeated_items", int, "record: ranks.repeated", "Repeated",
               doc="items of an epoch that came again, over all ranks"),
        Column("differs_by", float, "record: proof.differs_by", "Decoded otherwise", "{:g}",
               "the largest difference from the corpus's decoder, of 255; blank: bit-identical"),
        Column("may_differ_by", float, "record: proof.may_differ_by", "Allowed", "{:g}",
               "the tolerance of a single value, of 255; on average a sixth of it is allowed"),
        Column("missing_items", int, "record: ranks.missing", "Left out", doc="items of an epoch that came on no rank"),
        Column("cores_of_rank", int, lambda record: len(((record.get("ranks") or {}).get("cores") or [()])[0]) or None,
               "Cores a rank", doc="cores that each rank was pinned to"),
        Column("options", of="settings: options", doc="all other settings, as a JSON object"),
        Column("slug", of="plan: slug", heading="Settings", doc="settings and scenario as a file name"),
        Column("runs", int, heading="Runs", doc="runs with a speed that count"),
        Column("items_per_second", float, heading="Items/s", doc="of the mean round"),
        Column("lowest", float, doc="the slowest run, in items/s"),
        Column("highest", float, heading="Lowest to highest", doc="the fastest run, in items/s"),
        Column("interval_low", float,
               doc="in items/s: 95 % interval by the scatter of its own runs; blank of fewer than three"),
        Column("interval_high", float, doc="its upper end"),
        Column("session", of="plan: session", doc="folder of the session that made the run"),
        Column("repeat", int, "plan: repeat", heading="Round", doc="number of the round of the run, from 0; sessions "
               "that measure the same go on counting"),
        Column("status", heading="Status", doc="`ok`, `failed`, `missing` (no record) or `skipped`"),
        Column("reason", doc="why there is no value, or a remark"),
        Column("reason_code", doc="why there is no speed, as in `runs.csv`"),
        Column("warnings", int, heading="Warnings", doc="number of warnings"),
        Column("au_percent", float, "record: au_percent", "AU", percent_text,
               "accelerator utilisation: the share of the time that training steps took"),
        Column("first_batch_seconds", float, "record: times.first_batch_seconds", "First batch", _seconds,
               "until the first batch, from before construction"),
        Column("cpu_seconds_per_1000_items", float, _unless_cold("cpu_seconds_per_1000_items"), "CPU a 1,000 items",
               _seconds, "CPU time of the process tree, the consumer included; blank of a cold cache"),
        Column("cores_used", float, _unless_cold("cores"),
               doc="cores that the process tree kept busy on average, of a training over its validations too"),
        Column("pss_peak_bytes", int, "record: memory.pss_peak_bytes", "Memory", bytes_text,
               "peak of the process tree's PSS, which counts a page that processes share once"),
        Column("pss_per_worker_peak_bytes", int, "record: memory.pss_per_worker_peak_bytes", "Largest worker",
               bytes_text, "the same of the largest worker"),
        Column("private_peak_bytes", int, "record: memory.pss_private_peak_bytes", "Private memory", bytes_text,
               "its part that is private and of no file; peaks of parts may be of different moments"),
        Column("shared_peak_bytes", int, "record: memory.pss_shared_peak_bytes", "Shared memory", bytes_text,
               "its part that processes share, such as batches of workers, data on tmpfs included"),
        Column("file_peak_bytes", int, "record: memory.pss_file_peak_bytes", "File pages", bytes_text,
               "its part that is mapped pages of files, which the page cache holds anyway"),
        Column("memory_samples", int, "record: memory.samples", "Memory readings",
               doc="of the process tree's resident memory within the timed part"),
        Column("threads_peak", int, "record: memory.threads_peak", "Threads", "{}", "most threads of the process tree"),
        Column("loader_threads", int, "record: resources.loader_threads", doc="threads that worked for the loader in "
               "the timed part, those of its worker processes included: each used 0.5 % of a core, and was not there "
               "before the loader was opened; blank of several ranks"),
        Column("open_files_peak", int, "record: memory.open_files_peak", "Open files", "{}",
               "most open files of the process tree"),
        Column("faults_per_batch", float, _faults_per_batch, "Faults a batch", doc="page faults served from memory, of "
               "the process tree, in a batch: new memory costs one for each page; blank of a cold cache"),
        Column("requests_per_epoch", float, _an_epoch("requests"), "Requests an epoch", number_text,
               "to object storage with an emulated latency or bandwidth; else blank"),
        Column("answer_bytes_per_epoch", float, _an_epoch("answer_bytes"), "Bytes an epoch", bytes_text,
               "of the answers to them"),
        Column("works_outside", bool, doc="whether others were at work beside every run of the result, and not beside "
               "most others: something that is no process of its own works for it, and its CPU time is not in the row"),
        Column("transform_random", bool, "record: transformed.random", doc="whether an item may come out otherwise"),
        Column("transform_size", float, "record: transformed.size", doc="bytes of a transformed item by those before"),
        Column("transformed_in", of="record: transformed.in", heading="Transformed in", doc="`worker`: item by item in "
               "a worker process; `process`: in that of the training; `device`: in whole batches on the GPU"),
        Column("check", of="record: declared.check", doc="what items of a user's own are held to "
               f"({_words(CHECKS)}); blank: exact"),
        Column("piece", of="record: declared.piece", doc="of recordings, how a piece is read: `sought`, or "
               "`whole`: the recording is decoded from its beginning to its end, and cut"),
        Column("batch_lifetime", of="record: lifetime", doc=f"as the proof found it: {_words(LIFETIMES)}"),
        Column("order_declared", of="record: declared.order", doc="`random`, or how the loader says its order is made"),
        Column("order_measured", of="record: order.measured", doc=_words(ORDERS)),
        Column("order_spread_percent", float, "record: order.spread_percent", doc="how far apart in the data set items "
               "are that come one after the other, of what a random order gives: 100"),
        Column("order_neighbours_percent", float, "record: order.neighbours_percent",
               doc="how many that come one after the other follow each other in the data set"),
        Column("order_repeated_percent", float, "record: order.repeated_percent", doc="how many that come one after "
               "the other were as near in an epoch before, beyond chance"),
        Column("megabytes_per_second", float, heading="MB/s", doc="payload, in 10^6 bytes"),
        Column("ceiling_items_per_second", float, records.ceiling, "In-memory ceiling",
               doc="of the consumer alone, right before and after the timed window; blank if not measured"),
        Column("steady_items_per_second", float, "record: steady_items_per_second", "Steady items/s",
               doc="without epoch starts"),
        Column("epoch_start_seconds", float, "record: epoch_start_seconds", "Epoch start", _seconds,
               "how much longer the start of an epoch takes than a batch"),
    )
}  # fmt: skip


def _shared(names: str) -> tuple[Column, ...]:
    return tuple(_SHARED[name] for name in names.split())


def _of_runs(how: str, names: str) -> tuple[Column, ...]:
    """Return columns of a result that are the median or the largest of those of its ok runs."""
    return tuple(replace(one, of=one.name, over_runs=how, doc=f"{one.doc}; the {how}") for one in _shared(names))


_RESULT = _shared(f"loader tier emulated format {' '.join((*COMPARED_KEYS, *settings.IN_COLUMNS))} options slug")
_NAMES = _shared("loader tier slug")
_SPREAD = _shared("runs items_per_second lowest highest")
OF_DECODERS = ("differs_by", "may_differ_by")  # columns of results whose images a decoder of its own makes
OF_RANKS = (  # columns of results of several processes
    *("slowest_rank_items_per_second", "rank_spread_percent", "one_rank_times_world", "sharing_loss_percent"),
    *("sharing", "repeated_items", "missing_items", "cores_of_rank"),
)
OF_ORDER = "order_declared order_measured order_spread_percent order_neighbours_percent order_repeated_percent"
_RANKING = (
    Column("rank", int, heading="Rank", doc="within one scenario: 1 + the results that are significantly "
           "faster; blank without a speed, or with a single run"),
    Column("rank_high", int, doc="the number of results less those that are significantly slower"),
    *_RESULT,
    *_shared(f"batch_lifetime {OF_ORDER} runs"),
    Column("failed", int, doc="runs that failed; one takes the speed from the result"),
    replace(_SHARED["items_per_second"], doc="as of the mean round"),
    *_shared("lowest highest interval_low interval_high"),
    Column("bound", doc="name of the lowest bound that applies"),
    Column("bound_items_per_second", float, doc="that bound"),
    Column("percent_of_bound", float, heading="Of the bound", format=percent_text, doc="the speed as a share of it"),
    Column("times_slower_than_best", float, heading="Times slower", doc="than the best of the scenario"),
    Column("slower_low", float, doc="its interval, by ratios within rounds; blank for the best itself"),
    Column("slower_high", float, doc="its upper end"),
    *_of_runs("median", "au_percent"),
    Column("batch_ms", float, heading="A batch takes", format=_milliseconds, doc="at the steady rate, in ms"),
    Column("step_wait_ms", float, doc="what remains of it beside a long training step, by trials; blank: not tried"),
    Column("step_short_wait_ms", float, doc="what remains beside a short one, at most"),
    Column("step_short_ms", float, doc="the short step: as long as a batch"),
    Column("step_long_ms", float, doc="the long step: four batches, and at least 20 ms"),
    Column("step_loss", float, doc="the share of a training step that the loader loses; from a batch to the next it "
           "takes max(batch + loss * step, step + wait), with the wait on the line between these steps"),
    Column("step_check_points", float, doc="AU that follows from these less the AU of a trial with another step, "
           "in points; beyond 3 either way AU is uncertain"),
    Column("minimum_step_ms", float, heading="Minimum step", format=_milliseconds,
           doc="the shortest training step at which AU is 90 %, as it follows from these; blank: not tried"),
    Column("step_au_percent", float, heading="AU at your step", format=percent_text,
           doc="AU at `report.step_ms`; blank: not tried"),
    Column("step_au_low", float, doc="its lower end, by the speed's interval"),
    Column("step_au_from", doc="`tried`: a trial had this step; `model`: it follows from trials with other steps, or "
           "on another tier"),
    Column("bottleneck", heading="Bottleneck", doc="the part (as in `parts.csv`) that costs the most time; `waiting` "
           "of a training whose AU is below 90 %; `item`: the lines of a user's own Dataset; `none`: no part takes "
           "10 % of the time; `unclear`: none costs significantly more than the noise and every other part; blank: not "
           "measured"),
    Column("bottleneck_percent", float, format=percent_text, doc="its share of the time"),
    Column("evidence", heading="Evidence", doc="in words"),
    Column("item_ms", float, heading="An item takes", format=_milliseconds,
           doc="in one process, of a user's own Dataset; blank: not known"),
    Column("item_parts", doc=f"what that goes to ({_words(ITEM_PARTS)}); blank: not known"),
    Column("item_line", doc="the costliest part, its share and its costliest line; or why no items were run by line"),
    Column("outliers", int, doc="runs farther than 3 scaled MADs and 5 % from the median; blank below 5 runs"),
    Column("disturbed", int, doc="those of `runs` that something else slowed down"),
    Column("left_out", int, doc="ok runs that do not count, since others disturbed them too much"),
    Column("sessions", int, heading="Sessions", doc="sessions that `runs` are of; intervals of several are over them"),
    Column("between_sessions_percent", float, heading="Between sessions", format="{:.1f} %", doc="standard deviation "
           "of its speed between sessions, beside the others and beyond the scatter of rounds; blank of one session"),
    Column("all_between_sessions_percent", float, doc="the same of all results of the scenario together"),
    *_of_runs("median", "first_batch_seconds cpu_seconds_per_1000_items cores_used faults_per_batch"),
    replace(_SHARED["steady_items_per_second"], of="", doc="`items_per_second` without epoch starts: times the median "
            "of what that made of a run"),
    *_of_runs("median", "epoch_start_seconds ceiling_items_per_second"),
    *_of_runs("largest", "pss_peak_bytes private_peak_bytes shared_peak_bytes file_peak_bytes"),
    *_of_runs("largest", "pss_per_worker_peak_bytes threads_peak loader_threads open_files_peak"),
    *_of_runs("largest", "works_outside transformed_in transform_random transform_size check piece"),
    *_of_runs("median", "requests_per_epoch answer_bytes_per_epoch"),
    *_of_runs("median", "slowest_rank_items_per_second rank_spread_percent"),
    *_of_runs("largest", "sharing repeated_items missing_items cores_of_rank differs_by may_differ_by"),
    Column("one_rank_times_world", float, heading="One rank times ranks",
           doc="items/s of one process with the same settings, times the ranks; blank if not measured"),
    Column("sharing_loss_percent", float, heading="Lost by sharing", format=percent_text,
           doc="by how much all ranks together are slower than that"),
    *_shared("status reason reason_code warnings"),
    Column("about", doc="the loader's own description"),
)  # fmt: skip
TABLES = {
    "runs": Table("One row per run, and one for each result without a run.", (
        *_RESULT,
        *_shared("transformed_in transform_random transform_size check piece batch_lifetime"),
        *_shared(f"{OF_ORDER} session repeat"),
        replace(_SHARED["status"], of="record: status"),
        replace(_SHARED["reason"], of=records.reason_of),
        replace(_SHARED["reason_code"], of="record: reason_code", doc=_words(REASONS)),
        replace(_SHARED["items_per_second"], of="record: items_per_second",
                doc="the rate of whole epochs with one start each; of a run that takes whole epochs: all items over "
                "all seconds"),
        Column("construct_seconds", float, "record: times.construct_seconds", doc="constructing the loader"),
        *_shared("first_batch_seconds steady_items_per_second epoch_start_seconds ceiling_items_per_second"),
        Column("started_by", of="record: started_by", doc="`fork` of a warm process, or a new `interpreter`"),
        Column("attempt", int, "record: attempt", doc="of the run, from 0; a later one follows a disturbed one"),
        Column("verify_seconds", float, "record: times.verify_seconds", doc="the epoch that compares every item"),
        Column("epoch_gap_seconds", float, records.epoch_gap, doc="between two epochs, the median"),
        Column("epochs", int, lambda record: len(records.timed_epochs(record)), doc="timed epochs"),
        Column("items", int, "record: items", doc="items of the split"),
        replace(_SHARED["megabytes_per_second"], of=records.payload),
        Column("epochs_seconds", float, records.epochs_seconds, doc="of all timed epochs together"),
        *_shared("au_percent"),
        Column("validation_seconds", float, "record: training.validation_seconds", doc="validations of a training"),
        Column("last_loss", float, "record: training.last_loss", doc="of a training"),
        *_shared("cpu_seconds_per_1000_items cores_used"),
        Column("read_bytes", int, _unless_cold("read_bytes"), doc="read from devices; blank of a cold cache"),
        Column("minor_faults", int, _unless_cold("minor_faults"), doc="page faults served from memory"),
        Column("major_faults", int, _unless_cold("major_faults"), doc="page faults that waited for a device"),
        *_shared("faults_per_batch pss_peak_bytes private_peak_bytes shared_peak_bytes file_peak_bytes"),
        *_shared("memory_samples pss_per_worker_peak_bytes threads_peak loader_threads open_files_peak"),
        *_shared("requests_per_epoch answer_bytes_per_epoch slowest_rank_items_per_second rank_spread_percent"),
        *_shared("sharing repeated_items missing_items cores_of_rank differs_by may_differ_by"),
        Column("gpu_utilisation_mean_percent", float, "record: memory.gpu_utilisation_mean_percent",
               doc="of the timed epochs, by NVML; blank where they are shorter than the second that it looks back"),
        Column("gpu_memory_peak_bytes", int, "record: memory.gpu_memory_peak_bytes", doc="of the timed epochs"),
        replace(_SHARED["warnings"], of=lambda record: len(record["warnings"])),
        Column("disturbed", bool, records.disturbed, "Disturbed",
               doc="whether something else slowed the run down; `warnings.csv` says what"),
        Column("disturbed_percent", float, lambda record: run_of(record).disturbed_percent,
               doc="of the cores that the run may use: used by other processes, or withheld by the hypervisor"),
        Column("counts", bool, doc="whether it has a speed that counts: others did not disturb it too much"),
        *_shared("works_outside"),
        Column("started", of="record: started", heading="Started", doc="UTC"),
    )),
    "ranking": Table("One row per result, grouped by scenario, the fastest first.", _RANKING),
    "best": Table("The fastest row of `ranking.csv` for each loader, tier and scenario.", _RANKING),
    "formats": Table("One row per format: what writing it took.", (
        replace(_SHARED["format"], of="plan: format"),
        Column("seconds", float, "record: seconds", "Seconds", doc="writing all items, once"),
        Column("bytes", int, "record: bytes", "Size", bytes_text, "of all files"),
        Column("files", int, "record: files", "Files", doc="number of files"),
        Column("fits_cache", bool, heading="Fits caches", doc="whether the measured split fits into the last-level "
               "caches of the cores allowed; blank: unknown"),
        Column("items", int, "record: items", "Items", doc="of both splits"),
        replace(_SHARED["items_per_second"], of="record: items_per_second", doc="written"),
    )),
    "stages": Table("One row per stage of the preparation: fetching, decoding, each format, each copy on a tier.", (
        Column("stage", heading="Stage", doc="`fetch` from the source; `decode` to the corpus, resampling included; "
               "`write` a format; `place` a copy on a tier"),
        _SHARED["format"],
        _SHARED["tier"],
        Column("jobs", int, heading="Jobs", doc="of the workflow, of which several may run at once"),
        Column("seconds", float, heading="Seconds", doc="of all jobs together"),
        Column("cpu_seconds", float, heading="CPU seconds", doc="the same on the processor; blank: not measured"),
        Column("bytes", int, heading="Size", format=bytes_text, doc="of all files, linked ones included"),
    )),
    "tiers": Table("One row per storage tier: what it is, and its speed by fio, or by raw GETs of object storage.", (
        *_shared("tier emulated"),
        Column("path", of="record: path", heading="Path", doc="folder of the tier"),
        Column("tier_kind", of="plan: tier_kind", heading="Tier's kind", doc="a file in `scripts/tiers/`"),
        Column("kind", of="record: kind", heading="Device's kind", doc="such as nvme, hdd, network, virtual or ram"),
        Column("filesystem", of="record: filesystem", heading="File system", doc="as the kernel names it"),
        Column("device", of="record: device", heading="Device", doc="block device"),
        Column("model", of="record: model", doc="of the device"),
        Column("rotational", bool, "record: rotational", doc="whether the device says that it rotates"),
        Column("scheduler", of="record: scheduler", doc="of the device's queue"),
        Column("sequential_megabytes_per_second", float, "record: fio.sequential.megabytes_per_second", "In sequence",
               lambda value: f"{number_text(value)} MB/s", "one reader, in blocks of 1 MiB"),
        Column("random_items_per_second", float, "record: fio.random.items_per_second", "At random",
               lambda value: f"{number_text(value)} items/s", "one reader, or one GET in flight, in blocks of an item"),
        Column("random_latency_ms", float, "record: fio.random.mean_latency_ms", "Latency",
               lambda value: f"{number_text(value)} ms", "mean of such a read"),
        *_shared("warnings"),
        replace(_SHARED["reason"], of="record: reason", doc="why it was not measured"),
    )),
    "bounds": Table(
        "What the hardware allows. `in_memory` depends on device and batch size, `storage` on tier, readers and "
        "format, `decode` on the candidate. The compute bound of a result is in `ranking.csv` only.", (
        Column("bound", doc=_words(BOUNDS)),
        *_shared("device batch_size tier"),
        Column("formats", heading="Formats", doc="formats whose items have this size, separated by commas"),
        Column("readers", int, heading="Readers", doc="number of readers at once"),
        Column("pool_bytes", int, doc="of an in-memory ceiling: the batches that it streams"),
        Column("fits_cache", bool, doc="whether these fit into the last-level caches; blank: unknown"),
        *_shared("loader slug"),
        *_SPREAD,
    )),
    "tensors": Table("One row per way of moving tensors.", (
        Column("operation", doc="`create`, `copy`, `one`, `many` or `send`; `all` of a measurement that has none"),
        Column("method", heading="Way", doc="how it is made"),
        *_shared("device"),
        Column("items", int, heading="Items at once", doc="moved at once"),
        *_SPREAD,
        *_shared("megabytes_per_second"),
        Column("times_slower", float, heading="Times slower",
               doc="than the fastest of the same move, device and items; blank for a way that delivers nothing"),
        *_shared("status reason"),
    )),
    "training": Table("Trainings by loader, tier and settings, in a bare loop and by Lightning.", (
        *_NAMES,
        *_shared("device batch_size"),
        Column("bare_items_per_second", float, heading="Bare items/s", doc="median in the bare loop"),
        Column("lightning_items_per_second", float, heading="Lightning items/s", doc="median by Lightning"),
        Column("lightning_cost_percent", float, heading="Lightning's cost", format="{:+.1f} %",
               doc="how much longer an item takes by Lightning"),
        Column("cost_low", float, format="{:+.1f} %", doc="its 99 % interval"),
        Column("cost_high", float, format="{:+.1f} %", doc="its upper end"),
        Column("bare_au_percent", float, heading="Bare AU", format=percent_text, doc="AU in the bare loop"),
        Column("lightning_au_percent", float, heading="Lightning AU", format=percent_text, doc="AU by Lightning"),
        Column("bare_runs", int, heading="Runs", doc="runs in the bare loop"),
        Column("lightning_runs", int, doc="runs by Lightning"),
    )),
    "seconds": Table(
        "The table of TensorDict's report. It needs the same number of epochs in all runs: set `measure.epochs` to a "
        "number.", (
        *_NAMES,
        Column("epochs", int, doc="of each run"),
        Column("read_runs", int, doc="runs of the task `iterate`"),
        Column("read_mean_seconds", float, heading="Traverse", doc="mean of the seconds of all epochs of a run"),
        Column("read_deviation_seconds", float, doc="standard deviation; blank for one run"),
        Column("train_runs", int, doc="runs of the task `lightning`"),
        Column("train_mean_seconds", float, heading="Train", doc="mean of the seconds of all epochs of a run"),
        Column("train_deviation_seconds", float, doc="standard deviation; blank for one run"),
    )),
    "parts": Table("What each part of a loader's work costs: the time that leaving it out saves.", (
        *_NAMES,
        Column("part", doc=_words(PARTS)),
        Column("percent", float, format="{:.0f} %", doc="of the time; parts overlap"),
        Column("items_per_second_without", float, doc="blank for what cannot be left out"),
    )),
    "item_lines": Table(
        "Which line of a user's own Dataset an item's time goes to, the most expensive first. Some items run line by "
        "line in one process, after the proof.", (
        *_NAMES,
        Column("file", doc="from the folder of the user's file; blank where no line of theirs was at work"),
        Column("line", int, doc="its number"),
        Column("code", doc="its text"),
        Column("function", doc="that it is in"),
        Column("part", doc=_words(ITEM_PARTS)),
        Column("percent", float, format="{:.0f} %", doc="of an item's time, what the line calls in libraries included"),
        Column("ms", float, doc="the same in milliseconds of an item"),
    )),
    "ladder": Table("One row per step of the ladder.", (
        Column("step", int, heading="Step", doc="from 1"),
        Column("change", heading="What changes", doc="the change from the step below"),
        *_NAMES,
        *_shared("runs items_per_second interval_low interval_high"),
        Column("times_faster", float, heading="Times the step below",
        doc="over the last step below that has a speed"), Column("faster_low", float, doc="its 99 % interval"),
        Column("faster_high", float, doc="its upper end"),
        Column("times_faster_than_first", float, heading="Times the first", doc="over the first step"),
        *_shared("status reason"),
    )),
    "latencies": Table("How long batches took to arrive: quantiles over all batches of a result's ok runs.", (
        *_NAMES,
        Column("batches", int, heading="Batches", doc="all of the result but the first of each epoch"),
        Column("percent", float, doc="of the batches arrived within that time"),
        Column("milliseconds", float, doc="after the previous batch, including its consumption"),
    )),
    "spans": Table("What each process of a run did with its first batches.", (
        *_NAMES,
        Column("track", doc="the process: `main`, `worker 0`, ..."),
        Column("batch", int, doc="number of the batch"),
        Column("phase", doc=", ".join(f"`{phase}`" for phase in PHASES)),
        Column("start_ms", float, doc="from the beginning of the epoch"),
        Column("end_ms", float, doc="the same"),
    )),
    "break_even": Table("One row per device, tier and format: after how many epochs its conversion has paid.", (
        *_shared("device tier format loader slug"),
        Column("prepare_seconds", float, heading="To write", format=_seconds, doc="writing the format, once"),
        Column("epoch_seconds", float, heading="An epoch", format=_seconds, doc="by its fastest warm result"),
        Column("against_format", heading="Against", doc="the format that is cheapest to prepare"),
        Column("against_loader", doc="its fastest loader"),
        Column("against_prepare_seconds", float, format=_seconds, doc="writing that format"),
        Column("against_epoch_seconds", float, format=_seconds, doc="an epoch of it"),
        Column("break_even_epochs", float, heading="Pays after", doc="0: cheaper and faster than the next cheapest"),
        replace(_SHARED["reason"], doc="why there is no such number: the cheapest itself, slower, or not significant"),
    )),
    "transforms": Table("What a transform costs where it is at work, and when storing what it makes has paid.", (
        *_shared("device transform"),
        Column("way", heading="Where", doc="as `transformed_in`; `ahead`: stored, and read as the fastest loader reads "
               "without a transform, at least"),
        *_shared("loader tier slug items_per_second"),
        Column("step_au_percent", float, heading="AU at your step", format=percent_text, doc="blank: not tried"),
        Column("pays_after_epochs", float, heading="Stored, pays after",
               doc="making and storing it first takes about an epoch of this way; blank: never, or see `reason`"),
        Column("reason", doc="`random`: it cannot be stored; `larger`: its items are larger than those that were read; "
               "`not-measured`: nothing was measured without it"),
    )),
    "noise": Table("How steady the machine was: the control run of each device, batch size and session.", (
        *_shared("device batch_size"),
        Column("control_runs", int, heading="Times", doc="number of measurements"),
        Column("median_items_per_second", float, heading="Median items/s", doc="median of the measurements"),
        Column("variation_percent", float, heading="Variation", format="{:.1f} %",
               doc="standard deviation in percent of the mean"),
        Column("range_percent", float, heading="Slowest to fastest", format="{:.1f} %", doc="in percent of the median"),
        Column("drift_percent", float, heading="Later half against earlier",
               doc="the median of the later half above that of the earlier one; negative: slower; blank below 4"),
        Column("drift_seen", bool, doc="whether the halves differ significantly; blank below 4"),
        Column("hours", float, heading="Over", format="{:.1f} h", doc="from the first to the last"),
    )),
    "skipped": Table("Results that could not run.", (
        *_NAMES,
        *_shared("device"),
        Column("repeats", int, doc="runs that share the reason; blank for results that were not planned"),
        *_shared("status reason reason_code"),
    )),
    "warnings": Table("One row per warning of a run, a bound or a tier.", (
        *_NAMES,
        *_shared("repeat"),
        Column("code", doc="kind of the warning"),
        Column("seen", heading="Seen", doc="what was measured"),
        Column("cause", heading="Likely cause", doc="the likely cause"),
        Column("hint", heading="What to do", doc="what helps"),
    )),
}  # fmt: skip
COLUMNS = {name: tuple(column.name for column in table.columns) for name, table in TABLES.items()}


def taken(table: str, **sources: Any) -> dict[str, Any]:
    """Return the row of `table` as far as its columns say where they are from: `plan`, `record`, `settings`."""
    return {column.name: column.value(**sources) for column in TABLES[table].columns if column.of}


DOCUMENTS = ("dataset", "host", "declared", "verdict")  # JSON files; the verdict is made of all else
RECORDS = "records.jsonl.gz"  # beside them: every raw record of runs, bounds and tensors, one a line


def write_table(folder: Path, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write `folder`/`name`.csv with the columns of that table; a row's missing keys and None become blanks."""
    with open(folder / f"{name}.csv", "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS[name])
        for row in rows:
            table.writerow(_written(row.get(column)) for column in COLUMNS[name])


def _written(value: Any) -> Any:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else value


def read_table(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the rows of `folder`/`name`.csv, typed as their columns say; blanks that are no text as None.

    Raises UserError where the file is absent or damaged, or its columns are not those of this version.
    """
    path = _present(folder, f"{name}.csv")
    with reading(path, "make_tables", delete=folder), open(path, encoding="utf-8", newline="") as file:
        table = csv.DictReader(file)
        there = tuple(table.fieldnames or ())
        if there != COLUMNS[name]:
            more = [column for column in there if column not in COLUMNS[name]]
            less = [column for column in COLUMNS[name] if column not in there]
            differ = f"{', '.join(more) or 'none'} more, {', '.join(less) or 'none'} less"
            raise UserError(
                f"{path} has other columns than this version writes: {differ if more or less else 'in another order'}. "
                f"Delete the folder {folder}, then type the same command again."
            )
        rows = []
        for row in table:
            if None in row or None in row.values():
                raise ValueError(f"line {table.line_num} has other columns than the first")
            rows.append({column.name: column.parsed(row[column.name]) for column in TABLES[name].columns})
        return rows


def _present(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise UserError(
            f"{path} is not there. Make it: feedrate tables --plan results/runs/DATASET/plan.json --out {folder}"
        )
    return path


def read_tables(folder: Path, documents: Iterable[str] = DOCUMENTS) -> dict[str, Any]:
    """Return all tables (lists of rows) and the `documents` of `folder` by name.

    Results have an `id` and a `scenario` beside their columns, and what their loader `declared` when it was measured.
    """
    tables: dict[str, Any] = {name: read_table(folder, name) for name in COLUMNS}
    for row in (*tables["runs"], *tables["ranking"], *tables["best"]):
        row["scenario"] = panel_of(row)
    for name in documents:
        path = _present(folder, f"{name}.json")
        with reading(path, "make_tables", delete=folder):
            tables[name] = read_json(path)
    for row in (*tables["ranking"], *tables["best"]):
        row["id"] = result_key(row)
        row["declared"] = tables["declared"][row["id"]]
    return tables


def result_key(row: Mapping[str, Any]) -> str:
    """Return which result a row is: its loader, tier and settings."""
    return f"{row['loader']}/{row['tier']}/{row['slug']}"


def settings_text(row: Mapping[str, Any]) -> str:
    """Return a result's settings in words, e.g. ``batch 32, 2 workers, prefetch 2, gather=batch``."""
    common = {name: row[name] for name in settings.IN_COLUMNS}
    return settings.settings_text(common | json.loads(row["options"] or "{}"))


def in_flight(row: Mapping[str, Any]) -> int | None:
    """Return how many requests to object storage a result keeps in flight; None where its loader does not say so.

    It does by its option `in_flight` or `fetchers`, of each worker.
    """
    options = json.loads(row["options"] or "{}")
    of_each = [max(1, options[name]) for name in ("in_flight", "fetchers") if name in options]
    return of_each[0] * max(1, row["workers"] or 0) if of_each else None
