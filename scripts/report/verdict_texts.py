"""What a verdict says in words: why a result is recommended, cautions, what is lacking where there is none."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil, isfinite
from operator import itemgetter
from typing import Any, NamedTuple

from scripts.common.counting import Name
from scripts.common.statistics import CLOSE, CONFIDENCE, FEW, Comparison
from scripts.common.text import percent_text
from scripts.common.vocabulary import BOTTLENECKS, BOUNDS, RAM, RANDOM
from scripts.decide.utilisation import TARGET_AU_PERCENT
from scripts.tables.bottlenecks import LEAST_PERCENT
from scripts.tables.columns import bytes_text, number_text, settings_text

MOST_NAMED = 5  # results by name; the rest is counted
AT_BOUND = 100.0  # percent; above it a result and its bound, which both scatter, have changed places
ABOVE_BOUND = 110.0  # more than what steady machines scatter: the bound was disturbed, or the result
FEW_RUNS = "few-runs"  # the code of a caution that many results of a short session share
_AGAIN = "type the same command"
_FIXED = {  # by status: what makes a result of it
    "failed": f"fix the loader or its library, delete its records below results/runs, and {_AGAIN}",
    "missing": f"{_AGAIN}, which makes the runs that are not there",
    "skipped": f"install what is not there, or name other loaders below `loaders` in config.yaml, and {_AGAIN}",
}
RECOMMENDED, NOW, BOTH = "Recommended", "What you have now", "Recommended, and what you have now"
FIRST = "The safest of the first ones"  # of which none is recommended
LACKING = {
    "run": "The plan has no run. Name loaders below `loaders` in config.yaml, and type the same command.",
    "cold": "No run reads from a cold cache. Write `cache: [warm, cold]` below `sweep` in config.yaml (`storage` with "
    "a tier on a disk), and type the same command.",
    "memory": "No record says how much memory a run took; `pss_reason` in its `memory` says why. Fix that, delete the "
    "records below results/runs, and type the same command.",
    "step": "The tables hold no training step. Write `step_ms: 20`, or that of your model, below `report` in "
    "config.yaml, and type the same command.",
    "preparation": "No format's conversion was timed. Type snakemake --forcerun write_format.",
}

Row = Mapping[str, Any]
Tables = Mapping[str, Any]


class Caution(NamedTuple):
    """What to know before one acts on a result."""

    code: str
    text: str


def key(row: Row) -> Name:
    """Return what names a result: its loader, tier and slug."""
    return Name(row["loader"], row["tier"], row["slug"])


def place(row: Row) -> str:
    """Return which result a row is: the loader and its tier, where there is one."""
    return " on ".join(filter(None, (row["loader"], row["tier"])))


def rank_text(row: Row) -> str:
    """Return a rank interval such as ``1-4``; a dash for a single run."""
    if row["rank"] is None:
        return "-"
    return str(row["rank"]) if row["rank"] == row["rank_high"] else f"{row['rank']}-{row['rank_high']}"


def speed_text(row: Row) -> str:
    """Return a result's speed, its share of the bound, and what the bottleneck is, in two or three sentences."""
    return f"{number_text(row['items_per_second'])} items/s ({_between(row)}){_of_bound(row)}. {bottleneck_text(row)}"


def bottleneck_text(row: Row) -> str:
    """Return what a result's bottleneck is, or why it has none, in a sentence."""
    if not row["bottleneck"]:
        why = "it is looked for in candidates (`measure.bottlenecks`) whose loader has parts that can be left out"
        return f"The bottleneck is not known: {why}."
    if row["bottleneck"] == "none":
        return f"No part of its work takes {LEAST_PERCENT:g} % of the time."
    if row["bottleneck"] == "unclear":
        return "The bottleneck is inconclusive: no part stands out for sure."
    share = percent_text(row["bottleneck_percent"])
    return f"Bottleneck: {BOTTLENECKS[row['bottleneck']].text} ({share} of the time)."


def _of_bound(row: Row) -> str:
    if not row["bound"]:
        return ""
    share = f"{percent_text(row['percent_of_bound'])} of {BOUNDS[row['bound']].text}"
    where = bound_text(row["percent_of_bound"])
    return f", {where} ({share}: both scatter)" if where else f", {share}"


