"""The programs that a report offers for its results: each is run, alone, and must deliver what the loader does."""

import ast
import os
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from scripts.common import isolated, plugins
from scripts.common.corpus import Corpus
from scripts.common.location import PATH
from scripts.common.sample import Sample, audio
from scripts.common.settings import TABLE, by_hand
from scripts.kinds import crops, image
from scripts.loaders import _bundle, _program
from scripts.plan.sweep import combinations
from tests.common.test_isolated import installed_or_skip
from tests.loaders.test_loaders import skip_what_is_no_gpus_concern
from tests.support.handed_out import data_of, run_program
from tests.support.isolated_cases import is_isolated
from tests.support.loader_cases import BATCH_SIZE, request_for, unsuited
from tests.support.made_corpus import make_corpus
from tests.support.object_stores import ObjectStore, object_store_if_installed
from tests.support.programs import PROJECT
from tests.support.warm_python import WarmPython

ITEMS = 27  # with a quarter in validation: 21 in train, so that the last batch of 8 is short
PREFETCH = 2
SEED = 3
CLASSES = 5  # of a corpus that is made up
LOADERS = plugins.names("loaders")
IMAGES = image.Kind((20, 24))
# What is run after a program: two epochs of its loader, a second and a third one after its own.
CHECK = """
import sys as _sys

import numpy as _numpy


def _rows(batch):
    batch = on_arrival(batch) if "on_arrival" in globals() else batch  # as the program's loop does
    named = not isinstance(batch, tuple | list)
    data, target = (batch[KEY], batch["target"]) if named else batch[:2]
    assert str(data.dtype) == "torch.DTYPE" and target.dtype == torch.int64 and data.shape[1:] == SHAPE, batch
    return data.cpu().numpy().copy(), target.cpu().numpy().copy()


if __name__ == "__main__":  # and in none of the processes that it starts again
    _found = {}
    for _epoch in range(2):
        _data, _target = zip(*(_rows(_batch) for _batch in loader))
        _found |= {f"data{_epoch}": _numpy.concatenate(_data), f"target{_epoch}": _numpy.concatenate(_target)}
        _found[f"sizes{_epoch}"] = [len(_batch) for _batch in _data]
    _numpy.savez(_sys.argv[1], **_found)
"""


def settings_of(loader: str, workers: int = 2, device: str = "cpu", pin_memory: bool = False, **options) -> dict:
    """Return complete settings of a run, simplified as the plan does it."""
    module = plugins.load("loaders", loader)
    lists = by_hand() | {name: [value] for name, value in options.items() if name in TABLE}
    lists |= {"device": [device], "batch_size": [BATCH_SIZE], "workers": [workers], "prefetch": [PREFETCH]}
    lists["pin_memory"] = [pin_memory]
    chosen = {name: options.get(name, part["default"]) for name, part in getattr(module, "OPTIONS", {}).items()}
    [settings] = combinations(module, lists | {name: [value] for name, value in chosen.items()})
    return settings


def sample_of(loader: str) -> Sample:
    """Return what the items are that a loader reads: of audio where it can."""
    kinds = plugins.kinds(plugins.load("loaders", loader))
    if "crops" in kinds:
        return crops.Kind(48_000, 3, 0, channels=2).sample
    return audio(160_000) if "audio" in kinds else IMAGES.sample


def program(loader: str, data="/data", seed=0, versions=None, more=None, sample=None, **settings) -> str:
    """Return the program of a loader with these settings, and those in `more`."""
    module, sample = plugins.load("loaders", loader), sample or sample_of(loader)
    about = plugins.describe(plugins.load("formats", module.FORMAT))
    complete = settings_of(loader, **settings) | (more or {})
    return _program.program(module, complete, about, data, sample, seed, versions, CLASSES)


