"""Makes a small corpus of each kind by the real programs, every format and its copy, and hashes what they write.

tests/data/golden.json holds the hashes beside the versions that they are of. To renew it, type:

    python -m tests.support.golden

That adds what is new or of another version, and refuses bytes that changed under the same version. Of the synthetic
sources the ledger is hashed alone: encoders and floating point differ between processors. `audioset`, `indexed`, `s3`
(a network) and `idx` (the time of its file is in its paths) have tests of their own.
"""

import contextlib
import hashlib
import io
import json
import subprocess
import sys
import tempfile
import wave
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from PIL import Image

from envs.install_isolated import installed
from scripts.common import isolated, plugins
from scripts.common.files import read_json, write_json
from scripts.common.versions import stage_version
from scripts.prepare import build_corpus, count_clips, fetch_clips, index_corpus, place_format, write_format
from tests.support.isolated_cases import is_isolated
from tests.support.programs import PROJECT, program_line

GOLDEN = PROJECT / "tests" / "data" / "golden.json"  # {"STAGE VERSION": hash}
RENEW = "python -m tests.support.golden"
KINDS = {
    "audio": {"sample_rate": 16_000, "seconds": 0.1, "min_seconds": 0.02},
    "image": {"size": [16, 24]},
    "array": {"shape": [3, 5]},
    "crops": {"sample_rate": 48_000, "seconds": 0.1, "min_seconds": 0.02, "items": "crops", "channels": 2},
}
SYNTHETIC = {
    "audio": ("synthetic", {"clips": 3}),
    "image": ("synthetic_images", {"images": 3, "side": 24}),
    "array": ("synthetic_arrays", {"arrays": 3}),
    "crops": ("synthetic_recordings", {"recordings": 3, "shortest": 0.5, "longest": 1}),
}


class Made(NamedTuple):
    """What one stage wrote: `version` is its own behind those of the stages before it, `files` have their VERSION."""

    version: str
    digest: str
    files: tuple[str, ...]


def make(root: Path, kinds: Iterable[str] = KINDS, formats: Sequence[str] = ()) -> dict[str, Made]:
    """Return what each stage writes, by "PROGRAM PLUG-IN KIND"; all is made below the empty `root`.

    Without `formats` it is every format that can be written here.
    """
    absent = missing_formats()
    formats = formats or [name for name in plugins.names("formats") if name not in absent]
    return {name: made for kind in kinds for name, made in _of_kind(kind, formats, root / kind)}


def missing_formats() -> dict[str, str]:
    """Return the isolated environment of each format that cannot be written here, since it is not installed."""
    modules = {name: plugins.load("formats", name) for name in plugins.names("formats")}
    envs = {name: isolated.env_of(module) for name, module in modules.items() if is_isolated(module)}
    return {name: env for name, env in envs.items() if not installed(env)}


def _of_kind(kind: str, formats: Sequence[str], root: Path) -> Iterator[tuple[str, Made]]:
    options = {name: part["default"] for name, part in plugins.load("kinds", kind).OPTIONS.items() if "default" in part}
    of_kind = ["--kind-options", json.dumps(options | KINDS[kind])]
    write_files(kind, root / "files")
    for source, given in (SYNTHETIC[kind], ("folder", {"path": str(root / "files")})):
        ledger = root / source / "ledger-0000.csv"
        places = ["--store", root / "store", "--ledger", ledger]
        _call(fetch_clips, "--source", source, "--options", json.dumps(given), *of_kind, *places)
        text = ledger.read_text(encoding="utf-8").replace(str(root), "ROOT")
        fetched = _made("fetch_clips", text.encode(), sources=source)
        yield f"fetch_clips {source} {kind}", fetched
    _call(count_clips, "--ledgers", ledger.parent, "--shards", 1, "--out", root / "clips.json")
    yield f"count_clips {kind}", _made("count_clips", (root / "clips.json").read_bytes(), before=fetched)
    corpus = root / "corpus"
    shard, of_kind = corpus / "shards" / "0000", ["--kind", kind, *of_kind]
    _call(build_corpus, "--ledger", ledger, "--store", root / "store", "--jobs", 1, *of_kind, "--out", shard)
    built = _made("build_corpus", shard, before=fetched, kinds=kind)
    yield f"build_corpus {kind}", built
    split = ["--validation", 0.4, "--split-seed", 1]
    _call(index_corpus, "--shards-dir", shard.parent, "--count", 1, *split, *of_kind, "--out", corpus)
    info = {key: value for key, value in read_json(corpus / "corpus.json").items() if key != "decoder"}  # its version
    texts = [json.dumps(info), *((corpus / f"{name}.csv").read_text() for name in ("manifest", "classes", "rejected"))]
    indexed = _made("index_corpus", "\n".join(texts).encode(), before=built, kinds=kind)
    yield f"index_corpus {kind}", indexed
    for name in formats:
        module = plugins.load("formats", name)
        if hasattr(module, "truth"):  # of a codec with loss: its bytes are the encoder's, and differ between processors
            continue
        if kind in (plugins.kinds(module)[:1] if is_isolated(module) else plugins.kinds(module)):
            yield from _of_format(name, kind, root, indexed)


