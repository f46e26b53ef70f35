"""Reads the plan and the records that it lists, checked against docs/run.schema.json."""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from scripts.common.errors import UserError
from scripts.common.files import PROJECT, read_json
from scripts.common.statistics import median_of
from scripts.common.vocabulary import NOT_TRIED, RESULT_SETTINGS, ranks_of

DISTURBANCES = {"disturbed", "stolen-time", "throttled", "thermal", "swapping"}  # warnings' codes, of machine/host.py
_PLAN = (
    "dataset",
    "config",
    "runs",
    "bounds",
    "tensors",
    "skipped",
    "ladder",
    "loaders",
    "formats",
    "tiers",
    "emulated",
)
DATA_FILES = ("docs/run.schema.json",)
SCHEMA = PROJECT / "docs" / "run.schema.json"


def read_plan(path: Path) -> dict[str, Any]:
    """Return plan.json. Raises UserError where it is absent or is not a plan."""
    if not path.is_file():
        raise UserError(
            f"{path} is not there; expected is a plan. Make one: python -m scripts.plan.write_plan "
            f"--config config.yaml --out {path}"
        )
    plan = _json(path, "Delete it and run write_plan again.")
    lacking = [key for key in _PLAN if key not in plan]
    if lacking:
        raise UserError(f"{path} lacks {', '.join(lacking)}; expected is a plan. Delete it and run write_plan again.")
    return plan


def read_record(path: Path, check: bool = True) -> dict[str, Any] | None:
    """Return the record in `path`, or None where there is no such file.

    Raises UserError that names the file, the place in it and the fault where it breaks the schema, unless `check` is
    False: that takes most of the time.
    """
    if not path.is_file():
        return None
    advice = "Delete the file to have it measured again."
    record = _json(path, advice)
    kind = record.get("record") if isinstance(record, dict) else None
    if kind not in ("run", "bound", "tensors"):
        raise UserError(f"{path}: record: found {kind!r}, allowed are 'run', 'bound' and 'tensors'. {advice}")
    faults = _validator(kind).iter_errors(_without_arrivals(record)) if check else ()
    if error := jsonschema.exceptions.best_match(faults):
        place = ".".join(map(str, error.absolute_path)) or "the record"
        raise UserError(f"{path}: {place}: {error.message[:300]}; see docs/run.schema.json. {advice}")
    return record


def _json(path: Path, advice: str) -> Any:
    try:
        return read_json(path)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: found no JSON ({error}), expected is a whole JSON file. {advice}") from None


@cache
def _validator(kind: str) -> jsonschema.Draft202012Validator:
    schema = read_json(SCHEMA)
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": schema["$defs"]})


