"""The loop closed: a slow training, attach, the workflow with `training: attach.json`, the program of the page, attach.

    python -m bench.closed_loop                  # three trainings, some fifteen minutes
    python -m bench.closed_loop --only flac

Each training waits for a device (a sleep) and computes a little, as one on a GPU does. Its data is made here. Printed
are AU and items a second before, as the session predicted them, and after. Ends with status 1 where a prediction is off
by more than 5 points of AU or 5 % of the speed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scripts.common.files import PROJECT
from scripts.common.vocabulary import SPIN_COUNT
from tests.support.workflow_copy import left_out

ATTACH = PROJECT / "scripts/attach/feedrate_attach.py"
RATE, SECONDS, ITEMS, BATCH = 16_000, 10, 320, 16
DATASET = "mine"
# Before and after, as the program of the page says: with torch's threads as they are, half of the steps below stall for
# 10 to 15 ms on two cores, which is no loader's fault.
ENVIRONMENT = {**os.environ, "GOMP_SPINCOUNT": SPIN_COUNT}
LOADERS = ["numpy_memmap", "lazy_memmap", "resident", "ring"]


class Training(NamedTuple):
    """A training: how its data is made, its own loader, what becomes of a batch, and the config of its data."""

    make: Any
    loader: str  # Python that makes `loader`
    batch: str  # Python that makes `x` of `batch`, before the change
    batch_after: str  # the same of the program's batches
    data: dict[str, Any]
    prepare: str = ""  # Python that writes what the workflow reads, where that is not the folder itself


STEP = """
import torch
network = torch.nn.Linear(512, 10)
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)


