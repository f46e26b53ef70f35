"""`make gpu`: all that touches a GPU, proven and measured on a machine that has one: one table in at most 20 minutes.

First that it is right: the tests that want a GPU, and those of streams once more under torch's own stream sanitizer.
Then how fast: the in-memory ceiling, the bus, and each loader below by itself, with the same proof of every item as any
run. What is wrong, does not run or comes too late is a row with its reason, and the exit status is 1.

    python -m bench.gpu --json found.json
    python -m bench.gpu --rehearse     # the same programs on a CPU, little data: is this program itself sound?
"""

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

PROJECT = Path(__file__).resolve().parents[1]
MINUTES, ITEMS, CLIP_SECONDS, BATCH = 20.0, 1024, 10.0, 64
CONTRACT = ("tests/machine/test_gpu.py", "tests/machine/test_device_prefetch.py", "tests/loaders/test_ring.py")
CONTRACT += ("tests/loaders/test_loaders.py", "tests/loaders/test_kinds.py", "tests/loaders/test_programs.py")
CONTRACT += ("tests/measure/test_training.py", "tests/measure/test_tensors.py", "tests/measure/test_process.py")
TESTS_AT_A_TIME = 8
SIDE, DRAWN = 224, 32  # pixels of an image; images that are drawn, of which the others are shifted copies
ON_A_GPU = "on_a_gpu or slow_consumer"
STREAMS = "slow_consumer and (ring or memmap)"  # what torch enqueues; DALI's own work no sanitizer of torch sees
RUNS = "runs by forks"
MANY = {"workers": 8, "prefetch": 4, "pin_memory": True}
MINIMUM = ("--batch-ms", "5", "--bottlenecks")  # tried with steps of that length, and of four times it


class Case(NamedTuple):
    """A loader, and what it is measured with."""

    name: str
    loader: str
    settings: dict[str, Any]
    more: tuple[str, ...] = ()
    of: str = "audio"  # or "images"
    optional: bool = False  # it wants what no registry of ours has: where it is not installed, its reason is a note