def _of_format(name: str, kind: str, root: Path, indexed: Made) -> Iterator[tuple[str, Made]]:
    out = root / "formats" / name
    arguments = ["--format", name, "--corpus", root / "corpus", "--readers", 2]
    arguments += ["--out", out, "--record", f"{out}.json"]
    if is_isolated(plugins.load("formats", name)):  # a program of its own, which takes seconds: of one kind
        subprocess.run([*program_line("write_format"), *map(str, arguments)], check=True, capture_output=True)
    else:
        _call(write_format, *arguments)
    written = _made("write_format", out, before=indexed, kinds=kind, formats=name)
    yield f"write_format {name} {kind}", written
    tier = json.dumps({"path": str(root / "tier")})
    _call(place_format, "--tier", "disk", "--options", tier, "--source", out, "--copy", name, "--record", f"{out}.json")
    copied = _made("place_format", root / "tier" / name, before=written, tiers="posix")
    yield f"place_format posix {name} {kind}", copied


def _call(program: ModuleType, *arguments: Any) -> None:
    words, said = [program.__name__, *map(str, arguments)], io.StringIO()
    with patch.object(sys, "argv", words), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        program.main()


def _made(program: str, written: bytes | Path, before: Made | None = None, **used: str) -> Made:
    """Return what a program wrote: bytes, or the files below a folder; `used`: its plug-ins."""
    version = stage_version(f"prepare.{program}", *(plugins.load(*pair) for pair in used.items()))
    files = [f"scripts/prepare/{program}.py", *(f"scripts/{folder}/{name}.py" for folder, name in used.items())]
    total = hashlib.sha256()
    for path in sorted(written.rglob("*")) if isinstance(written, Path) else ():
        if path.is_file():
            content = path.read_bytes()
            total.update(f"{path.relative_to(written)}\0{len(content)}\0".encode() + content)
    if isinstance(written, bytes):
        total.update(written)
    version = f"{before.version}/{version}" if before else version
    return Made(version, total.hexdigest()[:16], tuple(files))


def write_files(kind: str, folder: Path) -> None:
    """Write recordings, images or arrays, the same on every machine: two classes, and one that is left out."""
    (folder / "one").mkdir(parents=True)
    (folder / "two").mkdir()
    for number in range(6):
        path = folder / ("one", "two")[number % 2] / f"file-{number}"
        if kind in ("audio", "crops"):
            frames, channels = (1000, 1600, 4100, 1599, 1601, 100)[number], 1 + number % 2
            values = np.arange(frames * channels) * (7919 + 2 * number) % 65536 - 32768
            with wave.open(f"{path}.wav", "wb") as file:
                file.setparams((channels, 2, 16_000, frames, "NONE", "not compressed"))
                file.writeframes(values.astype("<i2").tobytes())
        elif kind == "image":
            side = (16, 24, 40, 33, 17, 4)[number]
            values = np.arange(side * (side + 8) * 3) * (3 + number) // 5 % 256
            Image.fromarray(values.astype(np.uint8).reshape(side, side + 8, 3)).save(f"{path}.png")
        else:
            shape = (3, 5) if number < 5 else (5, 3)
            np.save(f"{path}.npy", np.arange(15, dtype=np.float32).reshape(shape) / (number + 1))
    if kind in ("audio", "crops"):
        rows = (f"{'two' if number % 2 else 'one'}/file-{number}.wav,b;a{number % 3}" for number in range(6))
        (folder / "labels.csv").write_text("\n".join(["file,labels", *rows, "absent.wav,a0"]) + "\n")


def problems(known: Mapping[str, str], found: Mapping[str, Made]) -> Iterator[str]:
    """Yield what `known`, as of golden.json, does not hold of what was made: another version, or other bytes."""
    for name, made in found.items():
        hashed = known.get(f"{name} {made.version}")
        if hashed is None:
            yield f"{name}: found version {made.version}, which {GOLDEN.name} does not hold. Type: {RENEW}"
        elif hashed != made.digest:
            yield (
                f"{name}: found other bytes under the same version {made.version}. Undo that, or raise VERSION in "
                f"{' or '.join(made.files)} so that data is made again; then type: {RENEW}"
            )


def renewed(known: Mapping[str, str], found: Mapping[str, Made]) -> dict[str, str]:
    """Return what golden.json is to hold: what was found, and what cannot be made here.

    Raises SystemExit for other bytes under the same version.
    """
    changed = {name: made for name, made in found.items() if f"{name} {made.version}" in known}
    if wrong := list(problems(known, changed)):
        raise SystemExit("\n".join(wrong))
    absent = missing_formats().keys()
    kept = {name: hashed for name, hashed in known.items() if absent & set(name.split())}
    return dict(sorted({**kept, **{f"{name} {made.version}": made.digest for name, made in found.items()}}.items()))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        golden = read_json(GOLDEN) if GOLDEN.is_file() else {}
        write_json(GOLDEN, renewed(golden, make(Path(folder))))
