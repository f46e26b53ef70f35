"""What Lightning costs beside a bare loop, and the table of seconds to iterate and to train."""

from collections.abc import Iterable, Iterator, Mapping
from statistics import mean, stdev
from typing import Any

from scripts.common.groups import grouped
from scripts.common.settings import IN_COLUMNS
from scripts.common.vocabulary import COMPARED
from scripts.decide.rounds import compare

Row = Mapping[str, Any]
_SAME = ("loader", "tier", *IN_COLUMNS, "options")
_SECONDS = ("iterate", "lightning")  # the tasks of seconds.csv


def cost_rows(results: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Yield the rows of training.csv: of each loader, tier and settings that trained both ways, or one.

    `lightning_cost_percent` is how much longer an item takes with Lightning than in the bare loop, with its 99 %
    interval (blank where a single run allows none).
    """
    counting = (row for row in results if row["status"] == "ok" and row["task"] in COMPARED and _plain(row))
    for same in grouped(counting, *_SAME).values():
        both = {row["task"]: row for row in same}
        bare, lightning = (both.get(task) for task in COMPARED)
        yield {
            **_names(same[0]),
            **{f"bare_{key}": bare and bare[key] for key in ("items_per_second", "au_percent", "runs")},
            **{f"lightning_{key}": lightning and lightning[key] for key in ("items_per_second", "au_percent", "runs")},
            **(_cost(bare, lightning) if bare and lightning else {}),
        }


def _plain(row: Row) -> bool:
    return row["cache"] == "warm" and not row["step_ms"]


def _cost(bare: Row, lightning: Row) -> dict[str, float | None]:
    found = compare(bare["speeds"], lightning["speeds"])
    return {
        "lightning_cost_percent": 100 * (found.ratio - 1),
        "cost_low": found.low and 100 * (found.low - 1),
        "cost_high": found.high and 100 * (found.high - 1),
    }


def _names(row: Row) -> dict[str, Any]:
    slug = row["slug"].removesuffix(f"-{row['task']}")
    return {**{key: row[key] for key in ("loader", "tier", "device", "batch_size")}, "slug": slug}


def seconds_rows(runs: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Yield the rows of seconds.csv: mean and deviation over runs of the seconds that all timed epochs of a run took.

    Traversing is by the plain loop (task `iterate`), training by Lightning, as in the report of TensorDict whose table
    this is. A single run has no deviation. Only for runs of one number of epochs: where each run chose its own, seconds
    say nothing. A failed run takes the seconds from its result, as it takes the speed.
    """
    timed = (run for run in runs if (run["counts"] or run["status"] == "failed") and run["task"] in _SECONDS)
    for same in grouped(timed, *_SAME).values():
        unsound = {run["task"] for run in same if run["status"] == "failed"}
        sound = [run for run in same if run["task"] not in unsound]
        looped = [run for run in sound if run["task"] == "iterate"]
        epochs = {run["epochs"] for run in sound}
        if looped and len(epochs) == 1:
            yield {
                **_names(sound[0]),
                "epochs": epochs.pop(),
                **_mean("read", looped),
                **_mean("train", [run for run in sound if run["task"] == "lightning"]),
            }


def _mean(name: str, runs: list[Row]) -> dict[str, Any]:
    """Return the columns of `runs`, whose seconds are those of all their timed epochs."""
    seconds = [run["epochs_seconds"] for run in runs]
    return {
        f"{name}_runs": len(seconds),
        f"{name}_mean_seconds": mean(seconds) if seconds else None,
        f"{name}_deviation_seconds": stdev(seconds) if len(seconds) > 1 else None,
    }
