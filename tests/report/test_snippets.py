"""The programs that a report offers for its results: each is run, alone, and must deliver what the loader does."""

import ast
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from scripts.common import isolated, plugins
from scripts.common.corpus import Corpus, to_float
from scripts.common.errors import UserError
from scripts.plan.sweep import combinations
from scripts.report import snippets
from scripts.tables.records import setting_columns
from tests.common.test_isolated import installed_or_skip
from tests.support.format_program import command as format_command
from tests.support.isolated_cases import is_isolated
from tests.support.loader_cases import BATCH_SIZE, request_for, write_format
from tests.support.made_corpus import make_corpus
from tests.support.programs import PROJECT

CLIPS = 27  # with a quarter in validation: 21 in train, so that the last batch of 8 is short
PREFETCH = 2
SEED = 3
READERS = 2
LOADERS = plugins.names("loaders")
# What is run after a program: two epochs of its loader, a second and a third one after its own.
CHECK = """
import sys as _sys

import numpy as _numpy


def _rows(batch):
    named = not isinstance(batch, tuple | list)
    audio, target = (batch["audio"], batch["target"]) if named else batch[:2]
    assert audio.dtype == torch.float32 and target.dtype == torch.int64 and audio.shape[1] == 1, batch
    return audio.cpu().numpy().copy(), target.cpu().numpy().copy()


if __name__ == "__main__":  # and in none of the processes that it starts anew
    _found = {}
    for _epoch in range(2):
        _audio, _target = zip(*(_rows(_batch) for _batch in loader))
        _found |= {f"audio{_epoch}": _numpy.concatenate(_audio), f"target{_epoch}": _numpy.concatenate(_target)}
        _found[f"sizes{_epoch}"] = [len(_batch) for _batch in _audio]
    _numpy.savez(_sys.argv[1], **_found)
"""


def row_of(loader: str, workers: int = 2, device: str = "cpu", pin_memory: bool = False, **options) -> dict:
    """Return the columns of a result with these settings, simplified as the plan does it."""
    module = plugins.load("loaders", loader)
    lists = {"device": [device], "batch_size": [BATCH_SIZE], "workers": [workers], "prefetch": [PREFETCH]}
    lists |= {"pin_memory": [pin_memory], "device_prefetch": [0]}
    chosen = {name: options.get(name, part["default"]) for name, part in getattr(module, "OPTIONS", {}).items()}
    [settings] = combinations(module, lists | {name: [value] for name, value in chosen.items()})
    return {"loader": loader, **setting_columns(settings)}


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


