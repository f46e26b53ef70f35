"""How much a result's speed varies between sessions of the same, beyond the scatter of its rounds.

    python -m bench.sessions --sessions 3 --minutes 2 --json found.json

Each call measures so many sessions of a few loaders in a copy of the project, by `measure.sessions`, and adds them to
the file: that of a later day goes on with it. Needs the environment that `make` made.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scripts.common.counting import Round, Run, counting
from scripts.common.given import config_words
from scripts.decide.rounds import FINAL_ERROR, Table
from scripts.decide.sessions import between, sessions_of, table_of
from scripts.tables.columns import read_tables, result_key
from tests.support.programs import PROJECT
from tests.support.workflow_copy import LEFT_OUT, folders

WORKERS = {"soundfile": 2, "webdataset": 0, "dali_npy": 2, "numpy_memmap": 0, "lazy_memmap": 0, "ring": 2}
TABLES = Path("results", "tables", "demo")


def tables_of_copy(given: Mapping[str, Any], files: Mapping[str, str]) -> dict[str, Any]:
    """Return the tables of a copy of the project, with these `files` at its top, run with what is `given` as config.

    Raises CalledProcessError where the workflow fails.
    """
    with folders() as (disk, _):
        copy = disk / "project"
        shutil.copytree(PROJECT, copy, ignore=LEFT_OUT)
        for name, text in files.items():
            (copy / name).write_text(text)
        words = ["--quiet", "rules", "--config", *config_words(given)]
        subprocess.run([sys.executable, "-m", "snakemake", *words], cwd=copy, check=True, stdout=sys.stderr)
        return read_tables(copy / TABLES)


def measured(sessions: int, minutes: float) -> list[dict[str, Any]]:
    """Return {started, host, runs: {result: {round: [items/s, percent of the cores that others had]}}} of new sessions.

    Raises CalledProcessError where the workflow fails.
    """
    measure = {"sessions": sessions, "minutes": minutes, "bottlenecks": "none", "timeline": "none"}
    measure["attempts"] = 1  # beside others each may be disturbed: of those the analysis decides
    given = {
        "dataset": "demo",
        "storage": {"ram": None},
        "loaders": [{"name": name, "workers": [workers]} for name, workers in WORKERS.items()],
        "sweep": {"task": ["read"], "cache": ["warm"], "device": ["cpu"], "allocator": ["keep"]},
        "measure": {**measure, "profile_seconds": 0.3},
    }
    tables = tables_of_copy(given, {})
    found: dict[str, dict[str, Any]] = {}
    for run in (run for run in tables["runs"] if run["status"] == "ok"):
        session = found.setdefault(run["session"], {"started": run["started"], "runs": {}})
        session["started"] = min(session["started"], run["started"])
        made = run["items_per_second"], run["disturbed_percent"]
        session["runs"].setdefault(result_key(run), {})[str(run["repeat"])] = made
    [host] = tables["host"]["hosts"]
    about = {key: host["host"][key] for key in ("cpu", "cores_allowed", "kernel")}
    return [{**one, "host": about} for _, one in sorted(found.items())]


def together(sessions: Sequence[Mapping[str, Any]], disturbed: bool) -> dict[str, dict[Round, float]]:
    """Return {result: {round: items/s}} of all sessions, of the runs that count, or of the `disturbed` ones too."""
    found: dict[str, dict[Round, Run]] = {}
    for session in sessions:
        for result, runs in session["runs"].items():
            rounds = {Round(session["started"], int(number)): Run(*run) for number, run in runs.items()}
            found.setdefault(result, {}).update(rounds)
    if disturbed:
        return {result: {number: run.speed for number, run in runs.items()} for result, runs in found.items()}
    return {result: speeds for result, speeds in counting(found).items() if speeds}


def scatter(speeds: Mapping[Round, float]) -> float:
    """Return the standard deviation of a result's log speeds within sessions, in percent, the machine's included."""
    logs = [np.log([*one[0].values()]) for one in sessions_of({0: speeds}).values()]
    squares = sum(((one - one.mean()) ** 2).sum() for one in logs)
    return 100 * float(np.sqrt(squares / max(1, sum(len(one) - 1 for one in logs))))


def lines(sessions: Sequence[Mapping[str, Any]], disturbed: bool) -> list[str]:
    """Return what the sessions say, a line a result."""
    results = together(sessions, disturbed)
    spread, days = between(results), {session["started"][:10] for session in sessions}
    as_one, over = Table(results, FINAL_ERROR), table_of(results, FINAL_ERROR)
    said = [f"{len(sessions)} sessions on {len(days)} days: {', '.join(one['started'] for one in sessions)}"]
    for result, speeds in results.items():
        own = spread.own[result]
        between_text = "-" if own is None else f"{own:.1f} %"
        said.append(
            f"  {result}: {over.center(result).speed:,.0f} items/s, {len(speeds)} runs; "
            f"between sessions {between_text}, a run within one {scatter(speeds):.1f} %"
        )
    pooled = "-" if spread.pooled is None else f"{spread.pooled:.1f} %"
    said.append(f"between sessions, of all together: {pooled} (standard deviation)")
    told = f"by the rounds of one session {_different(as_one)}, over sessions {_different(over)}"
    return [*said, f"pairs that differ: {told}, of {len(results) * (len(results) - 1) // 2}"]


def _different(table: Table) -> int:
    """Return of how many pairs of results one is significantly faster."""
    return sum(table.compare(one, other).faster for one in table.place for other in table.place if one != other)


def main() -> None:
    """Measure sessions, add them to the file, and print what all of them say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=3, help="to be measured now; 0: print what the file says")
    parser.add_argument("--minutes", type=float, default=2.0, help="of each")
    parser.add_argument("--json", type=Path, required=True, help="file with the sessions so far; new ones are added")
    parser.add_argument("--disturbed", action="store_true", help="count runs too that others disturbed")
    arguments = parser.parse_args()
    sessions = json.loads(arguments.json.read_text()) if arguments.json.is_file() else []
    if arguments.sessions:
        sessions += measured(arguments.sessions, arguments.minutes)
        arguments.json.write_text(json.dumps(sessions, indent=1))
    if len({json.dumps(one["host"], sort_keys=True) for one in sessions}) > 1:
        sys.exit(f"error: {arguments.json}: its sessions are of several machines: keep a file for each")
    print("\n".join(lines(sessions, arguments.disturbed)))


if __name__ == "__main__":
    main()
