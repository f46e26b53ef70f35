"""Joins the rows of the plan with the facts of its sessions, checked against docs/run.schema.json."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from scripts.common.errors import UserError, reading
from scripts.common.facts import STEPS, TRIALS, Session, left_out, shown_by_group, wrong_data
from scripts.common.files import PROJECT, read_json
from scripts.common.settings import IN_COLUMNS
from scripts.common.statistics import median_of
from scripts.common.vocabulary import COMPARED_KEYS, NOT_LEADING, NOT_TRIED, SLOWER, ranks_of

DISTURBANCES = {"disturbed", "stolen-time", "throttled", "thermal", "swapping"}  # warnings' codes, of machine/host.py
SCHEMA = PROJECT / "docs" / "run.schema.json"


def read_record(path: Path) -> dict[str, Any] | None:
    """Return the record in `path`, or None where there is no such file. Raises UserError as `checked_record` does."""
    if not path.is_file():
        return None
    with reading(path, "its program"):
        record = read_json(path)
    return checked_record(record, path)


def checked_record(record: Any, path: Path) -> dict[str, Any]:
    """Return a record. Raises UserError with its file, the place in it and the fault where it breaks the schema."""
    advice = "Move the file away to have it measured again."
    kind = record.get("record") if isinstance(record, dict) else None
    if kind not in ("run", "bound", "tensors"):
        raise UserError(f"{path}: record: found {kind!r}, allowed are 'run', 'bound' and 'tensors'. {advice}")
    if error := jsonschema.exceptions.best_match(_validator(kind).iter_errors(record)):
        place = ".".join(map(str, error.absolute_path)) or "the record"
        raise UserError(f"{path}: {place}: {error.message[:300]}; see docs/run.schema.json. {advice}")
    return record


@cache
def _validator(kind: str) -> jsonschema.Draft202012Validator:
    schema = read_json(SCHEMA)
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": schema["$defs"]})


Joined = tuple[dict[str, Any], dict[str, Any] | None]  # (row of the plan, record or None where there is none)


def planned_runs(plan: Mapping[str, Any], root: Path, of: Collection[str] | None = None) -> Iterator[Joined]:
    """Yield each run of the plan's results: its rows joined with the facts of the sessions that are shown.

    These hold most of the results, or most of those in `of`.

    A result whose proof failed has that as its only run, one that was never run a row without a record; none is of
    further settings of a loader that was measured from a cold cache since it leads, and none of all items where a part
    of them was slow. What was found out about a result besides (its trials) is in the record of its first run. `repeat`
    and `path` of a row are those of its record. Raises UserError where a file holds the record of another result than
    the plan expects.
    """
    sessions = shown_by_group(plan, root, of)
    file = whole_file(plan, root)
    not_chosen = read_json(file)["left_out"] if file and file.is_file() else {}
    cold = [row for row in plan["results"] if row.get("if_leads") and row["group"] in sessions]
    led = {_same_loader(row) for row in cold if any(one.rounds(row["id"]) for one in sessions[row["group"]])}
    for row in plan["results"]:
        proof = _checked(read_record(root / row["proof"]), root / row["proof"], row, _OF_PROOF)
        if proof and proof["status"] != "ok":
            scenarios = {key: row[key] for key in ("slug", *COMPARED_KEYS)}
            yield {**row, "path": row["proof"]}, {**proof, **scenarios}
            continue
        own = sessions.get(row["group"], ())
        runs = [run for session in own for run in _runs(row, session, root)]
        reasons = {left_out(row, session) for session in own} if not runs else set()
        reason = not_chosen.get(row["id"]) or (reasons.pop() if len(reasons) == 1 else None)
        if runs:
            (first, record), *others = _explained(runs, row, own)
            lines = (proof or {}).get("item_lines")
            yield from [(first, {**record, **({"item_lines": lines} if lines else {})}), *others]
        elif not (reason == NOT_LEADING and _same_loader(row) in led) and reason != SLOWER:
            yield {**row, "left_out": reason}, None


def whole_file(plan: Mapping[str, Any], root: Path) -> Path | None:
    """Return the file that says what is measured with all items (measure/choose_whole.py); None where all is."""
    return root / "results" / "runs" / plan["dataset"] / "whole.json" if plan.get("part") else None


def _same_loader(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (*(row[key] for key in ("loader", "tier", *COMPARED_KEYS)), row["settings"]["device"])


def _runs(row: Mapping[str, Any], session: Session, root: Path) -> Iterator[Joined]:
    """Yield the runs that a session made of a result; of one that was tried again the later ones."""
    files = session.rounds(row["id"])
    records = {number: _read(session, row, file) for number, file in files.items()}
    last = max((number for number, record in records.items() if record["status"] == "ok"), default=-1)
    tried_again = {n for n, record in records.items() if n < last and record["status"] == "failed"}
    tried_again = {number for number in tried_again if not wrong_data(records[number])}
    counted = {number: record for number, record in records.items() if number not in tried_again}
    for place, (number, record) in enumerate(counted.items()):
        warnings = [*record["warnings"], *(map(_failed_before, tried_again) if place == 0 else ())]
        path = files[number].relative_to(root).as_posix()
        named = {"repeat": number, "path": path, "session": session.folder.name}
        yield {**row, **named}, {**record, "warnings": warnings}


def _read(session: Session, row: Mapping[str, Any], file: Path) -> dict[str, Any]:
    record = checked_record(session.record(row["id"], file), file)
    return _checked(record, file, row, _SAME)


def _explained(runs: list[Joined], row: Mapping[str, Any], sessions: Sequence[Session]) -> list[Joined]:
    """Return the runs of a result, the first one with what else was found out about it, in the latest session of those
    that looked.
    """
    (first, record), *others = runs
    for kind in (TRIALS, STEPS):
        looked = [(session, file) for session in sessions if (file := session.trials(row["id"], kind))]
        for session, file in looked[-1:]:
            trials = _read(session, row, file)
            failed = [_no_trials(trials)] if trials["status"] == "failed" else []
            found = {key: trials[key] for key in _OF_TRIALS if trials.get(key) is not None}
            record = {**record, **found, "warnings": [*record["warnings"], *trials["warnings"], *failed]}
    return [(first, record), *others]


def _failed_before(number: int) -> dict[str, str]:
    return {
        "code": "failed-before",
        "seen": f"its run in round {number} failed",
        "cause": "the machine: the same was measured well later on",
        "hint": "the number stands; its record says what failed",
    }


def _no_trials(trials: Mapping[str, Any]) -> dict[str, str]:
    return {
        "code": "no-trials",
        "seen": f"its speed could not be explained: {trials['reason']}",
        "cause": "the process of the trials failed",
        "hint": "the number stands; the next session tries again",
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
            "batch_items": np.asarray(epoch.get("batch_items") or [], dtype=np.int32),
            "batch_ranks": np.asarray(epoch.get("batch_ranks") or [], dtype=np.int32),
        }
        for epoch in timed_epochs(record)
    ]
    return {**{key: record.get(key) for key in _LEAN}, "times": {"epochs": epochs}}


_COMMON = ("declared", "host", "versions")
_LEAN = (*_COMMON, "loader", "tier", "slug", "repeat", "commit", "protocol", "started", "warnings", "spans")
_SAME = ("loader", "tier", "format", "slug")
_OF_PROOF = _SAME[:3]
_OF_TRIALS = ("bottleneck_trials", "steps", "spans")  # what records of trials have


def _checked(
    record: dict[str, Any] | None, path: Path, row: Mapping[str, Any], names: tuple[str, ...]
) -> dict[str, Any] | None:
    """Return a record, None where there is none. Raises UserError where it is of another result than the row."""
    for key in names if record else ():
        if record.get(key) != row[key]:
            raise UserError(
                f"{path}: {key}: found {record.get(key)!r}, the plan expects {row[key]!r}. Move the file away to have "
                "it measured again."
            )
    return record


def control_runs(plan: Mapping[str, Any], root: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of the control runs of the sessions shown, those of the same work as the latest one."""
    sessions = shown_by_group(plan, root)
    for entry in plan["bounds"]:
        of_group = sessions.get(entry["group"], ())
        records = [read_record(file) for session in of_group for file in session.rounds(entry["id"]).values()]
        latest = max(records, key=lambda record: record["started"], default=None)
        yield from (record for record in records if _work_of(record) == _work_of(latest))