# With workers, and without those where other code runs then: the other values of each choice.
CASES = [case(loader, 2, {}) for loader in LOADERS]
CASES += [case(loader, 0, options) for loader in LOADERS for options in other_values(loader)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Corpus:
    """A corpus with clips shorter and longer than the fixed length."""
    return make_corpus(
        tmp_path_factory.mktemp("corpus") / "made", clips=CLIPS, seconds=0.064
    )  # 2 KiB of int16: disk blocks


@pytest.fixture(scope="module")
def expected(corpus) -> Counter:
    """How often each (audio, target) is in the train split: once."""
    return Counter((to_float(corpus.padded(clip)).tobytes(), clip.classes[0]) for clip in corpus.clips("train"))


@pytest.fixture(scope="module")
def placed(tmp_path_factory) -> Path:
    """The folder of the formats that have been asked for."""
    return tmp_path_factory.mktemp("placed")


def data_of(corpus: Corpus, placed: Path, loader: str) -> Path:
    """Return the split's folder, its format written if this loader is the first to ask for it."""
    name = plugins.load("loaders", loader).FORMAT
    folder = placed / name
    if not folder.exists():
        folder.mkdir()
        if is_isolated(plugins.load("formats", name)):  # its library is in no process but its own
            subprocess.run(format_command(name, corpus, folder), check=True, capture_output=True)
        else:
            write_format(corpus, name, folder / "out", READERS)
    return folder / "out" / "train"


def run_program(text: str, env: str, folder: Path) -> subprocess.CompletedProcess:
    """Run a program and then CHECK, without feedrate on its path, in the environment of its library."""
    program = folder / "program.py"
    program.write_text(text + CHECK, encoding="utf-8")
    shutil.copy(
        PROJECT / "scripts" / "loaders" / "_ring" / "ring_reader.py", folder
    )  # which stands alone, to be copied
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if isolated.folder(env).is_dir():
        environment["PYTHONPATH"] = isolated.search_path(env)
    return subprocess.run(
        [sys.executable, program, folder / "found.npz"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize(("loader", "workers", "options"), CASES)
def test_a_program_delivers_every_clip_once_bit_identical(corpus, placed, expected, tmp_path, loader, workers, options):
    """In two epochs, in different orders, in batches of the size asked for."""
    module = plugins.load("loaders", loader)
    if is_isolated(module):
        installed_or_skip(isolated.env_of(module))
    row = row_of(loader, workers, **options)
    data = data_of(corpus, placed, loader)
    request = request_for(corpus, loader, data.parent, workers=workers, options=options)
    reason = getattr(module, "unsuited", lambda _request: None)(request)
    if reason:
        pytest.skip(reason)
    done = run_program(snippets.snippet(row, data, corpus.samples, SEED), isolated.env_of(module), tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    with np.load(tmp_path / "found.npz") as found:
        orders = [found[f"audio{epoch}"].tobytes() for epoch in range(2)]
        for epoch in range(2):
            audio, target = found[f"audio{epoch}"], found[f"target{epoch}"].tolist()
            assert Counter(zip((row.tobytes() for row in audio), target, strict=True)) == expected
            short = [size for size in found[f"sizes{epoch}"] if size != BATCH_SIZE]
            assert len(short) <= max(1, workers) and max(short, default=0) < BATCH_SIZE
    written = b"".join(audio for audio, _ in expected)
    assert orders[0] != orders[1] and written not in orders


def every_text() -> dict[str, str]:
    """The programs of all loaders, with each value of their choices, with and without workers and a GPU."""
    texts = {}
    for loader in LOADERS:
        for options in [{}, *other_values(loader)]:
            for number, changes in enumerate(
                ({"workers": 0}, {"workers": 2}, {"workers": 2, "device": "cuda", "pin_memory": True})
            ):
                row = row_of(loader, **changes, **options)
                name = "_".join([loader, *map(str, options.values()), str(number)])
                texts[name] = snippets.snippet(row, Path("/data/train"), 160_000)
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
    text = snippets.snippet(row_of(loader), Path("/data"), 160_000)
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
    row = row_of("soundfile") | {"options": json.dumps({"device_prefetch": 2})}
    heading = snippets.snippet(row, Path("/data"), 160_000).split("\n\n")[0]
    assert heading.startswith(f"# soundfile: {plugins.describe(plugins.load('loaders', 'soundfile'))}")
    assert f"# As feedrate measured it: device cpu, batch {BATCH_SIZE}, 2 workers, prefetch {PREFETCH}" in heading
    assert f"format wav: {plugins.describe(plugins.load('formats', 'wav'))}"[:60] in heading
    assert "copied 2 batches to the GPU ahead" in heading
    packages = heading.splitlines()[-1]
    assert packages.startswith("# pip install torch==") and " soundfile==" in packages and " numpy==" in packages


def test_packages_of_an_isolated_environment_have_its_versions():
    """mosaic has numpy in another version than the rest."""
    pins = [
        line
        for line in isolated.lock("mosaic").read_text().splitlines()
        if line.startswith(("numpy==", "mosaicml-streaming=="))
    ]
    heading = snippets.snippet(row_of("mosaic"), Path("/data"), 160_000).split("\n\n")[0]
    assert len(pins) == 2 and all(pin.split()[0] in heading.split() for pin in pins)


def test_settings_that_a_result_has_not_do_not_appear():
    with_workers = snippets.snippet(row_of("soundfile", workers=2), Path("/data"), 160_000)
    without = snippets.snippet(row_of("soundfile", workers=0), Path("/data"), 160_000)
    assert f"prefetch_factor={PREFETCH}" in with_workers and "persistent_workers=True" in with_workers
    assert "prefetch_factor" not in without and "persistent_workers" not in without
    assert "num_workers=0" in without and "pin_memory" not in without
    on_gpu = snippets.snippet(row_of("soundfile", device="cuda", pin_memory=True), Path("/data"), 160_000)
    assert "pin_memory=True" in on_gpu and '.to("cuda"' in on_gpu


def test_a_line_with_a_null_setting_is_left_out():
    literals = {"prefetch": None, "workers": "2"}
    text = "first\nkept($workers)\nlost($workers, $prefetch)\n    $more\n"
    filled = snippets._filled(text, literals, {"more": "a\nb"})
    assert filled == "first\nkept(2)\n    a\n    b"


@pytest.mark.parametrize("name", ["plain", "it's", 'qu"ote', "both'\"", "back\\slash", "ümlaut $data", "new\nline"])
def test_a_path_of_any_characters_arrives_as_it_is(name):
    """As a literal: it can neither end the text's quotes nor name something to replace."""
    text = snippets.snippet(row_of("npy"), Path("/data", name), 160_000)
    [literal] = [
        node.args[0].value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Path"
    ]
    assert literal == f"/data/{name}"


def test_a_loader_of_the_users_own_is_said_to_be_that():
    """Whatever it is called."""
    text = snippets.snippet(row_of("npy") | {"loader": "mine\nimport os"}, Path("/data"), 160_000)
    assert text.startswith("# mine import os is your own loader")
    assert ast.parse(text).body == []


def test_a_row_that_was_never_run_has_no_program():
    with pytest.raises(UserError, match="'npy': found a row without device and batch size"):
        snippets.snippet(row_of("npy") | {"batch_size": None}, Path("/data"), 160_000)


def test_a_loader_without_a_program_is_an_error_that_says_what_to_do(monkeypatch):
    monkeypatch.delattr(plugins.load("loaders", "npy"), "SNIPPET")
    with pytest.raises(UserError, match=r"'npy': found no SNIPPET in scripts/loaders/npy\.py; expected"):
        snippets.snippet(row_of("npy"), Path("/data"), 160_000)
