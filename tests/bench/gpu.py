"""`make gpu`: all that touches a GPU, proven and measured on a machine that has one: one table in at most 20 minutes.

First that it is right: the tests that want a GPU, and those of streams once more under torch's own stream sanitizer.
Then how fast: the in-memory ceiling, the bus, and each loader below by itself, with the same proof of every clip as any
run. What is wrong, does not run or comes too late is a row with its reason, and the exit status is 1.

    python -m tests.bench.gpu --json found.json
    python -m tests.bench.gpu --rehearse     # the same programs on a CPU, little data: is this program itself sound?
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
MINUTES, CLIPS, CLIP_SECONDS, BATCH = 20.0, 1024, 10.0, 64
CONTRACT = ("tests/machine/test_gpu.py", "tests/machine/test_device_prefetch.py", "tests/loaders/test_ring.py")
CONTRACT += ("tests/loaders/test_loaders.py",)
ON_A_GPU = "on_a_gpu or slow_consumer"
STREAMS = "slow_consumer and (ring or memmap)"  # what torch enqueues; DALI's own work no sanitizer of torch sees
MANY = {"workers": 8, "prefetch": 4, "pin_memory": True}
MINIMUM = ("--step-limit-ms", "200", "--bottlenecks")
LOADERS = (  # (what it is, loader, settings, further arguments)
    ("ring, float32", "ring", MANY, ()),
    ("ring, int16", "ring_int16", MANY, ()),
    ("ring, float32, 2 batches ahead", "ring", MANY | {"device_prefetch": 2}, ()),
    ("DALI mixed, .npy", "dali_npy", {"workers": 8, "prefetch": 4}, ()),
    ("DALI mixed, WAV", "dali_wav", {"workers": 8, "prefetch": 4}, ()),
    ("memory map", "numpy_memmap", MANY, ()),
    ("memory map, 2 batches ahead", "numpy_memmap", MANY | {"device_prefetch": 2}, ()),
    ("all on the GPU", "resident", {"keep": "device"}, ()),
    ("ring, float32, minimum step", "ring", MANY, MINIMUM),
    ("ring, int16, minimum step", "ring_int16", MANY, MINIMUM),
    ("memory map, ahead, minimum step", "numpy_memmap", MANY | {"device_prefetch": 2}, MINIMUM),
)
HEADINGS = ("", "clips/s", "GB/s", "% of ceiling", "min step ms", "without copy", "GPU busy %", "s", "")

Row = dict[str, Any]


def no_gpu(look: bool) -> str | None:
    """Return why there is nothing to run on, in words that say what to do; None where torch can use a GPU.

    look: only whether the kernel shows one, before 6 GB are installed for it.
    """
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if look:
        found = "no NVIDIA GPU in /dev"
        there = any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/dxg").exists()
    else:
        import torch

        found, there = "no GPU that torch can use", torch.cuda.is_available()
    if there:
        return None
    found += f" (CUDA_VISIBLE_DEVICES is {hidden!r})" if hidden is not None else ""
    return (
        f"make gpu: found {found}; allowed is a machine with an NVIDIA GPU and its driver: see what `nvidia-smi` says "
        "there. Nothing was measured. Without one the protocols run on a model of it: pytest tests/machine/test_gpu.py"
    )


class Bench:
    """The data, the time that is left, and the rows so far."""

    def __init__(self, folder: Path, device: str, left: float, clips: int, seconds: float) -> None:
        self.folder, self.device, self.seconds = folder, device, seconds
        self.deadline = time.monotonic() + left
        self.clips, self.rows = clips, []
        self.ceiling: float | None = None

    def make_data(self) -> None:
        """Write the corpus and the formats that the loaders read; nothing is downloaded."""
        from tests.support.loader_cases import write_format
        from tests.support.made_corpus import make_corpus

        self.corpus = make_corpus(self.folder / "corpus", clips=self.clips, seconds=self.seconds, validation=0)
        for name in ("memmap", "int16", "npy", "wav"):
            write_format(self.corpus, name, self.folder / name, readers=1)

    def add(self, name: str, take: Any) -> None:
        """Add the row that `take(seconds left)` returns, or why there is none."""
        print(f"== {name}", flush=True)
        began, left = time.monotonic(), self.deadline - time.monotonic()
        row: Row = {"wrong": "not run: the time is up (--minutes)"}
        if left > 0:
            try:
                row = take(left)
            except subprocess.TimeoutExpired:
                row = {"wrong": "ended: the time is up (--minutes)"}
            except Exception as error:  # the other rows are still worth having
                row = {"wrong": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
        self.rows.append({"name": name, "wrong": None, "seconds": time.monotonic() - began, **row})

    def tests(self, words: str, **environment: str) -> Any:
        """Return what runs the tests whose names have these words; none that runs is wrong too."""

        def take(left: float) -> Row:
            command = [sys.executable, "-m", "pytest", *CONTRACT, "-k", words, "-q", "-p", "no:cacheprovider", "-rf"]
            done = subprocess.run(
                command, cwd=PROJECT, env=os.environ | environment, text=True, capture_output=True, timeout=left
            )
            print(done.stdout[-4000:] + done.stderr[-2000:], flush=True)
            last = (done.stdout.strip().splitlines() or ["no output"])[-1].strip("= ")
            ran = done.returncode == 0 and " passed" in f" {last}"
            return {"note": last, "wrong": None if ran or self.device == "cpu" else last}

        return take

    def program(self, name: str, left: float, *arguments: str) -> Row:
        """Return the record that one of the project's programs writes."""
        out = self.folder / "record.json"
        out.unlink(missing_ok=True)
        command = [sys.executable, "-m", f"scripts.measure.{name}", "--corpus", str(self.folder / "corpus")]
        subprocess.run([*command, *arguments, "--out", str(out)], cwd=PROJECT, check=True, timeout=left)
        return json.loads(out.read_text())

    def take_ceiling(self, left: float) -> Row:
        """Return the row of the consumer alone, on batches in the device's memory."""
        settings = json.dumps({"device": self.device, "batch_size": BATCH})
        record = self.program("measure_bound", left, "--settings", settings)
        self.ceiling = record["clips_per_second"]
        return {"clips_per_second": self.ceiling, "wrong": record["reason"]}

    def bus(self, dtype: str) -> Any:
        """Return what copies batches from page-locked memory on a stream of their own, with nothing else to do."""

        def take(_left: float) -> Row:
            import torch

            from scripts.machine import gpu

            shape = (BATCH, *self.corpus.sample.shape)
            host = [{"audio": gpu.empty_pinned(shape, getattr(torch, dtype)).zero_()} for _ in range(8)]
            copies, count = gpu.CopyStream("cuda"), 400
            for number in range(count + 8):
                if number == 8:
                    gpu.synchronize()
                    began = time.perf_counter()
                copies.arrived(copies.send(host[number % len(host)]))
            gpu.synchronize()
            return {"clips_per_second": count * BATCH / (time.perf_counter() - began)}

        return take

    def loader(self, name: str, settings: Row, more: tuple[str, ...]) -> Any:
        """Return what measures a loader, proven first, by the program that measures all."""
        from scripts.common import plugins

        module = plugins.load("loaders", name)
        kept = {key: value for key, value in settings.items() if self.device != "cpu" or key in ("workers", "prefetch")}

        def take(left: float) -> Row:
            asked = {**kept, "device": self.device, "batch_size": BATCH}
            told = ("--loader", name, "--data", str(self.folder / module.FORMAT), "--settings", json.dumps(asked))
            record = self.program("run_loader", left, *told, "--seconds", "2", *more)
            return row_of(record)

        return take


