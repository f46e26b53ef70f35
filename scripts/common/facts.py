"""What sessions found out: a folder a session, a record a result and round. Nothing deletes or overwrites one.

    results/runs/DATASET/sessions/main-1/session.json                   its results, and how far it came
    results/runs/DATASET/sessions/main-1/relied-on.json                 on what each result relied when it began
    results/runs/DATASET/sessions/main-1/TIER/LOADER/SLUG/result.json   what all records of the result have in common
    results/runs/DATASET/sessions/main-1/TIER/LOADER/SLUG/3.json        round 3; 3.attempt-0.json was disturbed
    results/runs/DATASET/sessions/main-1/TIER/LOADER/SLUG/trials-0.json  what explains its speed; the latest counts
    results/runs/DATASET/sessions/main-1/TIER/LOADER/SLUG/steps-0.json   what training steps gave; the latest counts
    results/runs/DATASET/sessions/main-1/bounds/GROUP/SLUG/31.json      control runs, the second of round 3

A session is shown where it holds what the plan asks for, measured as the plan asks for it, and with it all that
measured the same on the same machine (`measure.sessions`), whose rounds have numbers of their own. Any other is kept,
counted and told of.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from scripts.common.errors import reading
from scripts.common.files import read_json, write_json
from scripts.common.vocabulary import NO_TIME, NOT_LEADING, PROTOCOL

Record = dict[str, Any]
STATE, BASES, COMMON = "session.json", "relied-on.json", "result.json"
TRIALS, STEPS = "trials-", "steps-"
# Keys of a record that one result.json holds for all rounds of a result in a session, where they are the same.
SAME = ("record", "dataset", "loader", "tier", "format", "split", "location", "task", "cache", "step_ms", "slug")
SAME += ("settings", "threads", "items", "item_bytes", "declared", "proof", "emulated", "protocol", "host", "versions")
SAME += ("commit", "mode", "started_by", "order", "lifetime", "transformed")


def sessions_folder(root: Path, dataset: str) -> Path:
    """Return the folder of all sessions of a data set."""
    return root / "results" / "runs" / dataset / "sessions"


def relied_on(row: Mapping[str, Any], proof: Mapping[str, Any], root: Path = Path()) -> dict[str, Any]:
    """Return what the runs of a result rely on: what was proven, and how the plan has it measured.

    Runs that rely on something else do not compare. A proof that is made again of the same is the same; but not of a
    file of the user's own, which may import what nobody watches. Paths start from `root`.
    """
    limited = {"limited_share": row["limited_share"]} if row["cache"] == "limited" else {}
    stepped = {"host_share": row["host_share"]} if row["step_ms"] else {}
    stepped |= {"transform": row["transform"]} if row.get("transform") else {}
    written = root / f"{row['written']}.json"
    made = read_json(written) if row["written"] and written.is_file() else {}
    verified = proof["verification"]
    differs = {}
    if "largest_difference" in verified:
        differs = {"differs_by": verified["largest_difference"], "may_differ_by": verified["allowed_difference"]}
    return {
        **differs,
        **stepped,
        **({"proven": proof["started"]} if row["file"] else {}),
        **{key: row[key] for key in ("seconds", "epochs", "threads")},
        "storage": _hash({"location": row["location"], "emulate": row["emulate"], **limited}),
        "format": [row["format"], row["format_version"], made.get("files")],
        "loader": row["version"],
        "checksums": proof.get("checksums_hash"),
        "versions": proof["declared"]["versions"],
        "protocol": PROTOCOL,
    }


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


class Session:
    """The facts of one session: its folder, and what session.json says of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._common: dict[str, Record] = {}
        with reading(folder / STATE, "run_session"):
            self.state: Record = read_json(folder / STATE)
            self.name: str = self.state["name"]
            self.number: int = self.state["number"]
            self.results: Mapping[str, str] = self.state["results"]  # the hash of what each relies on, by id

    @cached_property
    def bases(self) -> Mapping[str, Record]:
        """On what each result relied when the session began."""
        with reading(self.folder / BASES, "run_session"):
            return read_json(self.folder / BASES)

    def common(self, result: str) -> Record:
        """Return what all records of a result have in common; empty before the first."""
        if result not in self._common:
            path = self.folder / result / COMMON
            with reading(path, "run_session"):
                self._common[result] = read_json(path) if path.is_file() else {}
        return self._common[result]

    def rounds(self, result: str) -> dict[int, Path]:
        """Return the records of a result that count, by round and in their order: no attempts that were made again."""
        found = {int(file.stem): file for file in (self.folder / result).glob("*.json") if file.stem.isdigit()}
        return dict(sorted(found.items()))

    def trials(self, result: str, kind: str = TRIALS) -> Path | None:
        """Return the latest record of what explains a result's speed, or of its trials with STEPS; or None."""
        found = {int(file.stem.removeprefix(kind)): file for file in (self.folder / result).glob(f"{kind}*.json")}
        return found[max(found)] if found else None

    def record(self, result: str, path: Path) -> Record:
        """Return a record of a result, whole."""
        with reading(path, "run_session"):
            found = read_json(path)
        common = self.common(result)
        return {**{key: common[key] for key in SAME if key in common}, **found}

    def note(self, result: str, path: Path, record: Mapping[str, Any]) -> None:
        """Write a record of a result, without what the first one of the session said too."""
        if not (self.folder / result / COMMON).is_file():
            write_json(self.folder / result / COMMON, {key: record[key] for key in SAME if key in record})
            self._common.pop(result, None)
        common = self.common(result)
        own = {key: value for key, value in record.items() if key not in common or common[key] != value}
        write_json(path, own)

    def say(self, **state: Any) -> None:
        """Note how far the session came."""
        self.state |= state
        write_json(self.folder / STATE, self.state)

    @property
    def finished(self) -> bool:
        """Whether it came to its end, if only before it was made longer."""
        return "finished" in self.state

    @property
    def same(self) -> tuple[Any, ...]:
        """What sessions have in common that measured the same: name, results with what these rely on, machine."""
        return self.name, self.results, self.state["machine"]

    @property
    def records(self) -> int:
        """How many records of rounds it holds."""
        return sum(len(self.rounds(result)) for result in self.results)