def other_values(loader: str) -> list[dict]:
    """Each value of a choice that is not its default."""
    options = getattr(plugins.load("loaders", loader), "OPTIONS", {})
    return [
        {name: value} for name, part in options.items() for value in part.get("enum", []) if value != part["default"]
    ]


def case(loader: str, workers: int, options: dict):
    """Return a parameter of a test with a name to select it by."""
    chosen = [f"{name}={value}" for name, value in options.items()]
    return pytest.param(loader, workers, options, id="-".join([loader, str(workers), *chosen]))


def another(loader: str, options: dict) -> bool:
    """Whether a choice makes another program, and not the same one with another number in it."""
    texts = (program(loader, workers=0, **chosen) for chosen in (options, {}))
    return len({re.sub(r"\b\d+\b", "0", text.split("\n\n", 1)[1]) for text in texts}) > 1


# With workers; without, where settings are null, of those that have workers; the other values of each choice.
# Those of recordings: tests/loaders/test_crops.py.
OF_ITEMS = [loader for loader in LOADERS if sample_of(loader).kind != "crops"]
CASES = [case(loader, 2, {}) for loader in OF_ITEMS]
CASES += [
    case(loader, 0, options)
    for loader in OF_ITEMS
    for options in [one for one in other_values(loader) if another(loader, one)] or [{}]
    if options or program(loader, workers=0) != program(loader, workers=2)
]
CASES.append(case("numpy_memmap", 0, {"allocator": "keep"}))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Corpus:
    """A corpus with items shorter and longer than the fixed length."""
    return make_corpus(
        tmp_path_factory.mktemp("corpus") / "made", items=ITEMS, seconds=0.064
    )  # 2 KiB of int16: disk blocks


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> Corpus:
    """A corpus of images."""
    return make_corpus(tmp_path_factory.mktemp("images") / "made", items=ITEMS, kind=IMAGES)


@pytest.fixture(scope="module")
def placed(tmp_path_factory) -> dict[str, Path]:
    """The folders of the formats that have been asked for, by the key of a batch."""
    return {key: tmp_path_factory.mktemp(key) for key in ("audio", "image")}


@pytest.fixture(scope="module")
def stores(tmp_path_factory) -> Iterator[dict[str, ObjectStore | None]]:
    """What serves the formats to programs that read a bucket, by the key of a batch."""
    with ExitStack() as served:
        yield {
            key: served.enter_context(object_store_if_installed(tmp_path_factory.mktemp("objects")))
            for key in ("audio", "image")
        }


@pytest.fixture(scope="session")
def warm() -> Iterator[Callable[[str], WarmPython]]:
    """What runs most programs: an interpreter for the main environment and for each isolated one, when first asked."""
    with ExitStack() as running:

        @cache
        def of_environment(env: str) -> WarmPython:
            if not isolated.folder(env).is_dir():
                return running.enter_context(WarmPython())
            imported = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["feedrate"]["isolated"]
            return running.enter_context(WarmPython(imported[env], path=isolated.search_path(env)))

        yield of_environment


@pytest.mark.parametrize(("loader", "workers", "options"), CASES)
def test_a_program_delivers_every_item_once_bit_identical(
    corpus, images, placed, stores, warm, tmp_path, loader, workers, options
):
    """In two epochs, in different orders, in batches of the size asked for."""
    of_loader = corpus if sample_of(loader).kind == "audio" else images
    delivers_every_item(of_loader, placed, stores, warm, tmp_path, loader, workers, options)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("loader", OF_ITEMS)
def test_a_program_on_a_gpu(corpus, images, placed, stores, tmp_path, loader):
    """Each by an interpreter of its own: CUDA can be used in no fork of a process that has used it."""
    skip_what_is_no_gpus_concern(plugins.load("loaders", loader))
    of_loader = corpus if sample_of(loader).kind == "audio" else images
    on_it = {"device": "cuda", "pin_memory": True}
    delivers_every_item(of_loader, placed, stores, None, tmp_path, loader, 2, {}, **on_it)


