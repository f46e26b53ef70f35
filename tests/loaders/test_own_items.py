"""Users' own Datasets and loaders as they are, each after a shape of public code, and what is said of them."""

import json
import subprocess
import textwrap
from dataclasses import replace

import pytest
import torch

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.common.request import Share
from scripts.loaders import _followed, _own, _own_epochs
from scripts.machine.folders import location_of
from scripts.measure import own_items
from scripts.plan.suited import never
from scripts.tables import item_lines
from scripts.tables.records import checked_record
from tests.support.loader_cases import nothing_left_open, request_for, write_format
from tests.support.made_corpus import make_corpus
from tests.support.programs import program_line

HEAD = """
import random
import numpy as np
import soundfile
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler, Sampler
from torch.utils.data import SequentialSampler, WeightedRandomSampler

FORMAT = "wav"
CHECK = {check!r}


class Files(Dataset):
    def __init__(self, request):
        self.files = sorted(request.data.glob("*.wav"))

    def __len__(self):
        return len(self.files)

    def read(self, index):
        return soundfile.read(self.files[index], dtype="float32")[0]
"""
# Each at most 40 lines of a user's, after a shape of public code; with the check that it can be held to.
SHAPES = {
    "a random segment by seeking, another item where one is too short": ("slice", """
class Segments(Files):
    def __getitem__(self, index):
        frames = soundfile.info(self.files[index]).frames
        if frames < 3000:
            return self[(index + 1) % len(self)]
        start = random.randrange(frames - 2999)
        audio, _ = soundfile.read(self.files[index], start=start, frames=3000, dtype="float32")
        return torch.from_numpy(audio)[None], {"start": start, "file": str(self.files[index])}


def collate(items):
    return torch.stack([audio for audio, _ in items]), [about for _, about in items]


def loader(request):
    return DataLoader(Segments(request), request.batch_size, shuffle=True, collate_fn=collate,
                      num_workers=request.workers)
"""),
    "the whole file, then a crop": ("slice", """
class Crops(Files):
    def __getitem__(self, index):
        audio = self.read(index)
        start = np.random.randint(max(1, len(audio) - 1000))
        return np.pad(audio[start : start + 1000], (0, max(0, 1000 - len(audio))))[None]


def dataset(request):
    return Crops(request)
"""),
    "a mixture by a second read, and soft labels": ("items", """
class Mixed(Files):
    def __getitem__(self, index):
        share, other = np.random.beta(10, 10), np.random.randint(len(self))
        audio = share * np.resize(self.read(index), 2000) + (1 - share) * np.resize(self.read(other), 2000)
        return {"fbank": torch.from_numpy(audio).float().view(20, 100), "labels": torch.rand(5), "name": f"{index}"}


def dataset(request):
    return Mixed(request)
"""),
    "a weighted sampler with replacement": ("items", """
def loader(request):
    data = Whole(request)
    sampler = WeightedRandomSampler(torch.rand(len(data)) ** 4, len(data), replacement=True)
    return DataLoader(data, request.batch_size, sampler=sampler, num_workers=request.workers)


class Whole(Files):
    def __getitem__(self, index):
        return np.resize(self.read(index), 1000), index
"""),
    "a pipe of batches by length, from an IterableDataset": ("none", """
class Pipe(IterableDataset):
    def __init__(self, request):
        self.files, self.request = sorted(request.data.glob("*.wav")), request

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        batch, frames = [], 0
        for path in self.files[worker.id :: worker.num_workers] if worker else self.files:
            batch.append(torch.from_numpy(soundfile.read(path, dtype="float32")[0]))
            frames += len(batch[-1])
            if frames > 12000:
                yield torch.nn.utils.rnn.pad_sequence(batch, batch_first=True), torch.tensor([*map(len, batch)])
                batch, frames = [], 0
        if batch:
            yield torch.nn.utils.rnn.pad_sequence(batch, batch_first=True), torch.tensor([*map(len, batch)])


def loader(request):
    return DataLoader(Pipe(request), batch_size=None, num_workers=request.workers)
"""),
    "a batch sampler by length, padded to the longest": ("items", """
class Dynamic(Sampler):
    def __init__(self, lengths, frames):
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        self.batches, room = [[]], frames
        for index in order:
            if lengths[index] * (len(self.batches[-1]) + 1) > frames and self.batches[-1]:
                self.batches.append([])
            self.batches[-1].append(index)

    def __iter__(self):
        return iter(random.sample(self.batches, len(self.batches)))

    def __len__(self):
        return len(self.batches)


class Whole(Files):
    def __getitem__(self, index):
        return torch.from_numpy(self.read(index))


def collate(items):
    return {"audio": torch.nn.utils.rnn.pad_sequence(items, batch_first=True), "lengths": [*map(len, items)]}


def loader(request):
    data = Whole(request)
    lengths = [soundfile.info(path).frames for path in data.files]
    return DataLoader(data, batch_sampler=Dynamic(lengths, 16000), collate_fn=collate, num_workers=request.workers)
"""),
    "a sampler of whole batches, batch_size=None": ("items", """
class Cuts(Files):
    def __getitem__(self, indices):
        return {"inputs": torch.stack([torch.from_numpy(np.resize(self.read(one), 800)) for one in indices])}


def loader(request):
    data = Cuts(request)
    batches = BatchSampler(RandomSampler(data), request.batch_size, drop_last=False)
    return DataLoader(data, sampler=batches, batch_size=None, num_workers=request.workers)
"""),
    "own threads, no DataLoader": ("items", """
from concurrent.futures import ThreadPoolExecutor


class Threads:
    def __init__(self, request):
        self.data, self.size = Files(request), request.batch_size

    def __iter__(self):
        order = random.sample(range(len(self.data)), len(self.data))
        with ThreadPoolExecutor(2) as pool:
            for start in range(0, len(order), self.size):
                chosen = order[start : start + self.size]
                yield [*pool.map(self.data.read, chosen)], chosen


def numbers(batch):
    return batch[1]


def loader(request):
    return Threads(request)
"""),
    "a plain Dataset, exact": ("exact", """
class Whole(Files):
    def __init__(self, request):
        super().__init__(request)
        self.samples = request.samples

    def __getitem__(self, index):
        audio = self.read(index)[: self.samples]
        return torch.from_numpy(np.pad(audio, (0, self.samples - len(audio))))[None], index


def loader(request):
    return DataLoader(Whole(request), request.batch_size, shuffle=True, num_workers=request.workers)
"""),
}  # fmt: skip


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A corpus whose items have other lengths, some of them short."""
    return make_corpus(tmp_path_factory.mktemp("own") / "corpus", items=40, seconds=0.3)


@pytest.fixture(scope="module")
def placed(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("own_wav")
    write_format(corpus, "wav", folder, 2)
    return folder


def opened(tmp_path, corpus, placed, check: str, text: str, **changes):
    """Return the user's loader of a file and its request."""
    (tmp_path / "mine.py").write_text(HEAD.format(check=check) + text)
    module = _own_epochs.imported(_own.declared("mine", str(tmp_path / "mine.py")))
    request = request_for(corpus, "soundfile", location_of(placed), **changes)
    return module, request