CASES = (
    Case("ring, float32", "ring", MANY),
    Case("ring, int16", "ring_int16", MANY),
    Case("ring, float32, 2 batches ahead", "ring", MANY | {"device_prefetch": 2}),
    Case("DALI mixed, .npy", "dali_npy", {"workers": 8, "prefetch": 4}),
    Case("DALI mixed, WAV", "dali_wav", {"workers": 8, "prefetch": 4}),
    Case("memory map", "numpy_memmap", MANY),
    Case("memory map, 2 batches ahead", "numpy_memmap", MANY | {"device_prefetch": 2}),
    Case("all on the GPU", "resident", {"keep": "device"}),
    Case("ring, float32, minimum step", "ring", MANY, MINIMUM),
    Case("ring, int16, minimum step", "ring_int16", MANY, MINIMUM),
    Case("memory map, ahead, minimum step", "numpy_memmap", MANY | {"device_prefetch": 2}, MINIMUM),
    Case("images, DALI mixed (nvJPEG)", "dali_images", {"workers": 8, "prefetch": 4}, of="images"),
    Case("images, libjpeg-turbo, processes", "image_files", MANY, of="images"),
    Case("images, libjpeg-turbo, threads", "ring_images", MANY, of="images"),
    Case("images, decoded: ring", "ring", MANY, of="images"),
    Case("training", "ring", MANY, ("--task", "train")),
    Case("training, compiled", "ring", MANY, ("--task", "train_compiled")),
    Case("model by TensorRT", "ring", MANY, ("--task", "infer_tensorrt"), optional=True),
)
HEADINGS = ("", "items/s", "GB/s", "% of ceiling", "min step ms", "without copy", "GPU busy %", "s", "")

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

    def __init__(self, folder: Path, device: str, left: float, items: int, seconds: float) -> None:
        self.folder, self.device, self.seconds = folder, device, seconds
        self.deadline = time.monotonic() + left
        self.items, self.rows = items, []
        self.corpora: dict[str, Any] = {}
        self.ceilings: dict[str, float] = {}

    def make_data(self) -> None:
        """Write the corpus and the formats that the loaders read; nothing is downloaded."""
        from scripts.kinds import image
        from tests.support.loader_cases import write_format
        from tests.support.made_corpus import make_corpus

        audio = make_corpus(self.folder / "audio" / "corpus", items=self.items, seconds=self.seconds, validation=0)
        kind, root = image.Kind((SIDE, SIDE)), self.folder / "images" / "corpus"
        images = make_corpus(root, items=self.items, validation=0, kind=kind, content=drawn_images())
        self.corpora = {"audio": audio, "images": images}
        for of, names in (("audio", ("memmap", "int16", "npy", "wav")), ("images", ("files", "memmap"))):
            for name in names:
                write_format(self.corpora[of], name, self.folder / of / name, readers=1)

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
            command += ["-n", str(TESTS_AT_A_TIME)]
            done = subprocess.run(
                command, cwd=PROJECT, env=os.environ | environment, text=True, capture_output=True, timeout=left
            )
            print(done.stdout[-4000:] + done.stderr[-2000:], flush=True)
            last = (done.stdout.strip().splitlines() or ["no output"])[-1].strip("= ")
            ran = done.returncode == 0 and " passed" in f" {last}"
            return {"note": last, "wrong": None if ran or self.device == "cpu" else last}

        return take

    def run(self, of: str, left: float, *arguments: str) -> Row:
        """Return the record of a run of a loader, of the audio or the images."""
        out = self.folder / "record.json"
        out.unlink(missing_ok=True)
        command = [sys.executable, "-m", "scripts.measure.run_loader", "--corpus", str(self.folder / of / "corpus")]
        subprocess.run([*command, *arguments, "--out", str(out)], cwd=PROJECT, check=True, timeout=left)
        return json.loads(out.read_text())

    def ceiling(self, of: str) -> Any:
        """Return what takes the ceiling: the consumer alone, on batches in the device's memory."""

        def take(_left: float) -> Row:
            from scripts.measure.runner import Runner
            from scripts.plan.results import Bound

            settings = {"device": self.device, "batch_size": BATCH}
            with Runner(self.corpora[of].sample, random.Random(0)) as runner:
                record = runner.control(Bound(corpus=str(self.corpora[of].root), settings=settings))
            self.ceilings[of] = record["items_per_second"]
            return self.compared({"items_per_second": self.ceilings[of], "wrong": record["reason"]}, of)

        return take

    def measure(self, named: Sequence[str]) -> None:
        """Add the rows of speeds: the ceilings, and those with one of `named` in their names."""
        self.add("in-memory ceiling", self.ceiling("audio"))
        self.add("in-memory ceiling, images", self.ceiling("images"))
        for dtype in ("float32", "int16") if self.device == "cuda" else ():
            self.add(f"bus, {dtype}", self.bus(dtype))
        for case in CASES:
            if any(words in case.name for words in named):
                self.add(case.name, self.loader(case))
        if self.device == "cuda" and any(words in RUNS for words in named):
            self.add(RUNS, self.forks)

    def forks(self, left: float) -> Row:
        """Return what runs by forks of the warm server are beside those by interpreters."""
        asked = ("--device", self.device, "--only", "ring", "--rounds", "2")
        command = [sys.executable, "-m", "bench.forks", *asked]
        done = subprocess.run(command, cwd=PROJECT, text=True, capture_output=True, check=True, timeout=left)
        return {"note": next(line for line in done.stdout.splitlines() if line.startswith("ring: "))}

    def compared(self, row: Row, of: str) -> Row:
        """Return a row with its speed in bytes as they are delivered, and beside the ceiling."""
        speed, ceiling = row["items_per_second"], self.ceilings.get(of)
        gigabytes = speed and speed * self.corpora[of].sample.bytes / 1e9
        return {**row, "gigabytes_per_second": gigabytes, "percent": speed and ceiling and 100 * speed / ceiling}

    def bus(self, dtype: str) -> Any:
        """Return what copies batches from page-locked memory on a stream of their own, with nothing else to do."""

        def take(_left: float) -> Row:
            import torch

            from scripts.machine import gpu

            shape = (BATCH, *self.corpora["audio"].sample.shape)
            host = [{"audio": gpu.empty_pinned(shape, getattr(torch, dtype)).zero_()} for _ in range(8)]
            copies, count = gpu.CopyStream("cuda"), 400
            for number in range(count + 8):
                if number == 8:
                    gpu.synchronize()
                    began = time.perf_counter()
                copies.arrived(copies.send(host[number % len(host)]))
            gpu.synchronize()
            return self.compared({"items_per_second": count * BATCH / (time.perf_counter() - began)}, "audio")

        return take

    def loader(self, case: Case) -> Any:
        """Return what measures a loader, proven first, by the program that measures all."""
        from scripts.common import plugins

        module, on_cpu = plugins.load("loaders", case.loader), ("workers", "prefetch")
        kept = {key: value for key, value in case.settings.items() if self.device != "cpu" or key in on_cpu}

        def take(left: float) -> Row:
            asked = json.dumps({**kept, "device": self.device, "batch_size": BATCH})
            told = ("--loader", case.loader, "--data", str(self.folder / case.of / module.FORMAT), "--settings", asked)
            record = self.run(case.of, left, *told, "--seconds", "2", *case.more)
            return self.compared(row_of(record, case.optional), case.of)

        return take