def row_of(record: Row) -> Row:
    """Return the row of a loader's record."""
    step, trials = record.get("minimum_step") or {}, record.get("bottleneck_trials") or {}
    return {
        "clips_per_second": record["clips_per_second"],
        "minimum_step_ms": step.get("ms"),
        "without_copy": trials.get("without", {}).get("host_to_device"),
        "busy_percent": (record.get("memory") or {}).get("gpu_utilisation_mean_percent"),
        "wrong": None if record["status"] == "ok" else f"{record['status']}: {record['reason']}",
        "note": "; ".join(warning["code"] for warning in record["warnings"]),
    }


def table(rows: list[Row], ceiling: float | None, clip_bytes: int) -> str:
    """Return the rows as text; GB/s are of clips as they are delivered, float32."""
    lines = [HEADINGS]
    for row in rows:
        speed = row.get("clips_per_second")
        percent = 100 * speed / ceiling if speed and ceiling else None
        numbers = (speed, speed and speed * clip_bytes / 1e9, percent, row.get("minimum_step_ms"))
        numbers = (*numbers, row.get("without_copy"), row.get("busy_percent"), row["seconds"])
        texts = ("" if value is None else f"{value:,.4g}" if value < 1000 else f"{value:,.0f}" for value in numbers)
        lines.append((row["name"], *texts, f"WRONG: {row['wrong']}" if row["wrong"] else row.get("note", "")))
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    aligned = (
        [f"{text:<{width}}" if column in (0, 8) else f"{text:>{width}}" for column, (text, width) in enumerate(pairs)]
        for pairs in (zip(line, widths, strict=True) for line in lines)
    )
    return "\n".join("  ".join(line).rstrip() for line in aligned)


