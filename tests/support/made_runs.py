"""Makes a results folder, with a plan and run records, whose answer is known, as the workflow would leave it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from scripts.common import facts, plugins
from scripts.common.files import block_of, write_json
from scripts.common.plan_file import read_plan
from scripts.common.sample import audio
from scripts.loaders import _program
from scripts.plan import experiment
from scripts.plan.results import Bound, Result
from scripts.tables import make_tables
from scripts.tables.columns import read_tables

Outcome = float | str | None  # items/s of an ok run; "failed" or "skipped"; None: no file
ITEM_BYTES = 640_000
STEP_MS = 20.0  # of the check of trials with steps
MEMORY = {
    **{"pss_peak_bytes": 812_000_000, "pss_per_worker_peak_bytes": 203_000_000, "rss_peak_bytes": 1_900_000_000},
    **{"pss_private_peak_bytes": 500_000_000, "pss_shared_peak_bytes": 200_000_000, "pss_file_peak_bytes": 112_000_000},
    **{"threads_peak": 14, "open_files_peak": 37, "samples": 40, "pss_samples": 6},
}
WARNING = {
    "code": "load",
    "seen": "load average 3.1 before the run",
    "cause": "another program was busy",
    "hint": "close it and measure again",
}
MADE_UP = {
    **{"about": "A loader made up by a test.", "format_about": "A format made up by a test.", "order": "random"},
    **{"options": {}, "requires": ["torch"], "preloads": False},
}
DISTURBED = {**WARNING, "code": "disturbed", "seen": "other programs took 9 % of the machine"}


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
    problems: Sequence[str] = ("3 items altered, first 17", "1 item missing: 4")
    warnings: Sequence[Mapping[str, str]] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    cache: str = "warm"
    task: str = "read"
    step_ms: float = 0
    au: float | None = None  # percent
    wait: float | None = None  # ms that remain of a batch beside a long step; None: it was not tried with steps
    trials: Mapping[str, Any] | None = None
    epochs: int = 2
    item_lines: Mapping[str, Any] | None = None  # of a user's own Dataset
    others: Sequence[float] = ()  # percent of all cores that others used, of each repeat

    @property
    def settings(self) -> dict[str, Any]:
        common = {"device": self.device, "batch_size": self.batch_size, "workers": self.workers, "prefetch": 2}
        return {**common, "pin_memory": False, **self.options}

    @property
    def slug(self) -> str:
        workers = "" if self.workers is None else f"-w{self.workers}"
        options = "".join(f"-{key}_{value}" for key, value in self.options.items())
        scenarios = experiment.Scenario(self.task, self.cache, self.step_ms).suffix
        return "-".join([f"{self.device}-b{self.batch_size}{workers}-p2{options}", *scenarios])


def run_record(made: Made, repeat: int, dataset: str = "demo") -> dict[str, Any]:
    """Return the record of one run that is there, as docs/run.schema.json asks."""
    outcome = made.outcomes[repeat]
    status = outcome if isinstance(outcome, str) else "ok"
    speed = None if isinstance(outcome, str) else outcome
    problems = list(made.problems) if status == "failed" else []
    skipped = status == "skipped"
    record = {
        **{"record": "run", "protocol": 1, "status": status, "dataset": dataset, "loader": made.loader},
        **{"format": made.format, "tier": made.tier, "split": "train", "task": made.task, "cache": made.cache},
        **{"step_ms": made.step_ms, "declared": declared(made)},
        **{"repeat": repeat, "slug": made.slug, "settings": made.settings, "threads": 2, "seed": 0},
        **{"items": 461, "item_bytes": ITEM_BYTES, "items_per_second": speed},
        "reason": {"ok": None, "failed": "the verification found wrong data", "skipped": made.reason}[status],
        "verification": None
        if skipped
        else {"ok": not problems, "expected": 461, "delivered": 461 - len(problems), "problems": problems},
        "host": {"cpu": {"model": "Example CPU 9000", "cores": 16}, "memory_bytes": 64 * 10**9},
        "versions": {"torch": "2.11.0", "numpy": "2.4.6"},
        "commit": "0123456789ab",
        **{"before": {"load_1m": 0.3}, "after": {"load_1m": 1.2}},
        "warnings": [dict(warning) for warning in made.warnings],
        "started": f"2026-01-01T00:{repeat:02d}:00Z",
    }
    if speed is not None:
        record["times"] = run_times(speed, repeat, made.epochs)
        record |= {"au_percent": made.au, "bottleneck_trials": made.trials and dict(made.trials), "memory": MEMORY}
        if made.wait is not None:
            record |= {"steady_items_per_second": speed, "epoch_start_seconds": 0.0}
            record["steps"] = step_trials(1000 * made.batch_size / speed, made.wait)
        if made.task in experiment.TRAINING:
            losses = {"first_loss": 0.3, "last_loss": 0.1, "validation_seconds": 0.2}
            record["training"] = {"parameters": 2_068_256, "inputs": 16_000, **losses}
        if made.trials and not repeat:
            record["spans"] = run_spans(made.workers or 0)
        faults = {"read_bytes": 4096, "minor_faults": 900, "major_faults": 3}
        record["resources"] = {"cpu_seconds": 1.5, "cpu_seconds_per_1000_items": 1500 / speed, "cores": 1.5, **faults}
        if made.options.get("transform"):
            where = {"device": "device"}.get(made.options.get("transform_in"), "worker" if made.workers else "process")
            record["transformed"] = {"in": where, "random": False, "size": 0.5}
        if made.others:
            record["resources"] |= {"others_percent": made.others[repeat], "stolen_percent": 0.0}
    return record


def declared(made: Made) -> dict[str, Any]:
    """Return what a record notes of its loader; a made-up one is called what the tests call it."""
    said, program = {**MADE_UP, "format": made.format}, f"# {made.loader}: made up\nloader = []\n"
    if made.loader in plugins.names("loaders"):
        module = plugins.load("loaders", made.loader)
        said, data = plugins.declared(module), f"results/formats/demo/{made.format}/train"
        program = _program.program(module, said["options"] | made.settings, said["format_about"], data, audio(160_000))
    noted = {"version": "1", "versions": {"torch": "2.11.0"}, "stages": ["read"], "own_file": None, "program": program}
    return {**said, **noted}


def explained(full: float, consumer: float = 1e6, **without: float) -> dict[str, Any]:
    """Return what a record says of a run's speeds, in items/s, without parts of its work."""
    trials = {"full": full, "without": without, "consumer": consumer}
    return {**trials, "rounds": [{**trials, "again": full}] * 3}