def test_a_program_runs_by_an_interpreter_of_its_own(corpus, placed, stores, tmp_path):
    """As a user runs it; most others are forks of one interpreter."""
    delivers_every_item(corpus, placed, stores, None, tmp_path, "soundfile", 2, {})


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_a_program_whose_workers_are_no_forks(corpus, placed, stores, tmp_path, method):
    how = {"start_method": method, "persistent_workers": False}
    delivers_every_item(corpus, placed, stores, None, tmp_path, "soundfile", 1, {}, **how)


def delivers_every_item(corpus, placed, stores, warm, tmp_path, loader, workers, options, **settings) -> None:
    """Run a program, with `settings` that are no options, and compare what it delivers with the corpus."""
    key, store = corpus.sample.key, stores[corpus.sample.key]
    expected = Counter((corpus.delivered(item).tobytes(), item.classes[0]) for item in corpus.items("train"))
    module = plugins.load("loaders", loader)
    if is_isolated(module):
        installed_or_skip(isolated.env_of(module))
    data = data_of(corpus, placed[key], loader)
    environment, where = os.environ, data.parent
    if PATH not in getattr(module, "READS", (PATH,)):
        where = store.place(data.parent, module.FORMAT)
        where = store.as_aistore(where) if module.READS[0] == "ais" else where
        data, environment = where.index / "train", {**os.environ, "AWS_ENDPOINT_URL": where.endpoint}
    request = request_for(corpus, loader, where, workers=workers, options=options, **settings)
    if reason := unsuited(module, request):
        pytest.skip(reason)
    check = CHECK.replace("KEY", repr(key)).replace("DTYPE", corpus.sample.dtype)
    check = check.replace("SHAPE", repr(corpus.sample.shape))
    text = program(loader, data, SEED, sample=corpus.sample, workers=workers, **options, **settings) + check
    limit = plugins.pixel_limit(module, options | settings, corpus.sample)
    out, env = tmp_path / "found.npz", isolated.env_of(module)
    done = run_program(text, env, tmp_path, out, environment=environment, warm=warm)
    assert done.returncode == 0, done.stderr[-3000:]
    with np.load(tmp_path / "found.npz") as found:
        orders = [found[f"data{epoch}"].tobytes() for epoch in range(2)]
        for epoch in range(2):
            data, target = found[f"data{epoch}"], found[f"target{epoch}"].tolist()
            rows = nearest_to(corpus, data, limit) if limit else data
            assert Counter(zip((row.tobytes() for row in rows), target, strict=True)) == expected
            short = [size for size in found[f"sizes{epoch}"] if size != BATCH_SIZE]
            assert len(short) <= max(1, workers) and max(short, default=0) < BATCH_SIZE
    written = b"".join(data for data, _ in expected)
    assert orders[0] != orders[1] and written not in orders


def nearest_to(corpus: Corpus, rows: np.ndarray, limit: int) -> np.ndarray:
    """Return for each row the item of the corpus that it is, decoded otherwise by no more than `limit`."""
    items = np.stack([corpus.delivered(item) for item in corpus.items("train")])
    differences = [np.abs(items.astype(int) - row).reshape(len(items), -1) for row in rows.astype(int)]
    assert max(found.max(axis=1).min() for found in differences) <= limit
    return items[[found.mean(axis=1).argmin() for found in differences]]


def every_text() -> dict[str, str]:
    """The programs of all loaders, with each value of their choices, with and without workers and a GPU."""
    texts = {}
    for loader in LOADERS:
        for options in [{}, *other_values(loader)]:
            for number, changes in enumerate(
                ({"workers": 0}, {"workers": 2}, {"workers": 2, "device": "cuda", "pin_memory": True})
            ):
                name = "_".join([loader, *map(str, options.values()), str(number)])
                texts[name] = program(loader, **changes, **options)
        texts[f"{loader}_keep"] = program(loader, more={"allocator": "keep"})
    return texts


