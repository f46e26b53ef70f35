"""How steady the machine was: what the control run, the same work all through the session, says of noise and drift."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from statistics import mean, median, stdev
from typing import Any

from scripts.common.groups import grouped
from scripts.common.statistics import Comparison, compare
from scripts.common.text import duration_text

# Above this variation even ten runs a result miss a difference of 5 % in more than a fifth of cases: they find 99 % of
# such with 2 % noise, 78 % with 3 %, 47 % with 4 %, 27 % with 5 % (tests/common/test_statistics.py draws some of them).
NOISY_PERCENT = 3.0
FEWEST_NOISY = 3  # control runs, below which a variation is no finding
APART_HOURS = 2.0  # of the control runs of two sessions; within one they are minutes apart
FEWEST_DRIFT = 4  # two for each half
DRIFT_PERCENT = 1.0  # a drift that can be told but is smaller than this is a fact of noise.csv and no warning

Row = dict[str, Any]
_WORK = ("device", "batch_size")


def noise_rows(bounds: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return the rows of noise.csv from bounds' records: for each device and batch size one for each session with an ok
    control run. What has changed from one session to the next, some hours or days later, is no noise of either.

    `variation_percent` (standard deviation in % of the mean) and `range_percent` (in % of the median) are None for a
    single control run. `drift_percent`, the median of the later half in % above that of the earlier half, negative
    where the machine became slower, and `drift_seen`, whether that is distinguishable, are None for fewer than four.
    """
    measured = [one for one in bounds if one["bound"] == "in_memory" and one["status"] == "ok"]
    works = [{**one, **{key: one["settings"][key] for key in _WORK}} for one in measured]
    works.sort(key=lambda one: (*(one[key] for key in _WORK), _moment(one), one["repeat"]))
    return [_noise_row(part) for same in grouped(works, *_WORK).values() for part in _sessions(same)]


def _sessions(records: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Yield the records of each session, of records in order of time."""
    part: list[Mapping[str, Any]] = []
    for record in records:
        if part and (_moment(record) - _moment(part[-1])).total_seconds() > 3600 * APART_HOURS:
            yield part
            part = []
        part.append(record)
    yield part


def _moment(record: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(record["started"])


def _noise_row(records: Sequence[Mapping[str, Any]]) -> Row:
    speeds = [record["items_per_second"] for record in records]
    middle, several = median(speeds), len(speeds) > 1
    later = _later_half(speeds) if len(speeds) >= FEWEST_DRIFT else None
    return {
        **{key: records[0][key] for key in _WORK},
        "control_runs": len(speeds),
        "median_items_per_second": middle,
        "variation_percent": 100 * stdev(speeds) / mean(speeds) if several else None,
        "range_percent": 100 * (max(speeds) - min(speeds)) / middle if several else None,
        "drift_percent": later and 100 * (later[0] - 1),
        "drift_seen": later and (later[1].faster or later[1].slower),
        "hours": (_moment(records[-1]) - _moment(records[0])).total_seconds() / 3600,
    }


def _later_half(speeds: Sequence[float]) -> tuple[float, Comparison]:
    """Return the ratio of the medians of the later and the earlier half of `speeds`, in order of time, and their test.

    Of an odd number the middle one belongs to the earlier half.
    """
    cut = (len(speeds) + 1) // 2
    return median(speeds[cut:]) / median(speeds[:cut]), compare(speeds[cut:], speeds[:cut])


def warning_rows(noise: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """Yield the rows of warnings.csv that follow from rows of noise.csv: `noisy-machine` and `drift`."""
    for row in noise:
        place = {"slug": f"control run {row['device']} batch {row['batch_size']}"}
        if row["control_runs"] >= FEWEST_NOISY and row["variation_percent"] > NOISY_PERCENT:
            yield place | {
                "code": "noisy-machine",
                "seen": f"the same work, done {row['control_runs']} times in {duration_text(3600 * row['hours'])}, "
                f"varied by {row['variation_percent']:.1f} % (from slowest to fastest {row['range_percent']:.0f} %)",
                "cause": "other programs or virtual machines, changing clock frequency, heat, or several machines",
                "hint": "measure on an idle machine with a fixed clock frequency, or for longer: above "
                f"{NOISY_PERCENT:.0f} % ten runs often miss a difference of 5 %",
            }
        if row["drift_seen"] and abs(row["drift_percent"]) >= DRIFT_PERCENT:
            slower = row["drift_percent"] < 0
            yield place | {
                "code": "drift",
                "seen": f"in the later half of the session the same work was {abs(row['drift_percent']):.1f} % "
                f"{'slower' if slower else 'faster'} than in the earlier half",
                "cause": "heat, or a program that came and stayed" if slower else "a program that ended",
                "hint": "random order has spread it over all loaders, as noise; to tell small differences, measure "
                "again when the machine is steady",
            }