def verified(module, request, corpus) -> own_items.OwnVerifier:
    """Take an epoch through the gate of own items."""
    verifier, sink = own_items.OwnVerifier(corpus, "train", request.batch_size, 1, level=module.CHECK), None
    sink = own_items.OwnSink("cpu")
    with module.open_epochs(request) as epoch:
        verifier.finish([sink.consume(batch) for batch in epoch(0) if verifier.check(batch)])
        verifier.check_order([item for batch in epoch(1) for item in batch["item"].tolist()], "")
    return verifier


OWN = {name: shape for name, shape in SHAPES.items() if shape[0] != "exact"}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", OWN)
def test_a_shape_of_public_code_is_followed(tmp_path, corpus, placed, name, workers):
    check, text = OWN[name]
    module, request = opened(tmp_path, corpus, placed, check, text, workers=workers)
    with nothing_left_open():
        verifier = verified(module, request, corpus)
    found, items = verifier.found(), corpus.counts["train"]
    assert verifier.problems == [] and found["items"] == items and found["item_bytes"] > 1000
    short = sum(len(corpus.stored(item)) < 3000 for item in corpus.items("train"))
    if check == "none":
        assert found["doubled"] is None
    elif "weighted" in name:
        assert found["doubled"] == found["missing"] > 0
    elif "seeking" in name:
        assert 0 < found["substituted"] == found["doubled"] <= short
    else:
        assert (found["substituted"], found["doubled"], found["missing"] or 0) == (0, 0, 0)
    assert (found["padding_percent"] or 0) > 2 or not ("padded" in name or "pipe" in name)
    assert not found["same_order"] and found["idle_workers"] == 0