def bound_text(percent: float) -> str:
    """Return in words where a result stands that has passed its bound; empty for one below it."""
    return "" if percent <= AT_BOUND else "at the bound" if percent <= ABOVE_BOUND else "above the bound"


def runs_text(row: Row) -> str:
    """Return how many runs a speed is of, such as ``2 runs``: said where these are too few for an interval."""
    return "1 run" if row["runs"] == 1 else f"{row['runs']} runs"


def interval_text(row: Row, between: str = " to ") -> str:
    """Return the ends of a speed's interval; where there is none, of how many runs it is."""
    if row["interval_low"] is None:
        return runs_text(row)
    return f"{number_text(row['interval_low'])}{between}{number_text(row['interval_high'])}"


def _between(row: Row) -> str:
    if row["interval_low"] is None:
        return "a single run" if row["runs"] == 1 else runs_text(row)
    return f"{100 * CONFIDENCE:g} % interval {interval_text(row)} of {row['runs']} runs"


def choice_text(verdict: Mapping[str, Any]) -> str:
    """Return in words which of the three forms a verdict by speed has: use one, equal ones, or too noisy to choose."""
    names = [place(row) for row in (verdict["row"], *verdict["ties"])]
    most = most_text(verdict)
    if verdict["form"] == "use":
        return f"use {names[0]}" + (f": {most}" if most else "")
    if verdict["form"] == "equal":
        within = ceil(100 * (verdict["behind"] - 1))
        return f"{_listed(names, 'or')}: equal here (within {within} %), the first is cheapest"
    certain = verdict["certain"] or "nothing between them is certain; measure longer"
    safest = f"; the safest is {names[0]} ({most})" if most else ""
    return f"too noisy to choose among {_listed(names, 'and')}{safest}. Certain: {certain}"


def most_text(verdict: Mapping[str, Any]) -> str:
    """Return how much faster than what a verdict by speed names another result may be; empty where that is unknown."""
    times = verdict["behind"]
    if not verdict["ties"] or times is None or not isfinite(times):
        return ""
    if times >= 2:
        most = f"{number_text(ceil(10 * times) / 10 if times < 10 else ceil(times), 2)} times as fast"
    else:
        most = f"{ceil(100 * (times - 1))} % faster"
    fed = "it feeds your step, and " if verdict["form"] == "use" and times > CLOSE else ""
    return f"{fed}nothing is more than {most}"


def contrasted(verdict: Row) -> list[tuple[str, Row]]:
    """Return (what it is, its row) of the result that a verdict by speed names first, and of what one has now."""
    if verdict["row"] is None:
        return []
    had = verdict["against"] and verdict["against"]["row"]
    if had and key(had) == key(verdict["row"]):
        return [(BOTH, had)]
    first = FIRST if verdict["form"] == "noisy" else RECOMMENDED
    return [(first, verdict["row"]), *([(NOW, had)] if had else [])]