def train(x):
    loss = network(x.reshape(len(x), -1)[:, :512].float()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep({seconds})  # what a device would do
"""


def make_flac(folder: Path) -> None:
    """Write FLAC files of noise below tones."""
    import soundfile

    noise = np.random.default_rng(0)
    for number in range(ITEMS):
        time = np.arange(RATE * SECONDS) / RATE
        sound = 0.3 * np.sin(2 * np.pi * (200 + number) * time) + 0.02 * noise.standard_normal(len(time))
        path = folder / str(number % 4) / f"{number}.flac"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, sound.astype(np.float32), RATE)


def make_wav(folder: Path) -> None:
    """Write WAV files."""
    import soundfile

    make_flac(folder)
    for path in folder.rglob("*.flac"):
        sound, rate = soundfile.read(path, dtype="int16")
        soundfile.write(path.with_suffix(".wav"), sound, rate)
        path.unlink()


def make_jpeg(folder: Path) -> None:
    """Write JPEG images of 320 x 240."""
    from PIL import Image

    noise = np.random.default_rng(0)
    for number in range(2 * ITEMS):
        small = noise.integers(0, 256, (12, 16, 3), dtype=np.uint8)
        path = folder / str(number % 4) / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(small).resize((640, 480), Image.Resampling.BICUBIC).save(path, quality=90)


FLAC = """
class Own(torch.utils.data.Dataset):
    sample_rate = 16000

    def __init__(self):
        self.paths = sorted(Path(FOLDER).rglob("*.flac"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, number):
        sound, _ = soundfile.read(self.paths[number], dtype="float32")
        start = torch.randint(len(sound) - 32000, ()).item()
        return torch.from_numpy(sound[start : start + 32000]), int(self.paths[number].parent.name)


loader = torch.utils.data.DataLoader(Own(), batch_size=16, shuffle=True, num_workers=1)
"""
MEL = """
class Own(torch.utils.data.Dataset):
    def __init__(self):
        self.paths = sorted(Path(FOLDER).rglob("*.wav"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, number):
        sound, _ = soundfile.read(self.paths[number], dtype="float32")
        mel = torchaudio.transforms.MelSpectrogram(16000, n_fft=1024, hop_length=512, n_mels=80)
        return mel(torch.from_numpy(sound)).clamp_min(1e-6).log(), int(self.paths[number].parent.name)


loader = torch.utils.data.DataLoader(Own(), batch_size=16, shuffle=True, num_workers=1)
"""
JPEG = """
class Own(torch.utils.data.Dataset):
    def __init__(self):
        self.paths = sorted(Path(FOLDER).rglob("*.jpg"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, number):
        image = Image.open(self.paths[number]).convert("RGB").resize((128, 128))
        return torch.from_numpy(np.array(image)).permute(2, 0, 1), int(self.paths[number].parent.name)


loader = torch.utils.data.DataLoader(Own(), batch_size=16, shuffle=True, num_workers=1)
"""
WRITE_MEL = """
for number, (mel, label) in enumerate(Own()):
    path = Path(OUT) / str(label) / f"{number}.npy"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, mel.numpy())
"""
IMPORTS = """
import time
from pathlib import Path

import numpy as np
import soundfile
import torch
import torchaudio
from PIL import Image
"""
CROP = """start = torch.randint(batch["audio"].shape[-1] - 32000, ()).item()
        x = batch["audio"][..., start : start + 32000]"""
TRAININGS = {
    "flac, crops": Training(make_flac, FLAC, "x = batch[0]", CROP, {"source": "folder", "kind": "audio"}),
    "mel in the worker": Training(
        make_wav, MEL, "x = batch[0]", 'x = batch["array"]',
        {"source": "folder", "kind": "array", "shape": [80, 313]}, WRITE_MEL,
    ),
    "jpeg": Training(
        make_jpeg, JPEG, "x = batch[0]", 'x = batch["image"]',
        {"source": "folder", "kind": "image", "size": [128, 128]},
    ),
}  # fmt: skip
LOOP = """
for epoch in range(100000):
    for batch in loader:
        {batch}
        train(x)
"""


def call(words: list[str], folder: Path, name: str) -> str:
    """Run a program; return what it printed. Raises RuntimeError with that where it fails."""
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=ENVIRONMENT)
    (folder / f"{name}.log").write_text(done.stdout + done.stderr)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def attached(folder: Path, name: str) -> dict[str, Any]:
    """Return attach.json of a script in the folder."""
    call([sys.executable, str(ATTACH), "--out", f"{name}.json", "--budget", "40", f"{name}.py"], folder, name)
    return json.loads((folder / f"{name}.json").read_text())


def closed(training: Training, folder: Path, seconds: float, minutes: float) -> dict[str, Any]:
    """Go round the loop once; return attach.json before, the session's prediction, and attach.json after."""
    data = folder / "data"
    training.make(data)
    head, step = IMPORTS + f"FOLDER = {str(data)!r}\nOUT = {str(folder / 'out')!r}\n", STEP.format(seconds=seconds)
    (folder / "before.py").write_text(head + training.loader + step + LOOP.format(batch=training.batch))
    before = attached(folder, "before")
    if training.prepare:
        (folder / "prepare.py").write_text(head + training.loader + training.prepare)
        call([sys.executable, "prepare.py"], folder, "prepare")
        data = folder / "out"
    project = folder / "project"
    shutil.copytree(PROJECT, project, ignore=left_out)
    given = {
        "dataset": DATASET,
        "preset": "quick",
        "training": str(folder / "before.json"),
        "datasets": {DATASET: {**training.data, "path": str(data)}},
        "loaders": LOADERS,
        "measure": {"minutes": minutes},
        "report": {"now": None},
        "sweep": {"cache": ["warm"]},
        "audio": {"seconds": SECONDS},  # whole recordings: the crop is taken in the loop
    }
    words = [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in given.items()]
    print(call([sys.executable, "-m", "snakemake", "--cores", "2", "--config", *words], project, "snakemake")[-2500:])
    tables = project / "results" / "tables" / DATASET
    verdict = json.loads((tables / "verdict.json").read_text())
    loader, tier, slug = verdict["answers"][0]["choice"].split("/")
    words = ["--tables", str(tables), "--loader", loader, "--tier", tier, "--slug", slug]
    program = call([sys.executable, "-m", "scripts.feedrate", "program", *words], project, "program")
    program = program.replace('Path("results/', f'Path("{project}/results/')
    body, found, _ = program.partition("\nfor batch in loader")
    if not found:
        raise RuntimeError(f"the program of {loader} has no loop over `loader`:\n{program}")
    shutil.copy(PROJECT / "scripts/loaders/_ring/ring_reader.py", folder)
    watched = (
        body if "DataLoader(" in body else body + "\nimport feedrate_attach\n\nloader = feedrate_attach.watch(loader)\n"
    )
    (folder / "after.py").write_text(watched + "\nimport time\n" + step + LOOP.format(batch=training.batch_after))
    after = attached(folder, "after")
    return {"before": before, "verdict": verdict, "after": after}


def main() -> None:
    """Close the loop for each training, and print what was predicted and what came."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="", help="part of a training's name")
    options.add_argument("--minutes", type=float, default=2.0, help="of each session (default: 2)")
    options.add_argument("--step", type=float, default=0.02, help="seconds that the device takes (default: 0.02)")
    given = options.parse_args()
    bad = 0
    for name, training in TRAININGS.items():
        if given.only not in name:
            continue
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            found = closed(training, Path(folder), given.step, given.minutes)
        before, after, said = found["before"], found["after"], found["verdict"]["training"]
        points = after["au"]["percent"] - said["choice_au"]
        percent = 100 * (after["items_per_second"] / said["choice_items_per_second"] - 1)
        bad += abs(points) > 5 or abs(percent) > 5
        au = [before["au"]["percent"], said["choice_au"], after["au"]["percent"]]
        rates = [before["items_per_second"], said["choice_items_per_second"], after["items_per_second"]]
        print(f"{name}: {found['verdict']['answers'][0]['choice']}; before, predicted, after:")
        print(
            f"  AU {' '.join(f'{one:.1f}' for one in au)}; items/s {' '.join(f'{one:,.0f}' for one in rates)}",
            flush=True,
        )
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