@pytest.mark.parametrize(
    "name",
    [
        "a random segment by seeking, another item where one is too short",
        "a pipe of batches by length, from an IterableDataset",
    ],
)
def test_workers_that_are_no_forks_follow_too(tmp_path, corpus, placed, name):
    check, text = SHAPES[name]
    text = text.replace("num_workers=request.workers", 'num_workers=1, multiprocessing_context="spawn"')
    module, request = opened(tmp_path, corpus, placed, check, text, workers=1)
    found = verified(module, request, corpus).found()
    assert found["items"] == corpus.counts["train"]
    assert check == "none" or found["substituted"] == found["doubled"] > 0


PLANTED = {
    "a batch sampler that drops the last": ("""
def loader(request):
    return DataLoader(Whole(request), request.batch_size, shuffle=True, drop_last=True, num_workers=request.workers)
""", "own-missing"),
    "a forgotten set_epoch": ("""
class Fixed(Sampler):
    def __init__(self, count):
        self.order = np.random.default_rng(0).permutation(count).tolist()

    def __iter__(self):
        return iter(self.order)


def loader(request):
    data = Whole(request)
    return DataLoader(data, request.batch_size, sampler=Fixed(len(data)), num_workers=request.workers)
""", "own-order"),
    "broken files that are replaced": ("""
class Broken(Whole):
    def __getitem__(self, index):
        try:
            if index % 10 == 3:
                raise OSError("broken")
            return super().__getitem__(index)
        except OSError:
            return self[random.randrange(len(self))]


def loader(request):
    return DataLoader(Broken(request), request.batch_size, shuffle=True, num_workers=request.workers)
""", "own-substituted"),
    "a worker that has nothing": ("""
class Lazy(IterableDataset):
    def __init__(self, request):
        self.request = request

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        if worker is None or worker.id == 0:
            yield from (torch.zeros(4, 10) + number for number in range(3))


def numbers(batch):
    return [0]


def loader(request):
    return DataLoader(Lazy(request), batch_size=None, num_workers=request.workers)
""", "own-idle"),
}  # fmt: skip
WHOLE = """
class Whole(Files):
    def __getitem__(self, index):
        return np.resize(self.read(index), 1000), index

"""


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_named(tmp_path, corpus, placed, name):
    text, code = PLANTED[name]
    module, request = opened(tmp_path, corpus, placed, "items", WHOLE + text, workers=2)
    found = verified(module, request, corpus).found()
    assert code in [one["code"] for one in own_items.warnings_of(found)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("return audio.flip(-1)", "no piece of their recording"),
        ("return audio * 0.5", "no piece of their recording"),
        ("return audio.half().float()", "no piece of their recording"),
        ("return audio / 0", "not finite"),
    ],
)
def test_a_slice_that_is_none_is_a_fault(tmp_path, corpus, placed, text, words):
    source = f"""
        class Wrong(Files):
            def __getitem__(self, index):
                audio = torch.from_numpy(np.resize(self.read(index), 500))[None]
                {text}


        def dataset(request):
            return Wrong(request)
    """
    module, request = opened(tmp_path, corpus, placed, "slice", textwrap.dedent(source))
    assert words in " ".join(verified(module, request, corpus).problems)