def lines_of(item_ms: float, *lines: tuple[str, int, str, float]) -> dict[str, Any]:
    """Return what a proof says of the lines of a user's own Dataset: (code, line, part, share) of each."""
    parts: dict[str, float] = {}
    for _, _, part, share in lines:
        parts[part] = parts.get(part, 0.0) + share
    of_file = {"file": "mine.py", "function": "__getitem__"}
    rows = [
        {**of_file, "line": line, "code": code, "part": part, "share": share, "ms": share * item_ms}
        for code, line, part, share in lines
    ]
    return {"reason": None, "items": 100, "item_ms": item_ms, "parts": parts, "lines": rows}


def step_trials(batch_ms: float, wait_ms: float, own_ms: float = STEP_MS) -> dict[str, Any]:
    """Return what trials with steps say of a loader that loses nothing of a step."""

    def trial(step_ms: float) -> dict[str, float]:
        return {"step_ms": step_ms, "period_ms": max(batch_ms, step_ms + wait_ms), "batches": 15, "seconds": 0.3}

    made = {name: trial(step) for name, step in (("plain", 0.0), ("knee", batch_ms), ("long", max(4 * batch_ms, 20.0)))}
    return {**made, "check": trial(own_ms), "host_share": 0.3, "others_percent": 1.0}


def run_times(speed: float, repeat: int, epochs: int = 2) -> dict[str, Any]:
    """Return the times of an ok run of some epochs at `speed` items/s; the first batch after 0.5 s, 0.6 s, ..."""
    seconds = 461 / speed
    epoch = {"seconds": seconds, "gap_seconds": 0.02, "items": 461}
    epoch |= {"arrivals_seconds": [seconds / 2, seconds], "batch_items": [400, 61]}
    times = {"construct_seconds": 0.1, "first_batch_seconds": 0.5 + 0.1 * repeat, "verify_seconds": 0.9}
    return {**times, "teardown_seconds": 0.05, "epochs": [epoch] * epochs}


