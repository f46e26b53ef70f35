"""Small made sessions, one for each form of an answer, and their tables."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.common.files import read_json, write_json
from scripts.common.plan_file import read_plan
from scripts.report.shown import shown_tables
from scripts.tables import make_tables
from tests.support.made_runs import Made, make_results, record_path

NOISE = [1.0, 2.2, 0.8, 2.0, 0.9, 1.1]  # of one run to the next


def runs(speed: float, count: int = 5) -> list[float]:
    """Return speeds of runs that differ by 0.1 % each, with `speed` in the middle."""
    return [speed * (1 + 0.001 * (run - (count - 1) / 2)) for run in range(count)]


def other(speed: float, count: int = 5) -> list[float]:
    """Return the same in the opposite order: within rounds they are not what `runs` are."""
    return runs(speed, count)[::-1]


def clear() -> list[Made]:
    """Return one that is the fastest, and one that is slower."""
    return [Made("a", "disk", runs(100.0)), Made("b", "disk", other(95.0))]


def equal() -> list[Made]:
    """Return two results that differ by less than a quarter, of which the slower one has no workers."""
    return [Made("a", "disk", runs(100.0)), Made("b", "disk", other(99.95), workers=0), Made("c", "disk", runs(50.0))]


def noisy() -> list[Made]:
    """Return two results whose ratio may be anything, one that is slower than both, and one that is still slower."""
    loud = {"a": NOISE, "b": NOISE[::-1]}
    made = [Made(name, "disk", [1000 * factor for factor in factors]) for name, factors in loud.items()]
    return [*made, Made("c", "disk", runs(5.0, 6)), Made("d", "disk", other(2.0, 6))]


def close() -> list[Made]:
    """Return one that is close to any other, and a cheaper one that scatters."""
    factors = [2.2, 0.9, 1.9, 1.2, 2.1, 1.1, 2.0, 1.4]
    made = [Made("a", "disk", [100 * factor for factor in factors], workers=0), Made("b", "disk", [200.0] * 8)]
    return [*made, Made("c", "disk", runs(5.0, 8))]


def single() -> list[Made]:
    """Return two results of a single run each."""
    return [Made("a", "disk", [100.0]), Made("b", "disk", [1.0])]


def nothing() -> list[Made]:
    """Return results without a speed: one failed, one was skipped, one has no record."""
    return [Made(name, "disk", [outcome]) for name, outcome in (("a", "failed"), ("b", "skipped"), ("c", None))]


def transformed() -> list[Made]:
    """Return three loaders with a transform and without: it takes most of the time, so that they are nearly alike."""
    of_read = {"a": 5000.0, "b": 1200.0, "c": 100.0}
    with_it = {"a": 160.0, "b": 150.0, "c": 80.0}
    options = {"transform": "mine", "transform_in": "worker"}
    made = [Made(name, "disk", (other if name == "b" else runs)(speed)) for name, speed in of_read.items()]
    for name, speed in with_it.items():
        made.append(Made(name, "disk", (other if name == "b" else runs)(speed), options=options))
    return made


def beside_others(root: Path) -> dict[str, Any]:
    """Return the tables of a session beside an earlier one, another machine and a published table."""
    noise = (1.0, 1.01, 0.99, 1.005, 0.995)
    speeds = {
        "then": {"numpy_memmap": 1000.0, "npy": 500.0, "soundfile": 300.0, "torchaudio": 100.0},
        "lab": {"numpy_memmap": 800.0, "npy": 1600.0, "soundfile": 50.0},
        "now": {"numpy_memmap": 1001.0, "npy": 450.0, "soundfile": 360.0, "lmdb": 200.0},
    }
    made = {
        session: [Made(name, "disk", [speed * factor for factor in noise]) for name, speed in by_loader.items()]
        for session, by_loader in speeds.items()
    }
    for session in ("then", "lab"):
        tables_of(root / session, made[session])
    asked = {
        "baseline": str(root / "then/tables"),
        "machines": {"lab": str(root / "lab/tables")},
        "published": "pdsc3k",
    }
    return tables_of(root / "now", made["now"], asked=asked)


FORMS: dict[str, Callable[[], list[Made]]] = {
    form.__name__: form for form in (clear, equal, noisy, close, single, nothing)
}


def tables_of(
    root: Path,
    made: Sequence[Made],
    now: str | None = None,
    step_ms: float | None = 20,
    formats: Mapping[str, tuple[Any, Any, Any]] | None = None,
    memory: Mapping[tuple[str, str], Sequence[int]] | None = None,
    asked: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """Return the tables of made runs, with what config.yaml says below `report`, more of that in `asked`.

    `formats`: by name (seconds, bytes, files) of its conversion. `memory`: by loader and tier the runs' PSS in bytes.
    """
    plan = read_plan(make_results(root, made, **kwargs))
    plan["config"]["report"] = {"now": now, "step_ms": step_ms, **(asked or {})}
    for name, (seconds, size, files) in (formats or {}).items():
        record = {"format": name, "seconds": seconds, "bytes": size, "files": files, "items": 512}
        write_json(root / "results" / "formats" / "demo" / f"{name}.json", {**record, "item_bytes": 640_000})
    for entry in plan["results"] if memory is not None else ():
        peaks = memory.get((entry["loader"], entry["tier"]))
        for path in record_path(root, entry).parent.glob("[0-9]*.json"):
            record = read_json(path)
            record["memory"] = record["memory"] | {"pss_peak_bytes": peaks and peaks[record["repeat"]]}
            write_json(path, record)
    make_tables.make_tables(plan, root, root / "tables")
    return shown_tables(root / "tables")