def wrong_data(record: Mapping[str, Any]) -> bool:
    """Return whether a run failed since it delivered something else than what was proven."""
    return record["status"] == "failed" and bool((record["verification"] or {}).get("problems"))


def left_out(row: Mapping[str, Any], session: Session) -> str | None:
    """Return the code of why a session that ended has no run of a result; None where it has, or should have.

    It had no time for it, or what it depends on does not lead.
    """
    if not session.state["ended"] or session.rounds(row["id"]):
        return None
    if row["id"] in session.state.get("no_time", ()):
        return NO_TIME
    needed = row.get("if_leads")
    asked = needed and (session.rounds(needed) or needed in session.state.get("no_time", ()))
    return NOT_LEADING if asked else None


def trials_name(before: Path | None, kind: str = TRIALS) -> str:
    """Return the name of the record of this kind that comes after the trials `before`."""
    return f"{kind}{int(before.stem.removeprefix(kind)) + 1 if before else 0}.json"


def begin(root: Path, dataset: str, name: str, bases: Mapping[str, Record], machine: Mapping[str, Any]) -> Session:
    """Return a new session, with a folder of its own, of the results that rely on `bases`, by id."""
    folder = sessions_folder(root, dataset)
    folder.mkdir(parents=True, exist_ok=True)
    number = max((_number(path) for path in folder.iterdir()), default=0) + 1
    own = folder / f"{name}-{number}"
    own.mkdir()
    write_json(own / BASES, dict(bases))
    state = {"name": name, "number": number, "results": hashes(bases), "machine": dict(machine)}
    failures = failures_of(root, dataset, name)
    write_json(own / STATE, {**state, "protocol": PROTOCOL, "spent": 0.0, "ended": "", "failures": failures})
    return Session(own)


def _number(folder: Path) -> int:
    number = folder.name.rpartition("-")[2]
    return int(number) if number.isdigit() else 0


def sessions(root: Path, dataset: str) -> list[Session]:
    """Return all sessions of a data set, in the order in which they began."""
    found = [Session(path.parent) for path in sessions_folder(root, dataset).glob(f"*/{STATE}")]
    return sorted(found, key=lambda session: session.number)


def failures_of(root: Path, dataset: str, name: str) -> int:
    """Return how many runs have failed by the machine in all sessions of a name, so far.

    Where it has grown since a session was made, Snakemake makes that again, which tries them once more.
    """
    return max((one.state["failures"] for one in sessions(root, dataset) if one.name == name), default=0)