def run_spans(workers: int, batches: int = 6) -> list[dict[str, Any]]:
    """Return a batch timeline: 20 ms a batch in a worker (or the main process), 5 ms on its way, a step of 10 ms."""
    found = []

    def span(track: str, batch: int, phase: str, start: int, end: int) -> None:
        times = {"start_seconds": start / 1000, "end_seconds": end / 1000}
        found.append({"track": track, "batch": batch, "phase": phase, **times})

    for batch in range(batches):
        here = 35 * batch
        span("main", batch, "wait", here, here + 25)
        span("main", batch, "step", here + 25, here + 35)
        track = f"worker {batch % workers}" if workers else "main"
        span(track, batch, "read", here, here + 15)
        span(track, batch, "collate", here + 15, here + 20)
        if workers:
            span("main", batch, "transfer", here + 20, here + 25)
    return found


def bound_record(device: str, batch_size: int, repeat: int, speed: float, dataset: str = "demo") -> dict[str, Any]:
    """Return the record of one control run at `speed` items/s."""
    return {
        **{
            "record": "bound",
            "bound": "in_memory",
            "status": "ok",
            "reason": None,
            "dataset": dataset,
            "repeat": repeat,
        },
        **{"settings": {"device": device, "batch_size": batch_size}, "threads": 2, "items": 461},
        **{"item_bytes": ITEM_BYTES, "items_per_second": speed, "seconds": 0.2, "host": {}},
        **{"before": {}, "after": {}, "warnings": [], "started": "2026-01-01T00:00:00Z"},
    }


def make_results(
    root: Path,
    made: Iterable[Made],
    bounds: Mapping[tuple[str, int], Sequence[float]] | None = None,
    skipped: Sequence[Mapping[str, Any]] = (),
    dataset: str = "demo",
    emulated: Sequence[str] = (),
    tensors: Sequence[Mapping[str, Any]] = (),
    ladder: Sequence[Mapping[str, Any]] = (),
) -> Path:
    """Write a whole results folder below `root` and return the path of its plan.json: one session, `main`."""
    made = list(made)
    rows = [_row(one, dataset) for one in made]
    repeats = len(made[0].outcomes)
    measure = {"epochs": "auto", "repeats": repeats, "train_repeats": 3, "limited_share": 0.5, "seed": 0}
    planned = {
        "dataset": dataset,
        "given": {},
        "presets": None,
        "config": {
            **{"dataset": dataset, "datasets": {dataset: {"source": "synthetic"}, "other": {"source": "folder"}}},
            "storage": {one.tier: {"kind": "posix"} for one in made},
            **{"measure": measure, "report": {"now": "torchaudio", "step_ms": 20}},
        },
        "results": rows,
        "proofs": [],
        "sessions": {"main": [row["id"] for row in rows]},
        "bounds": [_bound_row(device, batch_size, dataset) for device, batch_size in bounds or {}],
        "tensors": list(_write_tensors(root, tensors, dataset)),
        "skipped": list(skipped),
        "ladder": list(ladder),
        "loaders": {
            **{entry["loader"]: {**MADE_UP, "format": "memmap"} for entry in skipped},
            **{one.loader: {key: declared(one)[key] for key in (*MADE_UP, "format")} for one in made},
        },
        "formats": {key: {} for key in sorted({one.format for one in made})},
        "tiers": {key: {} for key in sorted({one.tier for one in made})},
        "emulated": list(emulated),
        "part": None,
    }
    _write_session(root, planned, made, bounds or {})
    path = root / "results" / "runs" / dataset / "plan.json"
    write_json(path, planned)
    _write_preparation(root, planned)
    return path