def _listed(names: Sequence[str], last: str) -> str:
    shown = list(names[:MOST_NAMED]) + ([f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else [])
    return f" {last} ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]


def against_text(found: Comparison, row: Row, had: Row) -> str:
    """Return how a result's speed compares with that of `had`, which the user has now."""
    if found.low is None or found.high is None:
        single = 1 in (row["runs"], had["runs"])
        why = "a single run tells nothing" if single else "they share too few rounds to be compared"
        return f"{number_text(found.ratio)} times the speed of {place(had)}, which you have now; but {why}."
    low, high = (1 / found.high, 1 / found.low) if found.slower else (found.low, found.high)
    between = times_text(low, high)
    if found.faster or found.slower:
        return f"{between} {'faster' if found.faster else 'slower'} than {place(had)}, which you have now."
    return f"Not distinguishable in speed from {place(had)}, which you have now ({between})."


def times_text(low: float, high: float) -> str:
    """Return the interval of a ratio of speeds, such as ``1.20 to 1.40 times``."""
    return f"{number_text(low)} to {number_text(high)} times"


def _taking(tables: Tables, row: Row) -> str:
    """Return what a result's format takes, such as ``328 MB as memmap``; empty where it was not written."""
    size = next((one["bytes"] for one in tables["formats"] if one["format"] == row["format"]), None)
    return f"{bytes_text(size)} as {row['format']}" if size else ""


def cautions(tables: Tables, row: Row) -> Iterator[Caution]:
    """Yield what one has to know before one acts on a result, each as one or two sentences."""
    if row["declared"]["preloads"]:
        peak = row["pss_peak_bytes"] and f"{bytes_text(row['pss_peak_bytes'])} with all else at its peak (PSS)"
        took = "".join(f", {what}" for what in (_taking(tables, row), peak) if what)
        text = f"{row['loader']} holds the whole set in memory{took}: the set must fit, and storage has no part in it."
        yield Caution("preloads", text)
    if not in_random_order(row):
        order = row["declared"]["order"]
        text = f"{row['loader']}'s order is not quite random: {order}. Note it where neighbours in a shard are alike."
        yield Caution("order", text)
    if in_memory(tables, row["tier"]):
        took = f" ({taken})" if (taken := _taking(tables, row)) else ""
        text = f"The files on {row['tier']} are in memory{took}, beside what the loader takes: they must fit."
        yield Caution("in-memory", text)
    if row["emulated"]:
        text = f"{row['tier']}: reads were slowed down to those of other storage, which this machine does not have."
        yield Caution("emulated", text)
    if row["task"] == "iterate":
        text = "A plain loop need not read its batches: a model that does may get them more slowly."
        yield Caution("plain-loop", text)
    now = asked(tables, "now")
    if now and not had_now(tables, row):
        text = f"{now}, which `report.now` in config.yaml names, has no verified speed under these conditions."
        yield Caution("now-unmeasured", text)
    if row["runs"] == 1:
        yield Caution("single-run", f"A single run of {place(row)} says little.")
    elif row["runs"] < FEW:
        yield Caution(FEW_RUNS, f"{row['runs']} runs of {place(row)} say little.")
    yield from _doubts(row)


def au_text(au: float | None) -> str:
    """Return AU in percent; what misses the target does not read as if it had it: 89.9 % at the most."""
    if au is None or au >= TARGET_AU_PERCENT or au < TARGET_AU_PERCENT - 0.5:
        return percent_text(au)
    return f"{min(au, TARGET_AU_PERCENT - 0.1):.1f} %"


def least_au_text(row: Row) -> str:
    """Return the AU of a result at the user's own step, with its lower end where that alone misses the target."""
    low = row["step_au_low"]
    uncertain = low is not None and low < TARGET_AU_PERCENT <= row["step_au_percent"]
    return au_text(row["step_au_percent"]) + (f", at least {au_text(low)}" if uncertain else "")


def given_text(row: Row, answer: Any) -> str:
    """Return the AU that keeps a result from feeding the user's own step: `answer`, that of another batch or data than
    was measured (report/model.py) and None of the same, or what it has at the step with what was measured.
    """
    if answer is None or answer.sustains:
        return least_au_text(row)
    if answer.au is None:
        return "your data does not fit into memory" if answer.source == "does not fit" else "of your data it is unknown"
    return f"{answer.au_text} with your batch and data"


def starving(row: Row, step_ms: float, feeding: Row | None, answer: Any) -> Caution:
    """Return what to know of a result that does not feed the user's own step; `feeding`: the fastest that does."""
    slower = feeding and feeding["items_per_second"] < row["items_per_second"]
    other = f" {place(feeding)} does{', though it reads more slowly' if slower else ''}." if feeding else ""
    wanted = f"your step of {step_ms:g} ms at {TARGET_AU_PERCENT:g} % AU"
    return Caution("starves", f"{place(row)} does not surely feed {wanted}: {given_text(row, answer)}.{other}")


def _doubts(row: Row) -> Iterator[Caution]:
    if row["reason"]:
        yield Caution("reason", f"{place(row)}: {row['reason']}.")
    if row["disturbed"]:
        were = f"{row['disturbed']} of {row['runs']} runs of {place(row)}"
        yield Caution("disturbed", f"Other programs used the CPU during {were}.")
    if row["left_out"]:
        other = "1 other run does" if row["left_out"] == 1 else f"{row['left_out']} other runs do"
        them = "it" if row["left_out"] == 1 else "them"
        yield Caution("left-out", f"{other} not count: other programs took more of the CPU from {them}.")
    more = (row["warnings"] or 0) - (row["disturbed"] or 0)
    if more > 0:
        other = " other" if row["disturbed"] else ""
        count = f"1{other} warning" if more == 1 else f"{more}{other} warnings"
        text = f"The runs of {place(row)} gave {count}, which the report lists under Warnings."
        yield Caution("warnings", text)


def unusual_settings(row: Row) -> str:
    """Return a result's settings in words, without the loader's own options that are as they are by default."""
    defaults = row["declared"]["options"]
    options = json.loads(row["options"] or "{}")
    kept = {name: value for name, value in options.items() if name not in defaults or defaults[name] != value}
    return settings_text({**row, "options": json.dumps(kept)})


def in_random_order(row: Row) -> bool:
    """Return whether the loader's epochs were permutations of all items."""
    return row["declared"]["order"] == RANDOM


def in_memory(tables: Tables, tier: str) -> bool:
    """Return whether the files of a tier, by its name in the tables, are in memory."""
    return any(one["tier"] == tier and re.fullmatch(RAM, one["filesystem"] or "") for one in tables["tiers"])


def kind_of(tables: Tables) -> str:
    """Return the kind of the tables' data."""
    return ((tables["dataset"]["corpus"] or {}).get("sample") or {}).get("kind", "audio")


def asked(tables: Tables, key: str) -> Any:
    """Return what the config says below `report`."""
    return tables["dataset"]["report"].get(key)


def had_now(tables: Tables, row: Row) -> Row | None:
    """Return the best result in the row's scenario of the loader that `report.now` names, or None."""
    now = asked(tables, "now")
    rows = [one for one in tables["best"] if (one["scenario"], one["loader"]) == (row["scenario"], now)]
    return max((one for one in rows if one["items_per_second"]), key=lambda one: one["items_per_second"], default=None)


def no_speed(rows: Sequence[Row]) -> str:
    """Return what results (at least one) without any verified speed need."""
    counts = {status: sum(row["status"] == status for row in rows) for status in _FIXED}
    found = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    first = next(row for status in counts for row in rows if row["status"] == status)
    why = f" ({place(first)}: {first['reason']})" if first["reason"] else ""
    return f"No loader has a verified speed: {found}{why}. To go on, {_FIXED[first['status']]}."


def no_rival(rows: Iterable[Row]) -> str:
    """Return what a ranking needs in which one loader alone has a speed; an empty string where there are several."""
    loaders = {row["loader"] for row in rows if row["items_per_second"]}
    if len(loaders) > 1:
        return ""
    return (
        f"{loaders.pop()} alone has a verified speed, so there is nothing to compare it with. Name others below "
        "`loaders` in config.yaml, and type the same command."
    )


_LONGER = "Try more workers (`sweep.workers`) or a faster tier, or say in `report.step_ms` how long your model takes."


def no_feeder(rows: Iterable[Row], step_ms: float, answers: Sequence[Any]) -> str:
    """Return what is lacking where none of the ok rows is known to sustain a step of `step_ms`; `answers`: of each, as
    `given_text` has them.
    """
    rows = list(rows)
    none = f"No loader surely sustains a step of {step_ms:g} ms"
    pairs = list(zip(answers, rows, strict=True))
    known = [(row["step_au_percent"] if answer is None else answer.au, answer, row) for answer, row in pairs]
    known = [one for one in known if one[0] is not None]
    if known:
        _, answer, closest = max(known, key=itemgetter(0))
        if answer:
            return f"{none}; nearest is {place(closest)}: {given_text(closest, answer)}."
        said = f"{place(closest)} with {least_au_text(closest)} AU ({closest['step_au_from']})"
        return f"{none}; nearest is {said}. {_LONGER}"
    if of_yours := [(answer, row) for answer, row in pairs if answer]:
        answer, first = of_yours[0]
        return f"{none}: {given_text(first, answer)}."
    found = [row for row in rows if row["minimum_step_ms"] is not None]
    if not found:
        return (
            f"No loader was tried with a step of {step_ms:g} ms. Write `steps: all` below `measure` in config.yaml, "
            "and type the same command."
        )
    nearest = min(found, key=lambda row: row["minimum_step_ms"], default=None)
    which = f"; nearest is {place(nearest)} with {number_text(nearest['minimum_step_ms'])} ms" if nearest else ""
    return f"No loader sustains a step of {step_ms:g} ms{which}. {_LONGER}"