def drawn_images() -> Any:
    """Return what makes images for `make_corpus` that JPEG shrinks as it shrinks photographs, most of them quickly."""
    import numpy as np

    from scripts.sources._synthetic_images import Recipe, pixels

    drawn = [
        pixels(Recipe("green", SIDE, SIDE, quality=90, odd=""), np.random.default_rng(number))
        for number in range(DRAWN)
    ]

    def item(_sample: Any, random: np.random.Generator) -> np.ndarray:
        return np.roll(drawn[random.integers(DRAWN)], random.integers(SIDE, size=2), axis=(0, 1))

    return item


def row_of(record: Row, optional: bool) -> Row:
    """Return the row of a loader's record. What is optional may be skipped, and is no error then."""
    from scripts.decide.utilisation import feeding

    steps, trials = record.get("steps"), record.get("bottleneck_trials") or {}
    told = None if record["status"] == "ok" else f"{record['status']}: {record['reason']}"
    skipped = optional and record["status"] == "skipped"
    return {
        "items_per_second": record["items_per_second"],
        "minimum_step_ms": feeding(steps["plain"]["period_ms"], steps).minimum_step_ms() if steps else None,
        "without_copy": trials.get("without", {}).get("host_to_device"),
        "busy_percent": (record.get("memory") or {}).get("gpu_utilisation_mean_percent"),
        "wrong": None if skipped else told,
        "note": "; ".join([told] * skipped + [warning["code"] for warning in record["warnings"]]),
    }


def table(rows: list[Row]) -> str:
    """Return the rows as text."""
    lines = [HEADINGS]
    for row in rows:
        names = ("items_per_second", "gigabytes_per_second", "percent", "minimum_step_ms", "without_copy")
        numbers = (row.get(name) for name in (*names, "busy_percent", "seconds"))
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

    from scripts.common.versions import commit
    from scripts.machine import gpu, host

    described, versions = host.describe(("torch", "nvidia-dali-cuda120"))
    with contextlib.suppress(RuntimeError, ImportError):
        described["gpu_uuid"] = gpu.uuid()
    return {"device": device, "commit": commit(), "cuda": torch.version.cuda, "host": described, "versions": versions}


def main() -> None:
    """Run all, print the table, and end with status 1 where anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"for all of it (default: {MINUTES:g})")
    parser.add_argument("--items", type=int, default=ITEMS, help=f"and images (default: {ITEMS})")
    parser.add_argument("--only", choices=("tests", "speed"), help="of the two parts (default: both)")
    parser.add_argument(
        "--rows", nargs="+", default=[""], help="of the speeds those with one of these in their names: images"
    )
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
        bench = Bench(Path(folder), device, left, arguments.items, 1 if arguments.rehearse else CLIP_SECONDS)
        if arguments.only != "speed":
            bench.add("tests on the GPU", bench.tests(ON_A_GPU))
            bench.add("the same, stream sanitizer", bench.tests(STREAMS, TORCH_CUDA_SANITIZER="1"))
        if arguments.only != "tests":
            bench.make_data()
            bench.measure(arguments.rows)
        found = {**machine(device), "rows": bench.rows}
        if arguments.json:
            arguments.json.write_text(json.dumps(found, indent=1) + "\n")
        what = "REHEARSAL ON A CPU: no number is a GPU's" if device == "cpu" else ", ".join(found["host"]["gpus"])
        print(f"\n{what}; commit {found['commit']}, torch {found['versions']['torch']}, CUDA {found['cuda']}\n")
        print(table(bench.rows))
    wrong = [row["name"] for row in bench.rows if row["wrong"]]
    if wrong:
        sys.exit(f"error: {len(wrong)} of {len(bench.rows)} are wrong: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