def test_a_loader_of_exact_items_is_held_to_the_corpus(tmp_path, corpus, placed):
    module, request = opened(tmp_path, corpus, placed, *SHAPES["a plain Dataset, exact"], workers=1)
    items = {item.index: item for item in corpus.items("train")}
    with module.open_epochs(request) as epoch:
        for batch in epoch(0):
            for row, number in zip(batch["audio"].numpy(), batch["item"].tolist(), strict=True):
                assert (row == corpus.delivered(items.pop(number))).all()
    assert not items


def test_what_has_no_numbers_says_what_to_write(tmp_path, corpus, placed):
    _, text = SHAPES["a pipe of batches by length, from an IterableDataset"]
    module, request = opened(tmp_path, corpus, placed, "items", text)
    with pytest.raises(UserError, match=r"or numbers\(batch\) in the file"), module.open_epochs(request):
        pass
    with pytest.raises(UserError, match=r"CHECK: found 'itmes', allowed are .* Did you mean 'items'"):
        opened(tmp_path, corpus, placed, "itmes", text)


def test_batches_of_any_nesting_are_read_moved_and_counted():
    import dataclasses

    @dataclasses.dataclass
    class Batch:
        audio: torch.Tensor
        names: list

    nested = {"a": (torch.ones(3, 2), None), "b": Batch(torch.zeros(3), ["x", "y", "z"]), "c": [b"123"]}
    assert len(list(_followed.leaves(nested))) == 6 and _followed.size_of(nested) == 3
    moved = _followed.moved(nested, "cpu")
    assert torch.equal(moved["a"][0], nested["a"][0]) and moved["b"].names == ["x", "y", "z"]
    with pytest.raises(UserError, match="allowed is one with a tensor"):
        _followed.size_of(None)


def test_a_run_by_hand_says_beside_the_speed_what_was_counted(tmp_path, corpus, placed):
    check, text = SHAPES["a random segment by seeking, another item where one is too short"]
    (tmp_path / "mine.py").write_text(HEAD.format(check=check) + text)
    words = ["--loader", "mine", "--file", tmp_path / "mine.py", "--data", placed, "--corpus", corpus.root]
    words += ["--out", tmp_path / "run.json", "--seconds", "0.1", "--settings", json.dumps({"batch_size": 8})]
    done = subprocess.run([*program_line("run_loader"), *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    record = read_json(tmp_path / "run.json")
    assert record["status"] == "ok" and record["items_per_second"] > 0, record["reason"]
    assert record["declared"]["check"] == "slice"
    assert checked_record(record, tmp_path / "run.json")["item_lines"]["parts"]["decode"] > 0.1
    said = item_lines.text(item_lines.columns(record))
    assert said.startswith("An item takes") and "(mine.py:" in said
    assert record["own"]["substituted"] > 0
    assert "own-substituted" in [one["code"] for one in record["warnings"]]


@pytest.mark.parametrize(
    ("task", "cache", "changes", "name"),
    [
        ("train", "warm", {}, "task"),
        ("read", "cold", {}, "cache"),
        ("read", "limited", {}, "cache"),
        ("read", "warm", {"share": Share(0, 2)}, "world"),
        ("read", "warm", {"device": "cuda", "device_prefetch": 2}, "device_prefetch"),
    ],
)
def test_what_cannot_be_with_items_of_ones_own_is_known_before(tmp_path, corpus, placed, task, cache, changes, name):
    check, text = SHAPES["the whole file, then a crop"]
    module, request = opened(tmp_path, corpus, placed, check, text, **changes)
    found = never(module, request, task, cache)
    assert found is not None and name in found.settings and "CHECK" in found.reason
    assert never(module, replace(request, device="cpu", share=Share()), "read", "warm") is None