def test_programs_are_valid_and_formatted_and_lint_clean(tmp_path):
    """As ruff sees it, with the project's own settings."""
    texts = every_text()
    for name, text in texts.items():
        compile(text, name, "exec")
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    config = ["--config", PROJECT / "pyproject.toml", "--no-cache"]
    for command in (["format", "--diff"], ["check"]):
        done = subprocess.run(["ruff", *command, *config, tmp_path], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-500:]


@pytest.mark.parametrize("loader", LOADERS)
def test_a_program_uses_libraries_alone(loader):
    """It imports nothing of feedrate but the reader that stands alone, and needs what the loader requires."""
    text = program(loader)
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module.split(".")[0])
    own = {path.stem for path in plugins.SCRIPTS.glob("*.py")} | set(plugins.KINDS)
    assert imported & own <= {"ring_reader"}
    assert "torch" in imported


def test_says_what_it_is_what_it_needs_and_what_it_reads():
    versions = {"torch": "2.11.0", "soundfile": "0.14.0", "numpy": None}
    heading = program("soundfile", versions=versions, more={"device_prefetch": 2}).split("\n\n")[0]
    assert heading.startswith(f"# soundfile: {plugins.describe(plugins.load('loaders', 'soundfile'))}")
    assert f"# As feedrate measured it: device cpu, batch {BATCH_SIZE}, 2 workers, prefetch {PREFETCH}" in heading
    assert f"format wav: {plugins.describe(plugins.load('formats', 'wav'))}"[:60] in heading
    assert "copied 2 batches to the GPU ahead" in heading
    assert heading.splitlines()[-1] == "# pip install torch==2.11.0 soundfile==0.14.0 numpy"


@pytest.mark.parametrize(("decoder", "library"), [("simplejpeg", "simplejpeg==1.9.0"), ("pillow", "pillow")])
def test_needs_the_library_of_the_chosen_option(decoder, library):
    text = program("image_files", versions={"simplejpeg": "1.9.0"}, decoder=decoder)
    assert text.split("\n\n")[0].endswith(f"# pip install torch numpy opencv-python-headless {library}")


@pytest.mark.parametrize("loader", LOADERS)
def test_keeping_freed_memory_is_set_before_anything_is_loaded(loader):
    text, usual = program(loader, more={"allocator": "keep"}), program(loader)
    first = text.index("libc.mallopt(-3, 1 << 30)")
    assert first < text.index("libc.mallopt(-1, (1 << 31) - 1)") < text.index("Path(")
    assert "mallopt" not in usual and len(text.splitlines()) <= len(usual.splitlines()) + 8
    assert "libc" not in usual and program(loader, more={"allocator": None}) == usual


@pytest.mark.parametrize("name", ["plain", "it's", 'qu"ote', "both'\"", "back\\slash", "ümlaut $data", "new\nline"])
def test_a_path_of_any_characters_arrives_as_it_is(name):
    """As a literal: it can neither end the text's quotes nor name something to replace."""
    text = program("npy", Path("/data", name))
    [literal] = [
        node.args[0].value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Path"
    ]
    assert literal == f"/data/{name}"


def test_parameters_by_name_alone_and_what_is_async_are_in_a_program(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "SIZE: int = 4\n\n\nasync def fetch(size):\n    return size\n\n\n"
        "def make_loader(data, *, key, size=SIZE, unused=1):\n    return data, key, fetch(size)\n"
    )
    settings = settings_of("npy", workers=0)
    text = _bundle.Program(settings, sample_of("npy"), Path("/data"), 0).text(file)
    compile(text, "mine.py", "exec")
    assert "SIZE: int = 4" in text and "async def fetch" in text
    assert "def make_loader(data, *, key, size=SIZE):" in text and 'make_loader(Path("/data"), key="audio")' in text
