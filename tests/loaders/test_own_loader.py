"""A loader in a file of the user's own: the documented example, its place in the plan, and errors shown as theirs."""

import json
import os
import random
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import yaml

from scripts.common import plugins
from scripts.common.corpus import SPLITS, Corpus
from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.common.ledger import LedgerRow, write_ledger
from scripts.common.plan_file import CALL
from scripts.common.request import LoaderRequest
from scripts.kinds import audio as audio_kind, image
from scripts.loaders import _own, _own_epochs
from scripts.loaders._bundle import Program
from scripts.machine.folders import location_of
from scripts.measure import by_hand, one_run
from scripts.measure.run import _one_line
from scripts.measure.runner import Runner
from scripts.plan.experiment import Plan
from scripts.prepare import build_corpus
from scripts.tables import ranking, records
from scripts.tables.ranking import run_row
from tests.support.loader_cases import write_format
from tests.support.made_corpus import make_corpus
from tests.support.programs import PROJECT, program_line
from tests.support.workflow_copy import ProjectCopy, folders

PAGE = (PROJECT / "docs" / "own_loader.md").read_text(encoding="utf-8")
EXAMPLE = re.search(r"<!-- file: mine.py -->\n```python\n(.*?)```", PAGE, re.DOTALL)[1]
WHOLE = '''"""A whole loader."""
from contextlib import contextmanager
import torch
from scripts.common import plugins
FORMAT = "memmap"
SETTINGS = ("workers", "prefetch")
OPTIONS = {"gather": {"enum": ["batch", "item"], "default": "item"}}

@contextmanager
def open_epochs(request):
    with plugins.load("loaders", "numpy_memmap").open_epochs(request) as epoch:
        yield epoch
'''


@pytest.fixture(scope="module")
def placed(tmp_path_factory):
    """A corpus and two formats of it."""
    folder = tmp_path_factory.mktemp("own")
    corpus = make_corpus(folder / "corpus", items=40, seconds=0.1)
    for name in ("wav", "memmap"):
        write_format(corpus, name, folder / name, readers=1)
    return folder


@pytest.fixture(scope="module")
def runner(placed):
    """Makes runs by forks of a warm server, as a session does: sooner than by an interpreter."""
    with Runner(Corpus(placed / "corpus").sample, random.Random(0)) as found:
        yield found


