"""Users' own Datasets and loaders as they are, each after a shape of public code, and what is said of them."""

import io
import json
import subprocess
import textwrap
from dataclasses import replace

import numpy as np
import pytest
import soundfile
import torch

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.common.request import Share
from scripts.formats._users import format_of
from scripts.loaders import _followed, _own, _own_epochs
from scripts.machine.folders import location_of
from scripts.measure import by_hand, own_items
from scripts.plan.results import Result
from scripts.plan.suited import never
from scripts.prepare import write_format as write_format_module
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
    "the whole file, a Resample built for each item, then a crop": ("items", """
import torchaudio


class Resampled(Files):
    def __getitem__(self, index):
        audio = torchaudio.transforms.Resample(16000, 12000)(torch.from_numpy(self.read(index)))
        start = torch.randint(max(1, len(audio) - 1000), ()).item()
        piece = audio[start : start + 1000]
        return torch.nn.functional.pad(piece, (0, 1000 - len(piece)))[None].repeat(2, 1), {"start": start}


def collate(items):
    return torch.stack([audio for audio, _ in items]), [about for _, about in items]


def loader(request):
    return DataLoader(Resampled(request), request.batch_size, shuffle=True, collate_fn=collate, drop_last=False,
                      num_workers=request.workers)
"""),
    "places that are tried until one is loud enough": ("slice", """
class Loud(Files):
    def __getitem__(self, index):
        frames = soundfile.info(self.files[index]).frames
        for _ in range(8):
            start = random.randrange(max(1, frames - 500))
            audio, _ = soundfile.read(self.files[index], start=start, frames=500, dtype="float32", fill_value=0)
            if 20 * np.log10(np.sqrt((audio**2).mean()) + 1e-9) > -40:
                break
        return {"signal": audio[None], "idx": index, "path": str(self.files[index])}


def dataset(request):
    return Loud(request)
"""),
    "the whole file, kaldi's fbank, a mixture by a second read": ("items", """
from torchaudio.compliance import kaldi


class Banks(Files):
    def __getitem__(self, index):
        audio = np.resize(self.read(index), 4000)
        if random.random() < 0.5:
            share = np.random.beta(10, 10)
            audio = share * audio + (1 - share) * np.resize(self.read(random.randrange(len(self))), 4000)
        wave = torch.from_numpy(audio).float()[None]
        bank = kaldi.fbank(wave - wave.mean(), htk_compat=True, sample_frequency=16000, num_mel_bins=128, dither=0.0)
        return torch.nn.functional.pad(bank, (0, 0, 0, 32 - len(bank))), torch.zeros(527)


def dataset(request):
    return Banks(request)
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
    request = request_for(corpus, "soundfile", location_of(placed), **{"compared_epochs": 2, **changes})
    return module, request


def verified(module, request, corpus) -> own_items.OwnVerifier:
    """Take an epoch through the gate of own items."""
    verifier, sink = own_items.OwnVerifier(corpus, "train", request.batch_size, 1, level=module.CHECK), None
    sink = own_items.OwnSink("cpu")
    with module.open_epochs(request) as epoch:
        verifier.finish([sink.consume(batch) for batch in epoch(0) if verifier.check(batch)])
        second = verifier.second(sink)
        verifier.check_order([item for batch in epoch(1) for item in second.consume(batch).item.tolist()], "")
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


FILES_HEAD = """
import io
import numpy as np
import soundfile
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, WeightedRandomSampler

CHECK = {check!r}
"""
# The same of what reads files of the user's own: (CHECK, FILES, text).
FILE_SHAPES = {
    "int16 in HDF5, opened for each item, a weighted sampler": ("items", "waves.h5", """
import h5py


class Waves(Dataset):
    def __init__(self, path):
        self.path = path
        with h5py.File(path) as file:
            self.count = len(file["waveform"])

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        with h5py.File(self.path) as file:
            return file["waveform"][index].astype(np.float32) / 32767, file["target"][index]


def loader(request):
    data = Waves(request.data / "waves.h5")
    sampler = WeightedRandomSampler(torch.rand(len(data)), len(data), replacement=True)
    return DataLoader(data, request.batch_size, sampler=sampler, num_workers=request.workers)
"""),
    "MP3 bytes in HDF5, opened once in each worker, cut to a length": ("items", ["mp3/*.h5"], """
import h5py


class Encoded(Dataset):
    def __init__(self, path):
        self.path, self.file = path, None

    def __len__(self):
        return 30

    def __getitem__(self, index):
        if self.file is None:
            self.file = h5py.File(self.path)
        audio, _ = soundfile.read(io.BytesIO(self.file["mp3"][index].tobytes()), dtype="float32")
        gain = 10 ** (torch.randint(14, ()).item() / 20 - 0.35)
        return np.resize(audio, 1500) * np.float32(gain), f"{index}.mp3", self.file["target"][index]


def dataset(request):
    return Encoded(request.data / "mp3.h5")
"""),
    "Arrow and durations, batches by length, padded to the longest": ("items", "arrow", """
import json
import pyarrow


class Rows(Dataset):
    def __init__(self, folder):
        self.table = pyarrow.ipc.open_file(pyarrow.memory_map(str(folder / "rows.arrow"))).read_all()
        self.durations = json.loads((folder / "durations.json").read_text())

    def __len__(self):
        return len(self.durations)

    def __getitem__(self, index):
        content = self.table["audio"][index].as_buffer()
        return torch.from_numpy(soundfile.read(io.BytesIO(content), dtype="float32")[0])


class ByDuration:
    def __init__(self, durations, most):
        self.batches = [[]]
        for index in sorted(range(len(durations)), key=durations.__getitem__):
            if durations[index] * (len(self.batches[-1]) + 1) > most and self.batches[-1]:
                self.batches.append([])
            self.batches[-1].append(index)

    def __iter__(self):
        return iter([self.batches[one] for one in torch.randperm(len(self.batches))])


def collate(items):
    return {"mel": torch.nn.utils.rnn.pad_sequence(items, batch_first=True), "text": [str(len(one)) for one in items]}


def loader(request):
    data = Rows(request.data)
    batches = ByDuration(data.durations, 2.0)
    return DataLoader(data, batch_sampler=batches, collate_fn=collate, num_workers=request.workers)
"""),
    "tars of FLAC, one after the other, a random truncation": ("none", "tars", """
import tarfile


class Tars(IterableDataset):
    def __init__(self, folder):
        self.files = sorted(folder.glob("*.tar"))

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        for path in self.files[worker.id :: worker.num_workers] if worker else self.files:
            with tarfile.open(path) as tar:
                for member in tar:
                    audio = soundfile.read(io.BytesIO(tar.extractfile(member).read()), dtype="float32")[0]
                    start = torch.randint(len(audio) - 1000, ()).item()
                    yield {"waveform": torch.from_numpy(audio[start : start + 1000]), "name": member.name}


def dataset(request):
    return Tars(request.data)
"""),
}  # fmt: skip


@pytest.fixture(scope="module")
def own_files(tmp_path_factory):
    """Files as users have them: HDF5 of samples and of MP3, Arrow of FLAC with durations, tars of FLAC; 30 items."""
    import tarfile

    import h5py
    import pyarrow

    folder, chance = tmp_path_factory.mktemp("own_files"), np.random.default_rng(7)
    waves = [chance.standard_normal(int(length)).astype("float32") / 9 for length in chance.integers(2000, 9000, 30)]

    def encoded(wave, kind) -> bytes:
        out = io.BytesIO()
        soundfile.write(out, wave, 16000, format=kind)
        return out.getvalue()

    for name in ("mp3", "arrow", "tars"):
        (folder / name).mkdir()
    with h5py.File(folder / "waves.h5", "w") as file:
        file["waveform"] = np.stack([(np.resize(wave, 4000) * 32767).astype("int16") for wave in waves])
        file["target"] = chance.random((30, 5)) > 0.5
    with h5py.File(folder / "mp3" / "mp3.h5", "w") as file:
        rows = file.create_dataset("mp3", (30,), h5py.vlen_dtype(np.uint8))
        for index, wave in enumerate(waves):
            rows[index] = np.frombuffer(encoded(wave, "MP3"), np.uint8)
        file["target"] = chance.random((30, 5)) > 0.5
    table = pyarrow.table({"audio": [encoded(wave, "FLAC") for wave in waves]})
    with pyarrow.ipc.new_file(str(folder / "arrow" / "rows.arrow"), table.schema) as out:
        out.write_table(table)
    (folder / "arrow" / "durations.json").write_text(json.dumps([len(wave) / 16000 for wave in waves]))
    for shard in range(3):
        with tarfile.open(folder / "tars" / f"{shard}.tar", "w") as tar:
            for index in range(shard, 30, 3):
                content = encoded(waves[index], "FLAC")
                about = tarfile.TarInfo(f"{index}.flac")
                about.size = len(content)
                tar.addfile(about, io.BytesIO(content))
    return folder


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", FILE_SHAPES)
def test_a_shape_over_files_of_its_own_is_followed(tmp_path, corpus, own_files, name, workers):
    check, files, text = FILE_SHAPES[name]
    listed = [str(own_files / one) for one in ([files] if isinstance(files, str) else files)]
    (tmp_path / "mine.py").write_text(FILES_HEAD.format(check=check) + f"FILES = {listed}\n" + text)
    declared = _own.declared("mine", str(tmp_path / "mine.py"))
    record = write_format_module.link_files(declared.FORMAT, format_of(declared).PATTERNS, tmp_path / "linked")
    assert record["bytes"] == format_of(declared).BYTES > 0 and record["items"] is None
    request = request_for(corpus, "soundfile", location_of(tmp_path / "linked"), workers=workers)
    found = verified(_own_epochs.imported(declared), request, corpus).found()
    assert found["items"] == 30 and found["item_bytes"] > 1000
    assert (found["expected"], found["substituted"]) == ((None, None) if check == "none" else (30, 0))
    assert found["doubled"] == found["missing"] or check == "none"
    assert ("weighted" in name) == bool(found["doubled"])
    assert (found["padding_percent"] or 0) > 1 or "padded" not in name


def test_own_files_have_the_names_that_they_have_below_their_common_folder(tmp_path):
    for name in ("a/1.h5", "a/b/2.h5", "c.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "mine.py").write_text('FILES = ["a"]\nCHECK = "none"\ndef dataset(request): ...\n')
    declared = _own.declared("mine", str(tmp_path / "mine.py"))
    before = format_of(declared)
    write_format_module.link_files("files_of_mine", before.PATTERNS, tmp_path / "out")
    linked = tmp_path / "out" / "train"
    assert {str(one.relative_to(linked)) for one in linked.rglob("*.h5")} == {"1.h5", "b/2.h5"}
    assert (linked / "1.h5").samefile(tmp_path / "a" / "1.h5") and before.BYTES == 14
    (tmp_path / "a" / "1.h5").write_text("longer")
    assert format_of(declared).VERSION != before.VERSION
    declared.FILES = ()
    assert format_of(declared).BYTES == 0
    declared.FILES = "absent/*.h5"
    with pytest.raises(UserError, match="FILES: found nothing at"):
        format_of(declared)


@pytest.mark.parametrize("beside", ['FORMAT = "wav"\nCHECK = "none"', 'CHECK = "slice"', ""])
def test_own_files_are_held_to_their_numbers_at_most(tmp_path, beside):
    (tmp_path / "mine.py").write_text(f"FILES = ()\n{beside}\ndef dataset(request): ...\n")
    with pytest.raises(UserError, match=r'FILES: found beside it .* allowed is CHECK = "items" or "none"'):
        _own.declared("mine", str(tmp_path / "mine.py"))


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


PARTS = """
class Parts(Files):
    def __getitem__(self, index):
        return torch.from_numpy(self.read(index)), index % 4, f"speaker {index % 3}"


def padded(audio):
    return torch.nn.utils.rnn.pad_sequence(audio, batch_first=True)


def loader(request):
    return DataLoader(Parts(request), request.batch_size, shuffle=True, collate_fn=collate, num_workers=request.workers)


def collate(items):
    audio, labels, names = map(list, zip(*items))
"""
SORTED = "    items.sort(key=lambda item: -len(item[0]))\n    audio, labels, names = map(list, zip(*items))\n"
OF_COLLATE = {  # what ends the collate function, and the codes of what is said
    "labels of the next row": ("return padded(audio), torch.tensor(labels[1:] + labels[:1]), names", {"own-swapped"}),
    "names of the next row, in a dict": ("return {'a': padded(audio), 'n': names[1:] + names[:1]}", {"own-swapped"}),
    "audio sorted alone": ("return padded(sorted(audio, key=len)), torch.tensor(labels), names", {"own-swapped"}),
    "the order is kept": ("return padded(audio), torch.tensor(labels), names", set()),
    "all is sorted by length, in place": (SORTED + "    return padded(audio), torch.tensor(labels), names", set()),
    "sorted audio, and the order beside it": (
        "order = np.argsort([-len(one) for one in audio])\n"
        "    return padded([audio[one] for one in order]), torch.tensor(labels), torch.tensor(order.copy())", set()),
    "a mixture": (
        "order = torch.randperm(len(audio))\n    audio, labels = padded(audio), torch.tensor(labels)\n"
        "    return 0.7 * audio + 0.3 * audio[order], labels, labels[order]", set()),
    "the name of the first for all": ("return padded(audio), labels, [names[0]] * len(names)", {"own-swapped"}),
    "flags beside labels as vectors": (
        "return padded(audio), torch.eye(4)[labels], torch.rand(len(labels)) < 0.5", set()),
    "half": ("return padded(audio).half(), torch.tensor(labels)", {"own-narrowed"}),
    "bfloat16, sorted": (SORTED + "    return padded(audio).bfloat16(), torch.tensor(labels)", {"own-narrowed"}),
    "float64": ("return padded(audio).double(), torch.tensor(labels)", set()),
    "a float32 of a float64": ("return padded([one.double() for one in audio]).float(), torch.tensor(labels)", set()),
    "half beside the whole": ("return padded(audio).half(), padded(audio), torch.tensor(labels)", set()),
    "labels as float16, which holds them": ("return padded(audio), torch.tensor(labels).half()", set()),
}  # fmt: skip


def said_of(module, request, corpus) -> set[str]:
    """Return the codes of what is said of a loader, beside that it pads; nothing of it is a fault."""
    verifier = verified(module, request, corpus)
    assert verifier.problems == []
    return {one["code"] for one in own_items.warnings_of(verifier.found())} - {"own-padding"}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", OF_COLLATE)
def test_a_collate_function_is_compared_with_its_items(tmp_path, corpus, placed, name, workers):
    end, codes = OF_COLLATE[name]
    module, request = opened(tmp_path, corpus, placed, "items", f"{PARTS}    {end.lstrip()}\n", workers=workers)
    assert said_of(module, request, corpus) == codes
    assert said_of(module, replace(request, compared_epochs=0), corpus) == set(), "of a timed run nothing is compared"


ROUND = """
class Round(Files):
    def __getitem__(self, index):
        audio, chance = torch.from_numpy(np.resize(self.read(index), 4000)), np.random.default_rng(index)
        bands = torch.from_numpy(np.abs(np.fft.rfft(audio.reshape(20, 200)))).float()
        {item}

def dataset(request):
    return Round(request)
"""
BY_BATCH = """
    def __getitems__(self, indices):
        return [self[index] for index in indices]


def dataset(request):"""
NARROWED = {"own-items-narrowed"}
OF_ITEMS = {  # how an item ends, and the codes of what is said: audio is int16 / 32,768
    "half and back": ("return audio.half().float(), index", NARROWED),
    "half and back, quiet": ("return (0.001 * audio).half().float()", NARROWED),
    "half and back, the second part, in float64": ("return index, audio.half().double()", NARROWED),
    "bfloat16 and back": ("return {'audio': audio.bfloat16().float(), 'item': index}", NARROWED),
    "a spectrogram in float16": ("return bands.half().float()", NARROWED),
    "float16 by NumPy, few values an item": ("return audio[:200].numpy().astype(np.float16).astype(np.float32)",
                                             NARROWED),
    "16-bit audio": ("return audio, index", set()),
    "quiet 16-bit audio": ("return (audio * 32768).clamp(-2048, 2047) / 32768", set()),
    "8-bit audio": ("return (audio * 128).round() / 128", set()),
    "8-bit audio of other gains": ("return (audio * 128).round() / 128 * 2.0 ** -(index % 12)", set()),
    "12-bit audio": ("return (audio * 2048).round() / 2048", set()),
    "mu-law": ("return audio.sign() * (256 ** ((audio.abs() * 127).round() / 127) - 1) / 255", set()),
    "an image": ("return torch.from_numpy(chance.integers(256, size=(3, 40, 40), dtype=np.uint8)) / 255", set()),
    "a normalised image": ("return (torch.from_numpy(chance.integers(256, size=(3, 40, 40))) / 255 - 0.45) / 0.22",
                           set()),
    "a spectrogram": ("return bands.log1p()", set()),
    "float16, which says so": ("return audio.half(), index", set()),
    "counts beside audio": ("return audio, torch.arange(4000.0), torch.zeros(2000)", set()),
    "one item that is loud": ("return audio if index == 3 else audio.half().float()", set()),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_ITEMS)
def test_a_dataset_that_narrows_by_itself_is_named(tmp_path, corpus, placed, name):
    end, codes = OF_ITEMS[name]
    module, request = opened(tmp_path, corpus, placed, "items", ROUND.replace("{item}", end), workers=2)
    assert said_of(module, request, corpus) == codes
    whole = ROUND.replace("def dataset(request):", BY_BATCH)
    module, request = opened(tmp_path, corpus, placed, "items", whole.replace("{item}", end))
    assert said_of(module, request, corpus) == codes


def test_what_the_corpus_holds_is_narrowed_by_no_dataset(tmp_path, corpus, placed):
    """A piece is the recording's, bit by bit; of the rate alone nothing is judged."""
    for check in ("slice", "none"):
        text = ROUND.replace("{item}", "return audio.half().float()[None]")
        module, request = opened(tmp_path, corpus, placed, check, text)
        verifier = verified(module, request, corpus)
        assert verifier.found()["items_narrowed"] is None


def test_equal_labels_may_come_from_any_item(tmp_path, corpus, placed):
    text = PARTS.replace("index % 4", "7") + "    return padded(audio), torch.tensor(labels[1:] + labels[:1])\n"
    module, request = opened(tmp_path, corpus, placed, "items", text)
    assert said_of(module, request, corpus) == set()


def test_numbers_follow_a_collate_function_that_sorts(tmp_path, corpus, placed):
    end = SORTED + "    return padded(audio)[:, None], labels"
    module, request = opened(tmp_path, corpus, placed, "slice", f"{PARTS}    {end.lstrip()}\n", workers=2)
    assert said_of(module, request, corpus) == set()


def test_timed_epochs_of_workers_that_stay_compare_nothing(tmp_path, corpus, placed):
    text = PARTS.replace("num_workers=", "persistent_workers=True, num_workers=")
    text += "    return padded(audio).half(), labels\n"
    module, request = opened(tmp_path, corpus, placed, "items", text, workers=1, compared_epochs=1)
    with module.open_epochs(request) as epoch:
        compared = [[batch["beside"][0].traced is not None for batch in epoch(number)] for number in range(2)]
    assert all(compared[0]) and not any(compared[1])


CROPS = """
class Crops(Files):
    def __init__(self, request):
        super().__init__(request)
        self.random = np.random.default_rng(0)

    def __getitem__(self, index):
        audio = self.read(index)
        room = len(audio) - 1000
        return audio[start(self, index, room) :][:1000][None]


def loader(request):
    return DataLoader(Crops(request), request.batch_size, shuffle=True, num_workers=request.workers, {stay})


def start(data, index, room):
    return {start}
"""
STAY = "persistent_workers=True"


@pytest.mark.parametrize(
    ("start", "stay", "workers", "codes"),
    [
        ("data.random.integers(room + 1)", STAY, 2, {"own-workers-alike"}),
        ("data.random.integers(room + 1)", "", 2, {"own-workers-alike", "own-epochs-alike"}),
        ("data.random.integers(room + 1)", "", 0, set()),
        ("np.random.default_rng(index).integers(room + 1)", "", 2, {"own-epochs-alike"}),
        ("int(torch.randint(room + 1, ()))", STAY, 2, set()),
        ("random.randint(0, room)", "", 2, set()),
        ("0", "", 2, set()),
        ("room // 2", STAY, 2, set()),
        ("room", "", 2, set()),
        ("min(700, room)", STAY, 2, set()),
    ],
)
def test_the_same_crops_again_are_named(tmp_path, corpus, placed, start, stay, workers, codes):
    text = CROPS.format(start=start, stay=stay)
    module, request = opened(tmp_path, corpus, placed, "slice", text, workers=workers, batch_size=4)
    assert said_of(module, request, corpus) == codes


STREAM = """
class Stream(IterableDataset):
    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for place, number in enumerate(random.sample(range(first, 64, step), len(range(first, 64, step)))):
            if {ends}:
                break
            yield number, torch.rand(10)


class Long(Stream):
    def __len__(self):
        return {says}


def numbers(batch):
    return batch[0]


def loader(request):
    return DataLoader({kind}(), 4, num_workers=request.workers)
"""


@pytest.mark.parametrize(
    ("ends", "says", "kind", "codes"),
    [
        ("False", 64, "Long", set()),
        ("False", 60, "Long", set()),  # each worker may end with a part of a batch
        ("False", 40, "Long", {"own-length"}),
        ("worker and worker.id == 1 and place == 4", 64, "Long", {"own-length"}),
        ("worker and worker.id == 1 and place == 4", 64, "Stream", set()),  # nobody knows how many there are
    ],
)
def test_an_epoch_of_another_length_than_len_says_is_named(tmp_path, corpus, placed, ends, says, kind, codes):
    text = STREAM.format(ends=ends, says=says, kind=kind)
    module, request = opened(tmp_path, corpus, placed, "items", text, workers=2)
    assert said_of(module, request, corpus) == codes


@pytest.mark.parametrize(("says", "codes"), [(0, set()), (1, {"own-length"})])
def test_a_batch_sampler_and_an_iterable_are_held_to_their_len(tmp_path, corpus, placed, says, codes):
    text = SHAPES["a batch sampler by length, padded to the longest"][1]
    text = text.replace("len(self.batches)\n\n\nclass", f"len(self.batches) + {says}\n\n\nclass")
    module, request = opened(tmp_path, corpus, placed, "items", text)
    assert said_of(module, request, corpus) == codes
    text = SHAPES["own threads, no DataLoader"][1]
    text = text.replace(
        "def numbers", f"    def __len__(self):\n        return -(-30 // self.size) + {says}\n\n\ndef numbers"
    )
    module, request = opened(tmp_path, corpus, placed, "items", text)
    assert said_of(module, request, corpus) == codes


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


def test_a_make_loader_delivers_the_corpus_s_items(tmp_path):
    (tmp_path / "mine.py").write_text('FORMAT = "wav"\nCHECK = "items"\ndef make_loader(data): ...\n')
    with pytest.raises(UserError, match=r'CHECK: found \'items\' .* allowed is "exact", or a loader\(request\)'):
        _own.declared("mine", str(tmp_path / "mine.py"))


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
    lines = [*by_hand.lines_of(record, Result(settings={}, corpus=""))]
    assert "Looked at: 30 items; each item is a piece of its recording, bit by bit" in lines
    assert not any("right data and labels" in line for line in lines)
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


@pytest.mark.parametrize("check", ["items", "none"])
def test_ranks_may_have_items_of_ones_own_but_no_pieces(tmp_path, corpus, placed, check):
    text = SHAPES["the whole file, then a crop"][1]
    module, request = opened(tmp_path, corpus, placed, check, text, share=Share(1, 2))
    assert never(module, request, "read", "warm") is None
    module.CHECK = "slice"
    assert never(module, request, "read", "warm").settings == ("world",)
