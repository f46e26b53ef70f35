"""Makes a results folder, with a plan and run records, whose answer is known, as the workflow would leave it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from files import write_json

Outcome = float | str | None  # clips/s of an ok run; "failed" or "skipped"; None: no file
CLIP_BYTES = 640_000
WARNING = {
    "code": "load",
    "seen": "load average 3.1 before the run",
    "cause": "another program was busy",
    "hint": "close it and measure again",
}


@dataclass
class Made:
    """The runs of one loader on one tier with one set of settings: an outcome for each repeat."""

    loader: str
    tier: str
    outcomes: Sequence[Outcome]
    format: str = "memmap"
    device: str = "cpu"
    batch_size: int = 32
    workers: int | None = 2
    reason: str = "no such library: dali"
    problems: Sequence[str] = ("3 clips altered, first 17", "1 clip missing: 4")
    warnings: Sequence[Mapping[str, str]] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    cache: str = "warm"

    @property
    def settings(self) -> dict[str, Any]:
        common = {"device": self.device, "batch_size": self.batch_size, "workers": self.workers, "prefetch": 2}
        return {**common, "pin_memory": False, **self.options}

    @property
    def slug(self) -> str:
        workers = "" if self.workers is None else f"-w{self.workers}"
        options = "".join(f"-{key}_{value}" for key, value in self.options.items())
        cold = "" if self.cache == "warm" else f"-{self.cache}"
        return f"{self.device}-b{self.batch_size}{workers}-p2{options}{cold}"


def run_record(made: Made, repeat: int, dataset: str = "demo") -> dict[str, Any]:
    """Return the record of one run that is there, as docs/run.schema.json asks."""
    outcome = made.outcomes[repeat]
    status = outcome if isinstance(outcome, str) else "ok"
    speed = None if isinstance(outcome, str) else outcome
    problems = list(made.problems) if status == "failed" else []
    skipped = status == "skipped"
    record = {
        **{"record": "run", "protocol": 1, "status": status, "dataset": dataset, "loader": made.loader},
        **{"format": made.format, "tier": made.tier, "split": "train", "task": "traverse", "cache": made.cache},
        **{"repeat": repeat, "slug": made.slug, "settings": made.settings, "threads": 2, "seed": 0},
        **{"clips": 461, "clip_bytes": CLIP_BYTES, "clips_per_second": speed},
        "reason": {"ok": None, "failed": "the verification found wrong data", "skipped": made.reason}[status],
        "verification": None
        if skipped
        else {"ok": not problems, "expected": 461, "delivered": 461 - len(problems), "problems": problems},
        "host": {"cpu": {"model": "Example CPU 9000", "cores": 16}, "memory_bytes": 64 * 10**9},
        "versions": {"torch": "2.11.0", "numpy": "2.4.6"},
        **{"before": {"load_average": 0.3}, "after": {"load_average": 1.2}},
        "warnings": [dict(warning) for warning in made.warnings],
        "started": f"2026-01-01T00:{repeat:02d}:00Z",
    }
    if speed is not None:
        record["times"] = run_times(speed, repeat)
        faults = {"read_bytes": 4096, "minor_faults": 900, "major_faults": 3}
        record["resources"] = {"cpu_seconds": 1.5, "cpu_seconds_per_1000_clips": 1500 / speed, **faults}
    return record


def run_times(speed: float, repeat: int) -> dict[str, Any]:
    """Return the times of an ok run of two epochs at `speed` clips/s; the first batch after 0.5 s, 0.6 s, ..."""
    seconds = 461 / speed
    epoch = {"seconds": seconds, "gap_seconds": 0.02, "clips": 461}
    epoch |= {"arrivals_seconds": [seconds / 2, seconds], "batch_clips": [400, 61]}
    times = {"construct_seconds": 0.1, "first_batch_seconds": 0.5 + 0.1 * repeat, "verify_seconds": 0.9}
    return {**times, "teardown_seconds": 0.05, "epochs": [epoch, epoch]}


def bound_record(device: str, batch_size: int, repeat: int, speed: float, dataset: str = "demo") -> dict[str, Any]:
    """Return the record of one warm bound at `speed` clips/s."""
    times = run_times(speed, repeat)["epochs"]
    return {
        **{"record": "bound", "bound": "warm", "status": "ok", "reason": None, "dataset": dataset, "repeat": repeat},
        **{"settings": {"device": device, "batch_size": batch_size}, "threads": 2, "clips": 461},
        **{"clip_bytes": CLIP_BYTES, "clips_per_second": speed, "times": {"epochs": times}, "host": {}},
        **{"before": {}, "after": {}, "warnings": [], "started": "2026-01-01T00:00:00Z"},
    }


def make_results(
    root: Path,
    made: Iterable[Made],
    bounds: Mapping[tuple[str, int], Sequence[float]] | None = None,
    skipped: Sequence[Mapping[str, Any]] = (),
    dataset: str = "demo",
) -> Path:
    """Write a whole results folder below `root` and return the path of its plan.json."""
    made = list(made)
    runs = [entry for one in made for entry in _write_runs(root, one, dataset)]
    plan = {
        "dataset": dataset,
        "config": {"dataset": dataset, "measure": {"epochs": "auto", "repeats": len(made[0].outcomes), "seed": 0}},
        "runs": runs,
        "bounds": list(_write_bounds(root, bounds or {}, dataset)),
        "skipped": list(skipped),
        "formats": sorted({one.format for one in made}),
        "tiers": sorted({one.tier for one in made}),
    }
    path = root / "results" / "runs" / dataset / "plan.json"
    write_json(path, plan)
    _write_preparation(root, plan)
    return path


def _write_runs(root: Path, made: Made, dataset: str) -> Iterable[dict[str, Any]]:
    for repeat, outcome in enumerate(made.outcomes):
        parts = (re.sub(r"\W", "_", part) for part in (made.tier, made.loader, made.slug))
        path = f"results/runs/{dataset}/{'/'.join(parts)}/{repeat}.json"
        if outcome is not None:
            write_json(root / path, run_record(made, repeat, dataset))
        yield {
            **{"loader": made.loader, "tier": made.tier, "format": made.format, "slug": made.slug},
            **{"settings": made.settings, "cache": made.cache, "repeat": repeat, "path": path},
        }


def _write_bounds(
    root: Path, bounds: Mapping[tuple[str, int], Sequence[float]], dataset: str
) -> Iterable[dict[str, Any]]:
    for (device, batch_size), speeds in bounds.items():
        for repeat, speed in enumerate(speeds):
            path = f"results/runs/{dataset}/bounds/warm/{device}-b{batch_size}/{repeat}.json"
            write_json(root / path, bound_record(device, batch_size, repeat, speed, dataset))
            settings = {"device": device, "batch_size": batch_size}
            slug = f"{device}-b{batch_size}"
            yield {"bound": "warm", "slug": slug, "settings": settings, "repeat": repeat, "path": path}


def _write_preparation(root: Path, plan: Mapping[str, Any]) -> None:
    """Write what the stages before the runs leave: corpus.json, rejected.csv, formats and tiers."""
    results, dataset = root / "results", plan["dataset"]
    corpus = {
        **{"sample_rate": 16000, "seconds": 10, "samples": 160000, "classes": 12, "rejected": 3},
        **{"unavailable": 8, "failed": 2},
        **{"clips": {"train": 461, "validation": 51}, "ids_hash": "0123456789abcdef", "audio_seconds": 4800.0},
    }
    write_json(results / "corpus" / dataset / "corpus.json", corpus)
    clips = {"asked": 1525, "fetched": 515, "unavailable": 8, "failed": 2, "waiting": 1000, "stopped": 0, "reasons": {}}
    write_json(results / "clips" / dataset / "clips.json", clips)
    rejected = "id,reason\na,shorter than 0.5 s\nb,shorter than 0.5 s\nc,no audio stream\n"
    (results / "corpus" / dataset / "rejected.csv").write_text(rejected, encoding="utf-8")
    for number, name in enumerate(plan["formats"], start=1):
        record = {"record": "format", "format": name, "seconds": 1.5 * number, "bytes": 328_000_000 * number}
        record |= {"files": 2 + 510 * (number % 2), "clips": 512, "clip_bytes": CLIP_BYTES}
        write_json(results / "formats" / dataset / f"{name}.json", {**record, "clips_per_second": 512 / (1.5 * number)})
    for name in plan["tiers"]:
        if "/" not in name:
            write_json(results / "placed" / dataset / f"{name}.json", _tier(name))


def _tier(name: str) -> dict[str, Any]:
    record = {"record": "tier", "tier": name, "path": f"/mnt/{name}", "kind": "posix"}
    if name == "ram":
        warning = {"code": "not_profiled", "seen": "no fio on the path", "cause": "it is not installed", "hint": "apt"}
        return record | {
            **{"filesystem": "tmpfs", "device": None, "model": None, "rotational": None, "scheduler": None},
            **{"fio": None, "reason": "fio is not installed", "warnings": [warning]},
        }
    fio = {
        "sequential": {"megabytes_per_second": 2145.7},
        "random": {"clips_per_second": 2850.0, "mean_latency_ms": 0.35, "p99_latency_ms": 1.2},
        "method": "fio, direct, 640 kB",
    }
    return record | {
        **{"filesystem": "ext4", "device": "nvme0n1", "model": "Example SSD", "rotational": False, "scheduler": "none"},
        **{"fio": fio, "reason": None, "warnings": []},
    }


def example() -> tuple[list[Made], dict[tuple[str, int], list[float]]]:
    """Return results as an experiment would give them, and its bound: seven loaders, two tiers, three worker counts.

    numpy_memmap (24,000 clips/s on ram) and lazy_memmap (23,800) cannot be told apart; webdataset fails on disk;
    dali_wav is skipped.
    """
    formats = {"torchaudio": "wav", "dali_wav": "wav", "dali_npy": "npy", "dali_external": "npy"}
    formats |= {"numpy_memmap": "memmap", "lazy_memmap": "tensordict", "webdataset": "webdataset"}
    base = {"torchaudio": 140, "dali_npy": 9500, "dali_external": 8000, "numpy_memmap": 24000}
    base |= {"lazy_memmap": 23800, "webdataset": 2600}
    made = []
    for loader, format in formats.items():
        for tier in ("ram", "disk"):
            for workers in (0, 2, 4):
                speed = base.get(loader, 0) * (1 if tier == "ram" else 0.6)
                speed *= {0: 1, 2: 0.4, 4: 0.5}[workers] if "memmap" in loader else {0: 0.5, 2: 0.9, 4: 1}[workers]
                outcomes: list[Outcome] = [round(speed * factor, 3) for factor in (0.97, 1.0, 1.02)]
                if loader == "dali_wav":
                    outcomes = ["skipped"] * 3
                if loader == "webdataset" and tier == "disk":
                    outcomes[1] = "failed"
                warnings = [WARNING] if workers == 4 else []
                made.append(Made(loader, tier, outcomes, format, workers=workers, warnings=warnings))
    return made, {("cpu", 32): [30000.0, 31000.0, 32000.0]}