def machine(device: str) -> Row:
    """Return what was measured on, and with what."""
    import torch

    from scripts.common.code import commit
    from scripts.machine import gpu, host

    described, versions = host.describe(("torch", "nvidia-dali-cuda120"))
    with contextlib.suppress(RuntimeError, ImportError):
        described["gpu_uuid"] = gpu.uuid()
    return {"device": device, "commit": commit(), "cuda": torch.version.cuda, "host": described, "versions": versions}


def main() -> None:
    """Run all, print the table, and end with status 1 where anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"for all of it (default: {MINUTES:g})")
    parser.add_argument("--clips", type=int, default=CLIPS, help=f"of {CLIP_SECONDS:g} s (default: {CLIPS})")
    parser.add_argument("--json", type=Path, help="also write rows and machine to this file")
    parser.add_argument("--began", type=float, help="when that began, in seconds since 1970 (default: now)")
    parser.add_argument("--look", action="store_true", help="only say whether the machine shows a GPU")
    parser.add_argument("--rehearse", action="store_true", help="on a CPU: of the numbers none is a GPU's")
    arguments = parser.parse_args()
    reason = None if arguments.rehearse else no_gpu(arguments.look)
    if reason or arguments.look:
        sys.exit(reason and f"error: {reason}")
    left = 60 * arguments.minutes - (time.time() - arguments.began if arguments.began else 0)
    device = "cpu" if arguments.rehearse else "cuda"
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=where) as folder:
        bench = Bench(Path(folder), device, left, arguments.clips, 1 if arguments.rehearse else CLIP_SECONDS)
        bench.add("tests on the GPU", bench.tests(ON_A_GPU))
        bench.add("the same, stream sanitizer", bench.tests(STREAMS, TORCH_CUDA_SANITIZER="1"))
        bench.make_data()
        bench.add("in-memory ceiling", bench.take_ceiling)
        for dtype in ("float32", "int16") if device == "cuda" else ():
            bench.add(f"bus, {dtype}", bench.bus(dtype))
        for name, loader, settings, more in LOADERS:
            bench.add(name, bench.loader(loader, settings, more))
        found = {**machine(device), "rows": bench.rows}
        if arguments.json:
            arguments.json.write_text(json.dumps(found, indent=1) + "\n")
        what = "REHEARSAL ON A CPU: no number is a GPU's" if device == "cpu" else ", ".join(found["host"]["gpus"])
        print(f"\n{what}; commit {found['commit']}, torch {found['versions']['torch']}, CUDA {found['cuda']}\n")
        print(table(bench.rows, bench.ceiling, bench.corpus.sample.bytes))
    wrong = [row["name"] for row in bench.rows if row["wrong"]]
    if wrong:
        sys.exit(f"error: {len(wrong)} of {len(bench.rows)} are wrong: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