def _without_arrivals(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `record` with its long arrays cut to a few items: the tables do not use them, and there are millions."""
    times = record.get("times")
    if not isinstance(times, dict) or not isinstance(times.get("epochs"), list):
        return record
    epochs = [
        {key: value[:3] if isinstance(value, list) else value for key, value in epoch.items()}
        if isinstance(epoch, dict)
        else epoch
        for epoch in times["epochs"]
    ]
    return {**record, "times": {**times, "epochs": epochs}}


def planned_runs(plan: Mapping[str, Any], root: Path, check: str | None = None) -> Iterator[tuple[dict, dict | None]]:
    """Yield (plan entry, record or None where there is none) of each visit of the planned results; held to the schema
    are those of one loader, `check`, or all.

    A result whose proof failed has that as its only run, one that was never visited an entry without a record. What was
    found out about a result besides (trials.json) is in the record of its first visit. `repeat` and `path` of an entry
    are those of its record. Raises UserError where a file holds the record of another result than the plan expects.
    """
    for entry in plan["runs"]:
        held = check in (None, entry["loader"])
        about = ("loader", "tier", "format")
        proof = _checked(root / entry["proof"], entry, about, held) if entry.get("proof") else None
        if proof and proof["status"] != "ok":
            conditions = {key: entry[key] for key in ("slug", "task", "cache", "step_ms")}
            yield {**entry, "path": entry["proof"]}, {**proof, **conditions}
            continue
        folder = (root / entry["path"]).parent
        files = _numbered(folder)
        trials = _checked(folder / "trials.json", entry, _SAME, held) or {}
        failed = [_no_trials(trials)] if trials.get("status") == "failed" else []
        for number, file in enumerate(files):
            record = _checked(file, entry, _SAME, held)
            found = {key: trials[key] for key in _OF_TRIALS if trials.get(key) is not None} if number == 0 else {}
            more = [*trials.get("warnings", []), *failed] if number == 0 else []
            visit = {**entry, "repeat": int(file.stem), "path": file.relative_to(root).as_posix()}
            yield visit, {**record, **found, "warnings": [*record["warnings"], *more]}
        if not files:
            yield entry, None


def _no_trials(trials: Mapping[str, Any]) -> dict[str, str]:
    return {
        "code": "no-trials",
        "seen": f"what explains its speed was not found out: {trials['reason']}",
        "cause": "the process that looked for it failed",
        "hint": "the number stands; the next session looks for it again",
    }


def shared(record: dict[str, Any], seen: dict[str, Any]) -> dict[str, Any]:
    """Return a run's record whose large parts, which most runs have in common, are those of the first one `seen`."""
    there = [key for key in _COMMON if key in record]
    common = {key: seen.setdefault(json.dumps(record[key], sort_keys=True), record[key]) for key in there}
    return {**record, **common}


def lean(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the tables need of a run's record beside its row of runs.csv; arrivals and batches as arrays."""
    import numpy as np  # which who reads but names of columns does without

    epochs = [
        {
            "cache": epoch.get("cache"),
            "arrivals_seconds": np.asarray(epoch.get("arrivals_seconds") or [], dtype=float),
            "batch_clips": np.asarray(epoch.get("batch_clips") or [], dtype=np.int32),
            "batch_ranks": np.asarray(epoch.get("batch_ranks") or [], dtype=np.int32),
        }
        for epoch in timed_epochs(record)
    ]
    return {**{key: record.get(key) for key in _LEAN}, "times": {"epochs": epochs}}


_COMMON = ("declared", "host", "versions")
_LEAN = (*_COMMON, "loader", "tier", "slug", "repeat", "commit", "protocol", "started", "warnings", "spans")
_SAME = ("loader", "tier", "format", "slug")
_OF_TRIALS = ("bottleneck_trials", "minimum_step", "asked_step", "spans")  # what trials.json has


def _numbered(folder: Path) -> list[Path]:
    """Return the records that count, in the order of their numbers: no attempts, no proof."""
    return sorted((file for file in folder.glob("*.json") if file.stem.isdigit()), key=lambda file: int(file.stem))


def _checked(path: Path, entry: Mapping[str, Any], names: tuple[str, ...], held: bool) -> dict[str, Any] | None:
    """Return a record, `held` to the schema or not, or None where there is no file."""
    record = read_record(path, held)
    for key in names if record else ():
        if record.get(key) != entry[key]:
            raise UserError(
                f"{path}: {key}: found {record.get(key)!r}, the plan expects {entry[key]!r}. Delete the file to have "
                "it measured again."
            )
    return record


def control_runs(plan: Mapping[str, Any], root: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of the control runs, of all sessions that did the same work as the latest one."""
    for entry in plan["bounds"]:
        records = [*map(read_record, _numbered((root / entry["path"]).parent))]
        latest = max(records, key=lambda record: record["started"], default=None)
        yield from (record for record in records if _work_of(record) == _work_of(latest))


def _work_of(record: Mapping[str, Any]) -> tuple[Any, ...]:
    return record["threads"], record["clip_bytes"]


def tried(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows of runs without those that a broken file did not get: it is one result with one reason."""
    return [row for row in rows if row["reason_code"] != NOT_TRIED]


def setting_columns(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a row for `settings`: the common ones, and `options` as JSON for what is left."""
    options = {key: value for key, value in settings.items() if key not in RESULT_SETTINGS and value is not None}
    columns = {key: settings.get(key) for key in RESULT_SETTINGS} | {"world": ranks_of(settings)}
    return {**columns, "options": json.dumps(options, sort_keys=True) if options else ""}


def reason_of(record: Mapping[str, Any]) -> str:
    """Return why a run has no speed: its reason and what the verification found, each once."""
    if record["status"] == "ok":
        return ""
    parts = [record["reason"] or ""]
    problems = (record.get("verification") or {}).get("problems") or []
    parts += [problem for problem in problems if problem not in parts[0]]
    return "; ".join(filter(None, parts))


def disturbed(record: Mapping[str, Any]) -> bool:
    """Return whether a warning of a run says that something else slowed it down."""
    return any(warning["code"] in DISTURBANCES for warning in record["warnings"])


def ceiling(record: Mapping[str, Any]) -> float | None:
    """Return the in-memory ceiling of a visit in items/s, the mean of before and after it; None of other runs."""
    found = record.get("ceiling")
    return None if found is None else (found["before"] + found["after"]) / 2


def payload(record: Mapping[str, Any]) -> float | None:
    """Return the MB/s (10^6 bytes) that a run delivered, None without a speed."""
    speed = record["clips_per_second"]
    return None if speed is None else speed * record["clip_bytes"] / 1e6


def timed_epochs(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the timed epochs of a run, none of one that was not timed."""
    return (record.get("times") or {}).get("epochs") or []


def epoch_gap(record: Mapping[str, Any]) -> float | None:
    """Return the median of the seconds between two epochs of a run."""
    return median_of(epoch.get("gap_seconds") for epoch in timed_epochs(record))


def epochs_seconds(record: Mapping[str, Any]) -> float | None:
    """Return the seconds of all timed epochs of a run."""
    return sum(epoch["seconds"] for epoch in timed_epochs(record)) if timed_epochs(record) else None