def run(placed, tmp_path, text, name="mine", data="wav", more=(), runner=None, **settings) -> dict:
    """Return the record of one run of a file with this text: by the program, or by a `runner`, in batches of 8."""
    (tmp_path / "mine.py").write_text(text)
    settings = {"batch_size": 8, **settings} if runner else settings
    asked = ["--loader", name, "--file", tmp_path / "mine.py"]
    asked += ["--data", placed / data, "--corpus", placed / "corpus", "--out", tmp_path / "run.json"]
    asked += ["--settings", json.dumps(settings), "--seconds", "0.1", "--bottlenecks", *more]
    if runner:
        wanted, _ = by_hand.run_of(by_hand.run_parser(None).parse_args(list(map(str, asked))))
        return runner.made(one_run.completed_result(one_run.loader_of(wanted), wanted), fork=True)
    done = subprocess.run([*program_line("run_loader"), *asked], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return read_json(tmp_path / "run.json")


@pytest.mark.parametrize("workers", [0, 2])
def test_the_documented_dataset_is_measured(placed, tmp_path, workers):
    record = run(placed, tmp_path, EXAMPLE, workers=workers)
    assert record["status"] == "ok", record["reason"]
    assert record["verification"]["ok"] and record["items_per_second"] > 0
    assert record["slug"] == ("cpu-b32-w2-p2" if workers else "cpu-b32-w0")
    assert set(record["bottleneck_trials"]["without"]) >= {"read", "everything"}


def test_a_whole_loader_is_measured(placed, tmp_path):
    record = run(placed, tmp_path, WHOLE, data="memmap")
    assert record["status"] == "ok", record["reason"]
    assert record["settings"]["gather"] == "item" and record["settings"]["pin_memory"] is None


def test_a_file_that_was_edited_since_its_proof_has_no_number(placed, runner, tmp_path):
    proof = tmp_path / "proof.json"
    proof.write_text(json.dumps(run(placed, tmp_path, EXAMPLE, runner=runner)))
    edited = run(placed, tmp_path, f"{EXAMPLE}EDITED = True\n", runner=runner, more=("--proof", str(proof)))
    assert (edited["status"], edited["reason"]) == ("failed", one_run.CHANGED)


BROKEN = [
    ("    return MyDataset(request.data)", "    return MyDataset(request.date)", 0, "AttributeError", "request.date)"),
    ("[index], dtype", "[index + 1000], dtype", 0, "IndexError", "self.files[index + 1000]"),
    ("[index], dtype", "[index + 1000], dtype", 2, "IndexError", "self.files[index + 1000]"),
    ("import soundfile\n", "import soundfiles\n", 0, "ModuleNotFoundError", "import soundfiles"),
]


@pytest.mark.parametrize(("right", "wrong", "workers", "error", "line"), BROKEN)
def test_an_error_is_shown_with_the_users_line(placed, runner, tmp_path, right, wrong, workers, error, line):
    text = EXAMPLE.replace(right, wrong)
    assert text != EXAMPLE
    record = run(placed, tmp_path, text, runner=runner, workers=workers)
    number = next(at for at, one in enumerate(text.splitlines(), start=1) if line in one)
    assert record["status"] == "failed" and record["items_per_second"] is None
    assert record["reason"].startswith(error)
    assert f"(mine.py, line {number}: " in record["reason"] and line in record["reason"]


IN_A_WORKER = [
    ("raise KeyError('x')", "KeyError: 'x'"),
    ("raise ValueError('one\\ntwo: three')", "ValueError: one two: three"),
    ("raise OSError", "OSError: no message"),
    ("soundfile.read('nowhere.wav')", "LibsndfileError: Error opening 'nowhere.wav': System error."),
    ("raise Mine(1, 2)", "Mine: (1, 2)"),
    ("""exec("try: 1 / 0\\nexcept ZeroDivisionError: raise KeyError('y')")""", "KeyError: 'y'"),
]


@pytest.mark.parametrize(("line", "reason"), IN_A_WORKER)
def test_an_error_of_a_worker_is_shown_as_the_worker_raised_it(placed, tmp_path, line, reason):
    text = EXAMPLE.replace("        return soundfile", f"        {line}\n        return soundfile")
    mine = "\n\nclass Mine(Exception):\n    def __init__(self, one, other):\n        pass\n"
    shown = failure(placed, tmp_path, text + mine, workers=1)
    assert shown == f"{reason} (mine.py, line 14: {line})"


def test_an_exception_class_that_no_worker_can_send_ends_the_run_with_its_reason(placed, runner, tmp_path):
    """pickle finds the class nowhere; nobody waits for the limit."""
    line = "raise type('Local', (Exception,), {})('gone')"
    text = EXAMPLE.replace("        return soundfile", f"        {line}\n        return soundfile")
    record = run(placed, tmp_path, text, runner=runner, workers=1, more=["--limit-minutes", "3"])
    assert record["status"] == "failed"
    assert record["reason"] == f"Local: gone (mine.py, line 14: {line})"


def failure(placed, tmp_path, text, **changes) -> str:
    """Return the reason of a run of a file with this text, as measure/run.py gives it; the run must break."""
    (tmp_path / "mine.py").write_text(text)
    request = request_for(placed, **changes)
    path = list(sys.path)
    module = _own_epochs.imported(_own.declared("mine", str(tmp_path / "mine.py")))
    sys.path[:] = path
    with pytest.raises(Exception) as raised, module.open_epochs(request) as epoch:
        list(epoch(0))
    error = raised.value
    return f"{type(error).__name__}: {_one_line(error, request)}{_own_epochs.users_line(error, module)}"


def files(placed) -> list[Path]:
    return sorted((placed / "wav" / "train").glob("*.wav"))


def request_for(placed, **changes) -> LoaderRequest:
    corpus = Corpus(placed / "corpus")
    sizes = {"items": corpus.counts["train"], "sample": corpus.sample, "classes": corpus.classes}
    return LoaderRequest(location_of(placed / "wav" / "train"), **sizes, batch_size=4, shuffle=False, **changes)


READ = 'soundfile.read(self.files[index], dtype="float32")[0]'
ALLOWED = ", allowed is float32 (samples,) or (1, samples): "
ITEMS = [
    (f"np.stack([{READ}] * 2)", "float32 (2, 1600)", "mix it down to one channel"),
    (f"torch.tensor({READ})[:, None]", "float32 (1600, 1)", "return audio[:, 0]"),
    ("np.zeros((1024, 128), np.float32)", "float32 (1024, 128)", 'features are no audio: write CHECK = "items" into'),
    ("np.zeros((1, 64, 500), np.float32)", "float32 (1, 64, 500)", "features are no audio"),
    (f"{READ}[None, None]", "float32 (1, 1, 1600)", "return one axis"),
    (READ.replace(', dtype="float32"', ""), "float64 (1600,)", "read with dtype='float32'"),
    (f"torch.tensor({READ}).half()", "float16 (1600,)", "read with dtype='float32'"),
    (f"np.stack([{READ}] * 2).astype('>f4')", ">f4 (2, 1600)", "read with dtype='float32' and mix it down"),
    (f"[{READ}.astype(int), 3]", "int64 (1600,)", "read with dtype='float32'"),
    (f"{{'audio': {{'array': {READ}, 'path': 'x'}}}}", "dict with array, path in 'audio'", "let 'audio' be an array"),
    ("{'wave': 1}", "dict with wave", "return the audio"),
    ("(3, 4)", "a tuple that begins with int", "let it begin with the audio"),
    ("[]", "empty list", "return the audio"),
    ("None", "None (is a return missing?)", "return the audio"),
]


@pytest.mark.parametrize(("item", "found", "do"), ITEMS)
def test_an_item_that_is_no_item_is_refused(placed, tmp_path, item, found, do):
    """Before anything of it is thrown away."""
    text = "import numpy as np, torch\n" + EXAMPLE.replace(READ, f"{READ} if index != 5 else {item}")
    found = found.replace("1600", str(soundfile.info(files(placed)[5]).frames))
    reason = failure(placed, tmp_path, text)
    assert reason.startswith(f"UserError: item 5 of your Dataset: found {found}{ALLOWED}{do}"), reason
    assert reason.endswith("(mine.py, line 14: def __getitem__(self, index):)")


def test_an_item_is_refused_in_a_worker_too(placed, tmp_path):
    reason = failure(placed, tmp_path, EXAMPLE.replace(', dtype="float32"', ""), workers=1)
    assert reason.startswith("UserError: item 0 of your Dataset: found float64 (")
    assert reason.endswith("(mine.py, line 13: def __getitem__(self, index):)")


GOOD_ITEMS = ["{0}", "{0}[None]", "torch.tensor({0})", "({0}, 3)", "[torch.tensor({0})[None], 3]", "{{'audio': {0}}}"]


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_a_dataset_goes_to_workers_that_are_no_forks(placed, tmp_path, method):
    (tmp_path / "mine.py").write_text(EXAMPLE)
    module = _own_epochs.imported(_own.declared("mine", str(tmp_path / "mine.py")))
    sys.path.remove(str(tmp_path))
    import torch

    found = []
    for how in ({"workers": 1, "start_method": method}, {"workers": 1}):
        with module.open_epochs(request_for(placed, **how)) as epoch:
            found.append([batch["audio"].clone() for batch in epoch(0)])
    assert all(torch.equal(*both) for both in zip(*found, strict=True)) and "start_method" in module.SETTINGS


ORIGINS = """
import soundfile
from torch.utils.data import Dataset

FORMAT = "wav"


class Pieces(Dataset):
    def __init__(self, request):
        self.origins, self.rate = request.origins, request.sample_rate

    def __getitem__(self, index):
        path, start, frames = self.origins[index]
        return soundfile.read(path, frames, round(start * self.rate), dtype="float32")[0]


def dataset(request):
    return Pieces(request)
"""


@pytest.fixture(scope="module")
def long_recordings(tmp_path_factory):
    """A corpus of the workflow's form: two recordings that are cut, a part of one, and one that the store holds."""
    results = tmp_path_factory.mktemp("long")
    clips, corpus = results / "clips" / "own", results / "corpus" / "own"
    (clips / "store").mkdir(parents=True)
    chance, rows = np.random.default_rng(3), []
    for name, folder, seconds in (
        ("a#1.flac", results, 0.5),
        ("b.flac", results, 0.43),
        ("c.flac", clips / "store", 0.2),
    ):
        audio = chance.integers(-(2**15), 2**15, round(16_000 * seconds), dtype=np.int16)
        soundfile.write(folder / name, audio, 16_000)
        path = name if folder != results else str(results / name)
        rows.append(LedgerRow(name, "fetched", path=path, cut=name != "c.flac", labels=["x"]))
    rows.append(LedgerRow("late", "fetched", path=rows[0].path, start_seconds=0.25, cut=True, labels=["y"]))
    write_ledger(clips / "ledger-0000.csv", rows)
    kind = {"sample_rate": 16_000, "seconds": 0.0703125, "min_seconds": 0.01}  # 1,125 samples: ids round its places
    build_corpus.build(
        clips / "ledger-0000.csv", audio_kind.Kind(**kind), 1, clips / "store", corpus / "shards" / "0000"
    )
    words = ["--shards-dir", corpus / "shards", "--count", 1, "--validation", 0.3, "--out", corpus]
    words += ["--kind", "audio", "--kind-options", json.dumps(kind)]
    subprocess.run([*program_line("index_corpus"), *map(str, words)], check=True)
    write_format(Corpus(corpus), "wav", results / "wav", readers=1)
    return results


@pytest.mark.parametrize("split", SPLITS)
def test_a_dataset_may_seek_in_what_the_items_were_made_of(long_recordings, tmp_path, split):
    """Bit for bit, by the places that the request names."""
    corpus = Corpus(long_recordings / "corpus" / "own")
    (tmp_path / "mine.py").write_text(ORIGINS)
    module = _own_epochs.imported(_own.declared("mine", str(tmp_path / "mine.py")))
    sys.path.remove(str(tmp_path))
    of_split = {"items": corpus.counts[split], "sample": corpus.sample, "classes": corpus.classes}
    known = {"sample_rate": 16_000, "corpus": corpus.root, "shuffle": False, "workers": 1}
    request = LoaderRequest(location_of(long_recordings / "wav" / split), **of_split, **known)
    items = list(corpus.items(split))
    assert len(items) == len(request.origins) > 0
    assert [one.frames for one in request.origins] == [item.frames for item in items]
    with module.open_epochs(request) as epoch:
        delivered = np.concatenate([batch["audio"].numpy() for batch in epoch(0)])
    assert all(np.array_equal(row, corpus.delivered(item)) for row, item in zip(delivered, items, strict=True))


def test_a_corpus_without_its_ledgers_names_no_origins(placed):
    request = replace(request_for(placed), corpus=placed / "corpus")
    for one, words in ((request, "found no ledger in"), (replace(request, corpus=None), "found no corpus")):
        with pytest.raises(UserError, match=f"request.origins: {words}"):
            _ = one.origins


@pytest.mark.parametrize("item", GOOD_ITEMS)
def test_an_item_has_one_of_these_forms(placed, tmp_path, item):
    (tmp_path / "mine.py").write_text("import torch\n" + EXAMPLE.replace(READ, item.format(READ)))
    module = _own_epochs.imported(_own.declared("mine", str(tmp_path / "mine.py")))
    sys.path.remove(str(tmp_path))
    request = request_for(placed)
    with module.open_epochs(request) as epoch:
        first = next(iter(epoch(0)))
    assert first["audio"].shape == (4, 1, 1600)
    for delivered, path in zip(first["audio"], files(placed), strict=False):
        wanted = soundfile.read(path, dtype="float32")[0]
        assert (delivered[0, : len(wanted)].numpy() == wanted).all() and not delivered[0, len(wanted) :].any()


STREAM = "from torch.utils.data import IterableDataset\nclass Stream(IterableDataset):\n    __iter__ = None\n"
LENGTH = "\n    def __len__(self):\n        return len(self.files) - 1\n\n\ndef dataset("
DATASETS = [
    (
        "return MyDataset(request.data)",
        "MyDataset(request.data)",
        "found None (is a return missing?), allowed",
        "def da",
    ),
    ("return MyDataset(request.data)", "return MyDataset", "found the class MyDataset (is it not called?)", "def data"),
    (
        "return MyDataset(request.data)",
        "return Stream()",
        "found Stream (an IterableDataset), allowed is a map",
        "def ",
    ),
    ("\n\ndef dataset(", LENGTH, "your Dataset has 29 items, the split 30; allowed", "def __len__(self):"),
]


@pytest.mark.parametrize(("right", "wrong", "said", "line"), DATASETS)
def test_what_is_no_dataset_of_the_split_is_refused(placed, tmp_path, right, wrong, said, line):
    text = STREAM + EXAMPLE
    assert right in text
    reason = failure(placed, tmp_path, text.replace(right, wrong))
    assert reason.startswith("UserError: ") and said in reason
    assert re.search(rf"\(mine.py, line \d+: {re.escape(line)}", reason), reason


def test_a_dataset_is_not_read_before_its_workers_are_there(placed, tmp_path):
    """A file that it opens with its first item must not be shared among them."""
    text = EXAMPLE.replace(
        "        return soundfile", f"        assert os.getpid() != {os.getpid()}\n        return soundfile"
    )
    (tmp_path / "mine.py").write_text("import os\n" + text)
    module = _own_epochs.imported(_own.declared("mine", str(tmp_path / "mine.py")))
    sys.path.remove(str(tmp_path))
    with module.open_epochs(request_for(placed, workers=2)) as epoch:
        assert sum(len(batch["item"]) for batch in epoch(0)) == 30


BROKEN = {
    "an error at its top": ("import soundfile", "import soundfile\nimport no_such_library", "ModuleNotFoundError: "),
    "wrong data": ('dtype="float32")[0]', 'dtype="float32")[0] * 0.5', "verification: "),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_file_is_tried_once_in_a_call(placed, tmp_path, fault):
    """The other runs have the first one's reason, and are one row with it; an edit and another call try again."""
    right, wrong, reason = BROKEN[fault]
    tries = tmp_path / "tries"
    text = EXAMPLE.replace(right, wrong).replace("import", f"open({str(tries)!r}, 'a').write('tried\\n')\nimport", 1)
    (tmp_path / CALL).write_text("one")

    def again(text, repeat, **settings) -> tuple[dict, int]:
        tries.unlink(missing_ok=True)
        more = ("--broken", tmp_path / "runs" / "broken.json", "--repeat", repeat, "--tier", "ram")
        return run(placed, tmp_path, text, more=map(str, more), **settings), len(list(tmp_path.glob("tries")))

    first, tried = again(text, 0)
    assert tried and first["status"] == "failed" and first["reason"].startswith(reason)
    assert "; tried once, on ram with cpu-b32-w0: the other runs" in first["reason"]
    assert "type: snakemake results/mine.json --forcerun prove_loader, then the rest" in first["reason"]
    second, tried = again(text, 1, batch_size=4)
    assert not tried and (second["status"], second["reason"]) == ("skipped", first["reason"])
    assert (first["reason_code"] == "verification") == (fault == "wrong data") and second["reason_code"] == "not-tried"
    rows = [
        run_row({"loader": "mine", "tier": "ram", "format": "wav", "slug": one["slug"], "repeat": one["repeat"]}, one)
        for one in (first, second)
    ]
    (row,) = ranking.results(records.tried(rows))
    assert (row["status"], row["slug"], row["reason"]) == ("failed", "cpu-b32-w0", first["reason"])
    assert again(text + "EDITED = True\n", 1)[1], "an edited file is tried again"
    (tmp_path / CALL).write_text("another")
    assert again(text + "EDITED = True\n", 1)[1], "another call tries again"


def test_an_error_that_is_not_the_files_is_no_fault_of_it(placed, tmp_path):
    """One setting too long for the data says nothing of the others."""
    note = tmp_path / "broken.json"
    record = run(placed, tmp_path, EXAMPLE, more=("--broken", str(note), "--epochs", "1"), workers=2, prefetch=8)
    assert record["status"] == "skipped" and not note.exists()


def config(entry) -> dict:
    raw = yaml.safe_load((PROJECT / "config.yaml").read_text())
    return {**raw, "dataset": "demo", "loaders": ["numpy_memmap", entry]}


def test_the_plan_holds_it(tmp_path):
    """The file is not run for that: it may import what is not installed here."""
    (tmp_path / "mine.py").write_text("import no_such_library\n" + EXAMPLE)
    entry = {"name": "mine", "file": str(tmp_path / "mine.py"), "workers": [0, 1]}
    plan = Plan(config(entry))
    read = [result for result in plan.results if (result.loader, result.task, result.cache) == ("mine", "read", "warm")]
    assert {result.slug for result in read} == {"cpu-b32-w0", "cpu-b32-w1-p2"}
    assert plan.own_file("mine") == str(tmp_path / "mine.py") and plan.own_file("numpy_memmap") is None
    assert "wav" in plan.formats


WRONG = [
    ({"file": "nowhere.py"}, EXAMPLE, "is not a file"),
    ({"name": "ring"}, EXAMPLE, "one of feedrate's loaders"),
    ({}, EXAMPLE.replace('"wav"', '"wave"'), "Did you mean 'wav'"),
    ({}, EXAMPLE.replace('FORMAT = "wav"', ""), "FORMAT: found nothing"),
    ({}, EXAMPLE.replace("def dataset", "def data"), "found none of make_loader, open_epochs, loader, dataset"),
    ({}, EXAMPLE.replace("(Dataset):", "(Dataset)"), "mine.py, line 9: class MyDataset(Dataset)"),
    ({}, EXAMPLE + "SETTINGS = tuple(dir())\n", "allowed is a plain value"),
    ({"gather": ["item"]}, EXAMPLE, "found an unknown key"),
    ({"name": "mi ne"}, EXAMPLE, "mi ne"),
]


@pytest.mark.parametrize(("changes", "text", "said"), WRONG)
def test_says_what_is_wrong_before_anything_runs(tmp_path, changes, text, said):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(UserError, match=re.escape(said)) as error:
        Plan(config({"name": "mine", "file": str(tmp_path / "mine.py"), **changes}))
    assert "loaders[1]" in str(error.value)


def test_a_line_that_is_not_the_users_is_not_named(tmp_path):
    (tmp_path / "mine.py").write_text(EXAMPLE)
    module = _own.declared("mine", str(tmp_path / "mine.py"))
    assert _own_epochs.users_line(ValueError("elsewhere"), module) == ""


# What is beside it

LOCAL_IMPORTS = {
    "gain.py": "GAIN = 1.0\nimport pack.shared\nimport mine\n",
    "pack/__init__.py": "from . import near\n",
    "pack/near.py": "Y = 2\n",
    "pack/shared.py": "from .config import X\n",
    "pack/config.py": "X = 1\n",
    "torchaudio.py": "MINE = True\n",
    "broken.py": "def\n",
    "other.py": "import config\n",
    "config.py": "",
}
IMPORTS = """
from gain import GAIN
import soundfile, json
import torchaudio

assert torchaudio.MINE

def later():
    import broken
"""


def place_beside(folder, text=IMPORTS + EXAMPLE, more=()):
    for name, content in {**LOCAL_IMPORTS, **dict(more), "mine.py": text}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    return str(folder / "mine.py")


def test_what_it_imports_beside_it_is_known(tmp_path, monkeypatch):
    """And no more: `other.py` is not imported, and pack/config.py is no rival of feedrate's config.py."""
    names = ["broken.py", "gain.py", "pack/__init__.py", "pack/config.py", "pack/near.py", "pack/shared.py"]
    names += ["torchaudio.py"]
    assert [str(tmp_path / name) for name in names] == _own.declared("mine", place_beside(tmp_path)).LOCAL_IMPORTS
    monkeypatch.chdir(tmp_path)
    assert names == _own.declared("mine", "mine.py").LOCAL_IMPORTS
    (tmp_path / "link.py").symlink_to(tmp_path / "mine.py")
    assert [str(tmp_path / name) for name in names] == _own.declared("mine", "link.py").LOCAL_IMPORTS


def test_what_it_imports_beside_it_is_its_own(placed, runner, tmp_path):
    """It overrides an installed package of the same name."""
    place_beside(tmp_path)
    record = run(placed, tmp_path, IMPORTS + EXAMPLE, runner=runner)
    assert record["status"] == "ok", record["reason"]


@pytest.mark.parametrize("line", ["import scripts", "from scripts import mine", "from near import X"])
def test_the_name_of_feedrates_package_is_refused(tmp_path, line):
    more = {"scripts/mine.py": "", "scripts/__init__.py": "", "near.py": "import scripts.mine\nX = 1\n"}
    file = place_beside(tmp_path, f"{line}\n{EXAMPLE}", more)
    with pytest.raises(UserError, match="found an import of scripts beside it") as error:
        Plan(config({"name": "mine", "file": file}))
    assert "loaders[1]" in str(error.value) and "Rename yours" in str(error.value)


def test_an_edit_beside_it_measures_it_again():
    """The workflow is given a small experiment of its own."""
    with folders() as (disk, ram):
        (disk / "user").mkdir()
        (disk / "user" / "mine.py").write_text("from gain import GAIN\n" + EXAMPLE.replace("[0]\n", "[0] * GAIN\n"))
        (disk / "user" / "gain.py").write_text("GAIN = 1\n")
        mine = {"name": "mine", "file": str(disk / "user" / "mine.py")}
        disks = {"disk": {"path": "results/placed"}}  # a copy in RAM is gone, and all that read it are proven again
        project = ProjectCopy(disk / "project", ram, loaders=["numpy_memmap", mine], storage=disks)
        target = ["results/mine.json", "results/numpy_memmap.json"]
        project.snakemake("--cores", "2", *target)
        assert project.planned(*target) == []
        (disk / "user" / "gain.py").write_text("GAIN = 1.0\n")
        jobs = [job for job in project.planned(*target) if job.rule == "prove_loader"]
        assert jobs and {job.wildcards["loader"] for job in jobs} == {"mine"}


IMAGES = '''"""My images, as in my training."""

import numpy as np
from PIL import Image
from torch.utils.data import Dataset

FORMAT = "files"


class MyImages(Dataset):
    def __init__(self, folder):
        self.files = sorted(folder.glob("*.jpg"))

    def __getitem__(self, index):
        with Image.open(self.files[index]) as image:
            return np.asarray(image)CHANGE


def dataset(request):
    return MyImages(request.data)
'''


@pytest.mark.parametrize(("change", "words"), [
    (".transpose(2, 0, 1)", None),
    ("", "found uint8 (20, 24, 3), allowed is uint8 (3, 20, 24): put the channels first: permute(2, 0, 1)"),
    (".transpose(2, 0, 1) / 255", "found float64 (3, 20, 24), allowed is uint8 (3, 20, 24): return dtype='uint8'"),
    (".transpose(2, 0, 1)[:, 1:]", "found uint8 (3, 19, 24), allowed is uint8 (3, 20, 24): return the shape (3, 20,"),
])  # fmt: skip
def test_a_dataset_of_images_goes_through_the_same_gate(runner, tmp_path, change, words):
    corpus = make_corpus(tmp_path / "corpus", items=40, kind=image.Kind((20, 24)))
    write_format(corpus, "files", tmp_path / "files", readers=1)
    record = run(tmp_path, tmp_path, IMAGES.replace("CHANGE", change), data="files", runner=runner, workers=2)
    if words is None:
        assert (record["status"], record["reason"]) == ("ok", None) and record["items_per_second"] > 0
    else:
        assert record["status"] == "failed" and words in record["reason"] and "mine.py, line" in record["reason"]


VARYING = ".transpose(2, 0, 1) // 8 * 8 + np.uint8(np.random.randint(2, 6))"  # another one each time, as bright


@pytest.mark.parametrize(("limits", "change", "words"), [
    ("PIXEL_LIMIT = 48\nPIXELS_VARY = True", VARYING, None),
    ("PIXEL_LIMIT = 48", VARYING, "other data than was verified in timed epoch 1"),
    ("PIXELS_VARY = True", VARYING, "(allowed are 0, and a sixth of it on average)"),
    (
        "from itertools import count\nPIXEL_LIMIT = 48\nPIXELS_VARY = True\nTAKEN = count()",
        f"{VARYING} if next(TAKEN) < len(self.files) else np.asarray(image).transpose(2, 1, 0).reshape(3, 20, 24)",
        "other data than was verified in timed epoch 1",
    ),
])  # fmt: skip
def test_what_a_decoder_may_vary_by_is_told_from_other_images(runner, tmp_path, limits, change, words):
    corpus = make_corpus(tmp_path / "corpus", items=40, validation=0, kind=image.Kind((20, 24)))
    write_format(corpus, "files", tmp_path / "files", readers=1)
    text = IMAGES.replace('FORMAT = "files"', f'FORMAT = "files"\n{limits}').replace("CHANGE", change)
    record = run(tmp_path, tmp_path, text, data="files", runner=runner, workers=0)
    if words is None:
        assert (record["status"], record["reason"]) == ("ok", None) and record["items_per_second"] > 0
        assert 0 < record["verification"]["largest_difference"] <= 7
    else:
        assert record["status"] == "failed" and words in record["reason"]


@pytest.mark.parametrize("workers", [0, 1])
def test_the_program_that_is_handed_out_is_a_loader_of_ones_own(placed, tmp_path, workers):
    """With its format named: so a user can change it, and measure what that gives."""
    loader, request = plugins.load("loaders", "torchaudio"), request_for(placed, workers=workers)
    settings = {"device": "cpu", "batch_size": 4, "workers": workers, "prefetch": 2, "pin_memory": False}
    program = Program({**settings, "decoder": "soundfile"}, request.sample, request.data, 0)
    text = program.text(Path(loader.__file__))
    (tmp_path / "mine.py").write_text(f'"""As handed out."""\nFORMAT = "wav"\n\n{text}\n')
    mine = _own_epochs.imported(_own.declared("mine", str(tmp_path / "mine.py")))
    sys.path.remove(str(tmp_path))
    found = []
    for module, how in ((mine, {}), (loader, {"options": {"decoder": "soundfile"}})):
        with module.open_epochs(replace(request, **how)) as epoch:
            found.append([batch for number in range(2) for batch in epoch(number)])
    for own, ours in zip(*found, strict=True):
        assert own.keys() == ours.keys() and all(bool((own[name] == ours[name]).all()) for name in ours)


DATA_LOADER = """
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

FORMAT = "memmap"
COLUMNS = ("target", "labels")


class Rows(Dataset):
    offset = 0

    def __init__(self, data):
        self.audio = np.load(data / "audio.npy", mmap_mode="r")
        self.labels = {name: np.load(data / f"{name}.npy") for name in COLUMNS}

    def __len__(self):
        return len(self.audio)

    def __getitem__(self, index):
        audio = torch.tensor(self.audio[index]) + self.offset
        return {"audio": audio, **{name: rows[index] for name, rows in self.labels.items()}}


def make_loader(data, batch_size):
    return DataLoader(Rows(data), batch_size=batch_size, shuffle=True)
"""
MADE = [
    ("(data, batch_size)", "(data, bs, batch_size)", "found the parameter 'bs', allowed are data, batch_size, "),
    ("(data, batch_size)", "(data, num_workers, batch_size)", "Did you mean 'workers'?"),
    ("(data, batch_size)", "(data, /, batch_size)", "found / behind 'data'"),
    ("return DataLoader", "DataLoader", "returns None (is a return missing?)"),
    ("return DataLoader", "return list(DataLoader", "returns a list, allowed is a DataLoader"),
    ("shuffle=True", "sampler=[0] * 30", "found a sampler of your own, list"),
    ("shuffle=True", "batch_sampler=[[0]]", "found a batch_sampler of your own, list"),
    (
        "def make_loader",
        "class Mine(DataLoader):\n    def __iter__(self):\n        yield from ()\n\n\ndef make_loader",
        "found a Mine with an __iter__ of its own, which would not be measured",
    ),
]


@pytest.mark.parametrize(("right", "wrong", "said"), MADE)
def test_what_would_not_be_measured_as_it_is_is_refused(placed, runner, tmp_path, right, wrong, said):
    text = DATA_LOADER.replace(right, wrong)
    text = text.rstrip() + ")\n" if wrong.startswith("return list") else text
    text = text.replace("return DataLoader", "return Mine") if "Mine" in wrong else text
    text = text.replace("batch_size=batch_size, ", "") if "batch_sampler" in wrong else text
    record = run(placed, tmp_path, text, data="memmap", runner=runner, workers=0)
    assert record["status"] == "failed" and said in record["reason"]


def test_a_data_loader_is_measured_with_what_begins_its_workers(placed, runner, tmp_path):
    """Whose data set is the user's own there, with what measuring puts around it."""
    begin = "\n\ndef begin(_worker):\n    get_worker_info().dataset.offset = 0\n"
    text = DATA_LOADER.replace("    offset = 0\n", "") + begin
    text = text.replace("shuffle=True", "shuffle=True, num_workers=2, worker_init_fn=begin")
    for how in ({}, {"transform": "random_gain"}):
        record = run(placed, tmp_path, text, data="memmap", runner=runner, workers=2, **how)
        assert record["status"] == "ok", record["reason"]