class Bases:
    """What each result of a plan relies on, by its proof as it is now."""

    def __init__(self, plan: Mapping[str, Any], root: Path) -> None:
        self.plan, self.root = plan, root
        self._proofs: dict[str, Record | None] = {}

    def proof(self, row: Mapping[str, Any]) -> Record | None:
        """Return the proof of a row; None where there is none."""
        path = self.root / row["proof"]
        if row["proof"] not in self._proofs:
            with reading(path, "run_loader"):
                self._proofs[row["proof"]] = read_json(path) if path.is_file() else None
        return self._proofs[row["proof"]]

    def of(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return what a row's runs rely on; None where it has no proof that went well."""
        proof = self.proof(row)
        if not proof or proof["status"] != "ok":
            return None
        with reading(self.root / row["proof"], "run_loader"):
            return relied_on(row, proof, self.root)

    def among(self, results: Iterable[str]) -> dict[str, Record]:
        """Return what each of these results relies on, of those that are proven."""
        rows = {row["id"]: row for row in self.plan["results"]}
        found = {result: self.of(rows[result]) for result in results}
        return {result: basis for result, basis in found.items() if basis is not None}

    def hashes(self, results: Iterable[str]) -> dict[str, str]:
        """Return the hash of what each of these results relies on, of those that are proven."""
        return hashes(self.among(results))


def hashes(bases: Mapping[str, Record]) -> dict[str, str]:
    """Return a hash of each of what results rely on, by id."""
    return {result: _hash(basis) for result, basis in bases.items()}


def matching(session: Session, hashes: Mapping[str, str]) -> set[str]:
    """Return which results a session holds just as they are asked for: those whose hashes are the same."""
    return {result for result, own in hashes.items() if session.results.get(result) == own}


def shown(found: Collection[Session], hashes: Mapping[str, str]) -> list[Session]:
    """Return the sessions whose results are shown, in their order; none where none has any of those asked for.

    It is that with most of those asked for; of such the largest, of these one that came to its end, then the latest.
    With it come all that measured the same and came to their end.
    """

    def order(session: Session) -> tuple[int, int, bool, int]:
        return len(matching(session, hashes)), len(session.results), session.finished, session.number

    best = max(found, key=order, default=None)
    if best is None or not matching(best, hashes):
        return []
    return [one for one in found if one is best or (one.finished and one.same == best.same)]


def shown_by_group(plan: Mapping[str, Any], root: Path, of: Collection[str] | None = None) -> dict[str, list[Session]]:
    """Return {group: sessions} of what is shown of the plan's results, or of those in `of`."""
    bases, found = Bases(plan, root), sessions(root, plan["dataset"])
    groups: dict[str, list[str]] = {}
    for row in plan["results"]:
        if of is None or row["id"] in of:
            groups.setdefault(row["group"], []).append(row["id"])
    chosen = {group: shown(found, bases.hashes(results)) for group, results in groups.items()}
    return {group: sessions for group, sessions in chosen.items() if sessions}


def kept(plan: Mapping[str, Any], root: Path, current: Collection[Session]) -> Iterator[dict[str, Any]]:
    """Yield what is kept and not shown: each other session, how many records it has, and what is different in it."""
    bases = Bases(plan, root)
    rows = {row["id"]: row for row in plan["results"]}
    folders = {session.folder for session in current}
    for session in sessions(root, plan["dataset"]):
        if session.folder not in folders and (records := session.records):
            different = {key for result in session.results for key in _different(session, result, rows, bases)}
            different |= _machine_differs(session, current)
            yield {"session": session.folder.name, "runs": records, "different": sorted(different)}


def _machine_differs(session: Session, current: Collection[Session]) -> set[str]:
    """Return what of a session's machine no session in `current` has."""
    machine = session.state["machine"]
    return {key for key in machine if current and all(one.state["machine"][key] != machine[key] for one in current)}


def _different(session: Session, result: str, rows: Mapping[str, Mapping[str, Any]], bases: Bases) -> Iterator[str]:
    """Yield on what a session's result relies that is another thing now; `result`, where the plan has it no more."""
    before, now = session.bases[result], bases.of(rows[result]) if result in rows else None
    if now is None:
        yield "result"
    else:
        yield from (key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