def tables_from(root: Path, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of a plan whose records are below `root`, where they are written too."""
    make_tables.make_tables(plan, root, root / "tables")
    return read_tables(root / "tables")


def tables_of(root: Path, made: Iterable[Made], **planned: Any) -> dict[str, Any]:
    """Return the tables of the folder that `make_results` writes."""
    return tables_from(root, read_plan(make_results(root, made, **planned)))


def measured(
    plan: experiment.Plan, runs: Iterable[Result], rounds: int = 1, proof_of: Callable[[Result], Any] | None = None
) -> facts.Session:
    """Return a session of these results of a plan, proven and measured, whose records say nothing."""
    runs = list(runs)
    declared = {"versions": {}, "preloads": False}
    proof = {"status": "ok", "started": "then", "checksums_hash": "same", "verification": {}, "declared": declared}
    proof["lifetime"] = "lasting"
    for result in runs:
        write_json(plan.project / result.proof, proof_of(result) if proof_of else proof)
    content = {"dataset": plan.dataset, "results": [vars(result) for result in runs]}
    bases = facts.Bases(content, plan.project).among(result.id for result in runs)
    session = facts.begin(plan.project, plan.dataset, "main", bases, {})
    for result in runs:
        for number in range(rounds):
            write_json(session.folder / result.id / f"{number}.json", {})
    return session


def session_of(root: Path, dataset: str = "demo") -> facts.Session:
    """Return the latest session of a results folder."""
    return facts.sessions(root, dataset)[-1]


def record_path(root: Path, row: Mapping[str, Any], repeat: int = 0) -> Path:
    """Return the record of one round of a row of the plan."""
    return session_of(root, row["dataset"]).folder / row["id"] / f"{repeat}.json"


def _row(made: Made, dataset: str) -> dict[str, Any]:
    """Return a row of the plan."""
    parts = [re.sub(r"\W", "_", part) for part in (made.tier, made.loader, made.slug)]
    return vars(
        Result(
            **{"id": "/".join(parts), "dataset": dataset, "slug": made.slug, "settings": made.settings},
            **{"loader": made.loader, "tier": made.tier, "format": made.format},
            **{"cache": made.cache, "task": made.task, "step_ms": made.step_ms, "seconds": 0.5},
            location={"uri": f"file:///mnt/{parts[0]}/{made.format}", "path": f"/mnt/{parts[0]}/{made.format}"},
            proof=f"results/runs/{dataset}/{'/'.join(parts)}/proof.json",
        )
    )


def proof_record(made: Made, dataset: str = "demo") -> dict[str, Any]:
    """Return the record of a proof that went well."""
    proof = run_record(replace(made, outcomes=[1.0], wait=None, trials=None, others=(), warnings=()), 0, dataset)
    return {**proof, "mode": "proof", "items_per_second": None, "checksums_hash": "0123456789abcdef", "times": None} | (
        {"item_lines": made.item_lines} if made.item_lines else {}
    )


def _write_session(
    root: Path, planned: Mapping[str, Any], made: Sequence[Made], bounds: Mapping[tuple[str, int], Sequence[float]]
) -> None:
    rows, dataset = planned["results"], planned["dataset"]
    for one, row in zip(made, rows, strict=True):
        write_json(root / row["proof"], proof_record(one, dataset))
    bases = facts.Bases(planned, root).among(planned["sessions"]["main"])
    session = facts.begin(root, dataset, "main", bases, {"cores": 2})
    for one, row in zip(made, rows, strict=True):
        for repeat, outcome in enumerate(one.outcomes):
            if outcome is not None:
                path = session.folder / row["id"] / f"{repeat}.json"
                session.note(row["id"], path, run_record(one, repeat, dataset))
    for (device, batch_size), speeds in bounds.items():
        folder = session.folder / _bound_row(device, batch_size, dataset)["id"]
        for repeat, speed in enumerate(speeds):
            write_json(folder / f"{repeat}.json", bound_record(device, batch_size, repeat, speed, dataset))
    session.say(ended="blocks")


def _bound_row(device: str, batch_size: int, dataset: str) -> dict[str, Any]:
    slug = f"{device}-b{batch_size}"
    settings = {"device": device, "batch_size": batch_size}
    return vars(Bound(id=f"bounds/main/{slug}", dataset=dataset, slug=slug, settings=settings))


def _write_tensors(root: Path, tensors: Sequence[Mapping[str, Any]], dataset: str) -> Iterable[dict[str, Any]]:
    for record in tensors:
        device, batch_size = record["settings"]["device"], record["settings"]["batch_size"]
        path = f"results/runs/{dataset}/tensors/{device}-b{batch_size}/{record['repeat']}.json"
        write_json(root / path, record)
        names = {key: record[key] for key in ("settings", "repeat")}
        yield {"bound": "tensors", "slug": f"{device}-b{batch_size}", **names, "path": path}


def tensors_record(repeat: int, speeds: Mapping[str, float], batch_size: int = 32, **changes: Any) -> dict[str, Any]:
    """Return the record of the micro-benchmarks: ways of gathering a batch on the CPU at these items/s."""
    common = {
        "operation": "many",
        "device": "cpu",
        "items": batch_size,
        "bytes": batch_size * ITEM_BYTES,
        "delivers": True,
    }
    common |= {"series": 1, "status": "ok", "reason": None}
    tensors = [
        {
            **common,
            **{"method": way, "seconds": [batch_size / speed] * 5, "items_per_second": speed},
            "megabytes_per_second": speed * ITEM_BYTES / 1e6,
        }
        for way, speed in speeds.items()
    ]
    return {
        **{"record": "tensors", "status": "ok", "reason": None, "dataset": "demo", "repeat": repeat, "seed": 0},
        **{"slug": f"cpu-b{batch_size}", "settings": {"device": "cpu", "batch_size": batch_size}, "threads": 2},
        **{"workers": 2, "items": 512, "item_bytes": ITEM_BYTES, "host": {}, "before": {}, "after": {}},
        **{"warnings": [], "started": "2026-01-01T00:00:00Z", "tensors": tensors, **changes},
    }


def _write_preparation(root: Path, planned: Mapping[str, Any]) -> None:
    """Write what the stages before the runs leave: corpus.json, rejected.csv, formats and tiers."""
    results, dataset = root / "results", planned["dataset"]
    corpus = {
        **{"sample_rate": 16000, "seconds": 10, "samples": 160000, "classes": 12, "rejected": 3},
        **{"unavailable": 8, "failed": 2, "sample": audio(160000).as_json()},
        **{"items": {"train": 461, "validation": 51}, "ids_hash": "0123456789abcdef", "audio_seconds": 4800.0},
    }
    write_json(results / "corpus" / dataset / "corpus.json", corpus)
    items = {"asked": 1525, "fetched": 515, "unavailable": 8, "failed": 2, "waiting": 1000, "stopped": 0, "reasons": {}}
    write_json(results / "clips" / dataset / "clips.json", items)
    rejected = "id,reason\na,shorter than 0.5 s\nb,shorter than 0.5 s\nc,no audio stream\n"
    (results / "corpus" / dataset / "rejected.csv").write_text(rejected, encoding="utf-8")
    for number, name in enumerate(planned["formats"], start=1):
        record = {"record": "format", "format": name, "seconds": 1.5 * number, "bytes": 328_000_000 * number}
        record |= {"files": 2 + 510 * (number % 2), "items": 512, "item_bytes": ITEM_BYTES}
        write_json(results / "formats" / dataset / f"{name}.json", {**record, "items_per_second": 512 / (1.5 * number)})
    for name in planned["tiers"]:
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
    slowdown = 20 if name == "slow" else 1
    random = {"items_per_second": 2850.0 / slowdown, "mean_latency_ms": 0.35 * slowdown, "p99_latency_ms": 1.2}
    fio = {
        "sequential": {"megabytes_per_second": 2145.7 / slowdown},
        "random": random,
        "reads": [
            fio_read("random", readers, random["items_per_second"] * ITEM_BYTES * 1.2 ** (readers - 1) / 1e6)
            for readers in (1, 2, 4)
        ],
        "method": "fio, direct, 640 kB",
    }
    return record | {
        **{"filesystem": "ext4", "device": "nvme0n1", "model": "Example SSD", "rotational": False, "scheduler": "none"},
        **{"fio": fio, "reason": None, "warnings": []},
    }


def fio_read(pattern: str, readers: int, speed: float, block_bytes: int | None = None) -> dict[str, Any]:
    """Return one of the reads of a tier's profile, at `speed` MB/s; of an item's size where it is random."""
    block = block_bytes or (block_of(ITEM_BYTES) if pattern == "random" else 2**20)
    return {"pattern": pattern, "readers": readers, "block_bytes": block, "megabytes_per_second": speed}


def example() -> tuple[list[Made], dict[tuple[str, int], list[float]]]:
    """Return results as an experiment would give them, and its bound: seven loaders, two tiers, three worker counts.

    numpy_memmap (24,000 items/s on ram) and lazy_memmap (23,800) are not distinguishable; webdataset fails on disk;
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
                noise = (0.97, 1.0, 1.02, 0.97, 1.0)[len(loader) % 3 :][:3]
                outcomes: list[Outcome] = [round(speed * factor, 3) for factor in noise]
                if loader == "dali_wav":
                    outcomes = ["skipped"] * 3
                if loader == "webdataset" and tier == "disk":
                    outcomes[1] = "failed"
                warnings = [WARNING] if workers == 4 else []
                made.append(Made(loader, tier, outcomes, format, workers=workers, warnings=warnings))
    return made, {("cpu", 32): [30000.0, 31000.0, 32000.0]}


def session(repeats: int = 10) -> dict[str, Any]:
    """Return the arguments of `make_results` for an experiment in which everything there is was measured.

    Three tiers, of which `slow` is emulated; traversing with a warm, a cold and a limited cache and with a step of
    20 ms; a plain loop of 5 epochs; training in a bare loop and, 4 % slower, by Lightning. Each has its own noise.
    """

    def made(loader: str, tier: str, speed: float, format: str, **more: Any) -> Made:
        shift = len(loader) + len(more.get("task", "read"))
        own = [1 + 0.01 * ((7 * repeat + shift) % 5 - 2) for repeat in range(repeats)]
        return Made(loader, tier, [round(speed * factor, 3) for factor in own], format, **more)

    results = []
    for loader, format, speed in (
        ("numpy_memmap", "memmap", 24000.0),
        ("lazy_memmap", "tensordict", 23800.0),
        ("dali_npy", "npy", 9500.0),
        ("torchaudio", "wav", 310.0),
    ):
        parts = {"transfer": speed * 1.2, "read": speed * 2.6, "everything": speed * 40}
        parts |= {"decode": speed * 3.5, "read": speed * 5} if format == "wav" else {}
        for tier in ("ram", "disk"):
            for workers, share in ((0, 1.0), (2, 0.4)):
                full = speed * share * (1 if tier == "ram" else 0.9)
                without = {part: value * share for part, value in parts.items()}
                explanation = explained(full, 60000.0, **without)
                wait = 32000 / full * (0.1 if workers else 1.0)
                warm = {"workers": workers, "trials": explanation, "wait": wait}
                warnings = [DISTURBED] if loader == "dali_npy" and tier == "disk" else []
                results.append(made(loader, tier, full, format, warnings=warnings, **warm))
            stepped = {
                "step_ms": 20.0,
                "trials": explained(min(speed, 1500.0), 60000.0, compute=speed, **parts),
            }
            results.append(made(loader, tier, min(speed, 1500.0), format, au=min(94.0, speed / 16), **stepped))
            results.append(made(loader, tier, speed * 2, format, task="iterate", epochs=5))
            trained = min(speed, 2100.0)
            results.append(made(loader, tier, trained, format, task="train", au=min(96.0, trained / 21), epochs=5))
            slower = trained / 1.04
            results.append(made(loader, tier, slower, format, task="lightning", au=min(92.0, slower / 22), epochs=5))
        for tier, most in (("disk", 2700.0), ("slow", 140.0)):
            cold = min(speed, most) * 0.9
            explanation = explained(cold, 60000.0, storage=speed * 1.1, **parts)
            results.append(made(loader, tier, cold, format, cache="cold", trials=explanation))
            results.append(made(loader, tier, min(speed, most * 1.7), format, cache="limited"))
    in_ladder = (("naive", "torchaudio", "cpu-b32-w0-p2"), ("in a memory map", "numpy_memmap", "cpu-b32-w0-p2"))
    ladder_steps = [
        {"change": change, "loader": loader, "tier": "ram", "slug": slug} for change, loader, slug in in_ladder
    ]
    return {
        "made": results,
        "ladder": [{**ladder_step, "reason": None} for ladder_step in ladder_steps]
        + [{"change": "pinned", "loader": "numpy_memmap", "tier": "ram", "slug": None, "reason": "no GPU"}],
        "bounds": {("cpu", 32): [30000.0 * (1 + 0.05 * ((3 * repeat) % 4 - 2)) for repeat in range(12)]},
        "emulated": ["slow"],
        "tensors": [tensors_record(repeat, {"torch": 31000.0 + repeat, "numpy": 15500.0}) for repeat in range(repeats)],
        "skipped": [{"loader": "dali_npy", "tier": "slow", "settings": {"cache": "warm"}, "reason": "not read from"}],
    }
