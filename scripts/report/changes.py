"""What changed since an earlier session on the same machine: what got slower, faster, is new or gone."""

from collections.abc import Iterable, Iterator, Mapping
from math import exp, log, sqrt
from statistics import mean, variance
from typing import Any, NamedTuple

from scripts.common.counting import Name
from scripts.common.errors import UserError
from scripts.common.groups import grouped
from scripts.common.text import number_text
from scripts.decide.intervals import critical
from scripts.decide.panel import key
from scripts.report.groups import machine_text
from scripts.report.others import check_items, check_protocol, data_text, same_runs
from scripts.tables.columns import settings_text

ERROR = 0.05  # the chance of any false difference in a comparison
FEWEST = 3  # runs of each session, below which nothing is concluded
SLOWER, FASTER, SAME, FEW, NEW, GONE, FAILED = "slower", "faster", "same", "few", "new", "gone", "failed"
UNMEASURED = "not measured"

Row = Mapping[str, Any]


class Change(NamedTuple):
    """How a result changed: `percent` of its speed and the interval of that, None where it has no two speeds."""

    loader: str
    tier: str
    settings: str
    scenario: str
    kind: str
    percent: float | None
    low: float | None
    high: float | None

    @property
    def text(self) -> str:
        """What it says, such as ``slower by 8 % (5 to 11)``."""
        if self.kind in (SLOWER, FASTER):
            near, far = sorted((abs(self.low), abs(self.high)))
            said = f"{self.kind} by {number_text(abs(self.percent), 2)} %"
            return f"{said} ({number_text(near, 2)} to {number_text(far, 2)})"
        if self.kind == SAME:
            return f"no change distinguishable ({_signed(self.low)} to {_signed(self.high)} %)"
        words = {FEW: "too few runs to compare", NEW: "new", GONE: "gone", FAILED: "had a speed, now failed"}
        return {**words, UNMEASURED: "had a speed, not measured now"}[self.kind]


def _signed(percent: float) -> str:
    return f"{'+' if percent > 0 else '-'}{number_text(abs(percent), 2)}"


def changes(tables: Mapping[str, Any], baseline: Mapping[str, Any]) -> list[Change]:
    """Return how each result of two sessions changed, in the order of the ranking, those that are gone last.

    Sessions share no rounds: speeds are compared as two sets of runs (Welch 1947), all results at once with an
    error of 5 % (Bonferroni). The machine itself may have changed, so a result is slower or faster only where its
    share of the in-memory ceiling, measured beside each run, says so too. Raises UserError for sessions that do not
    compare: another protocol or other data.
    """
    _check(tables, baseline)
    now, before = _results(tables), _results(baseline)
    both = [one for one in now if one in before]
    error = ERROR / max(1, len(both))
    return [
        *(_change(row, speeds, before.get(one), error) for one, (row, speeds) in now.items()),
        *(_named(row, GONE) for one, (row, speeds) in before.items() if one not in now and speeds),
    ]


def _check(tables: Mapping[str, Any], baseline: Mapping[str, Any]) -> None:
    check_protocol("--baseline", tables["host"], baseline["host"], "Measure the baseline again with this version.")
    ours, theirs = (data_text(one) for one in (tables, baseline))
    check_items("--baseline", tables, baseline)
    if ours != theirs:
        raise UserError(f"--baseline: found {theirs}, allowed is {ours}: sessions of other data do not compare.")
    if same_runs(tables, baseline):
        raise UserError(
            "--baseline: found the very runs of this session, allowed is an earlier one: nothing was measured since. "
            f"Delete results/runs/{tables['dataset']['dataset']}, and type the same command again."
        )


def machines(tables: Mapping[str, Any], baseline: Mapping[str, Any]) -> str:
    """Return what to know where two sessions were of different machines; empty where they were not."""
    ours, theirs = (machine_text(one["host"]["hosts"]) for one in (tables, baseline))
    if ours == theirs:
        return ""
    return (
        f"Another machine: the baseline is of {theirs or 'an unknown one'}, this session of {ours or 'an unknown one'}."
    )


def _results(tables: Mapping[str, Any]) -> dict[Name, tuple[Row, list[Row]]]:
    """Return the results with their runs that count; none of one without a speed."""
    runs = grouped((run for run in tables["runs"] if run["counts"]), "loader", "tier", "slug")
    return {key(row): (row, runs[key(row)] if row["items_per_second"] else []) for row in tables["ranking"]}


def _change(row: Row, runs: list[Row], was: tuple[Row, list[Row]] | None, error: float) -> Change:
    earlier = was[1] if was else []
    if not runs:
        without = FAILED if row["status"] == "failed" else UNMEASURED
        return _named(row, without if earlier else FEW)
    if not earlier:
        return _named(row, NEW)
    if min(len(runs), len(earlier)) < FEWEST:
        return _named(row, FEW)
    middle, low, high = _ratio(_logs(runs), _logs(earlier), error)
    found = [(low, high)]
    if all(run["ceiling_items_per_second"] for run in (*runs, *earlier)):
        found.append(_ratio(_logs(runs, True), _logs(earlier, True), error)[1:])
    kind = SLOWER if all(end < 0 for _, end in found) else FASTER if all(end > 0 for end, _ in found) else SAME
    return _named(row, kind, *(100 * (exp(value) - 1) for value in (middle, low, high)))


def _logs(runs: list[Row], of_ceiling: bool = False) -> list[float]:
    return [log(run["items_per_second"] / (run["ceiling_items_per_second"] if of_ceiling else 1)) for run in runs]


def _ratio(ours: list[float], theirs: list[float], error: float) -> tuple[float, float, float]:
    """Return the difference of two means and the ends of its interval."""
    parts = [variance(logs) / len(logs) for logs in (ours, theirs)]
    middle, total = mean(ours) - mean(theirs), sum(parts)
    if not total:
        return middle, middle, middle
    freedom = total**2 / sum(part**2 / (len(logs) - 1) for part, logs in zip(parts, (ours, theirs), strict=True))
    half = critical(2, max(1, int(freedom)), error) * sqrt(total)
    return middle, middle - half, middle + half


def _named(row: Row, kind: str, *numbers: float) -> Change:
    percent, low, high = numbers or (None, None, None)
    return Change(row["loader"], row["tier"], settings_text(row), row["scenario"], kind, percent, low, high)


def worse(found: Iterable[Change], limit: float) -> list[Change]:
    """Return what got significantly slower by more than `limit` percent, or lost its speed."""
    return [one for one in found if one.kind == FAILED or (one.kind == SLOWER and one.high < -limit)]


def comparison_lines(tables: Mapping[str, Any], baseline: Mapping[str, Any]) -> Iterator[str]:
    """Yield what changed since the baseline, a line a result, those of a scenario together."""
    when = (baseline["host"]["first_started"] or "an unknown day")[:10]
    yield f"Against the baseline of {when}"
    other = machines(tables, baseline)
    if other:
        yield f"  {other}"
    scenario = None
    for one in changes(tables, baseline):
        if one.scenario != scenario:
            scenario = one.scenario
            yield f"  {scenario}:"
        yield f"    {one.loader} on {one.tier} ({one.settings}): {one.text}"