def _work_of(record: Mapping[str, Any]) -> tuple[Any, ...]:
    return record["threads"], record["item_bytes"]


def tried(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows of runs without those that a broken file did not get: it is one result with one reason."""
    return [row for row in rows if row["reason_code"] != NOT_TRIED]


def setting_columns(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a row for `settings`: the common ones, and `options` as JSON for what is left."""
    options = {key: value for key, value in settings.items() if key not in IN_COLUMNS and value is not None}
    columns = {key: settings.get(key) for key in IN_COLUMNS} | {"world": ranks_of(settings)}
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
    """Return the in-memory ceiling of a run in items/s, the mean of before and after it; None of other runs."""
    found = record.get("ceiling")
    return None if found is None else (found["before"] + found["after"]) / 2


def payload(record: Mapping[str, Any]) -> float | None:
    """Return the MB/s (10^6 bytes) that a run delivered, None without a speed."""
    speed = record["items_per_second"]
    return None if speed is None else speed * record["item_bytes"] / 1e6


def timed_epochs(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the timed epochs of a run, none of one that was not timed."""
    return (record.get("times") or {}).get("epochs") or []


def epoch_gap(record: Mapping[str, Any]) -> float | None:
    """Return the median of the seconds between two epochs of a run."""
    return median_of(epoch.get("gap_seconds") for epoch in timed_epochs(record))


def epochs_seconds(record: Mapping[str, Any]) -> float | None:
    """Return the seconds of all timed epochs of a run."""
    return sum(epoch["seconds"] for epoch in timed_epochs(record)) if timed_epochs(record) else None
