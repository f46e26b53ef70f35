"""Where the time of a user's own items goes: lines that are planted, and Datasets of which nothing can be said."""

import time

import numpy as np
import pytest
import soundfile

from scripts.loaders import _own, _own_epochs
from scripts.machine.folders import location_of
from scripts.measure.item_lines import item_lines
from tests.support.loader_cases import request_for, write_format
from tests.support.made_corpus import make_corpus

HEAD = """
import time
import numpy as np
import soundfile
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

FORMAT = "wav"
CHECK = {check!r}


class Files(Dataset):
    def __init__(self, request):
        self.files = sorted(request.data.glob("*.wav"))

    def __len__(self):
        return len(self.files)


def dataset(request):
    return Mine(request)


"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return make_corpus(tmp_path_factory.mktemp("lines") / "corpus", items=40, seconds=4.0)


@pytest.fixture(scope="module")
def placed(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lines_wav")
    write_format(corpus, "wav", folder, 2)
    return folder


@pytest.fixture
def found(tmp_path, corpus, placed):
    """Return what the lines of a file with this text are found to cost."""

    def of(text: str, check: str = "items", **changes):
        file = tmp_path / "mine.py"
        file.write_text(HEAD.format(check=check) + text)
        module = _own_epochs.imported(_own.declared("mine", str(file)))
        return item_lines(module, request_for(corpus, "soundfile", location_of(placed), **changes))

    return of


BURNS = """
class Mine(Files):
    def __getitem__(self, index):
        audio = soundfile.read(self.files[index], dtype="float32")[0]
        time.sleep(0.015)  # burns
        return audio
"""


@pytest.mark.parametrize(("check", "workers"), [("items", 0), ("exact", 2)])
def test_a_line_that_burns_has_most_of_the_time(found, check, workers):
    text = BURNS if check == "exact" else BURNS.replace("return audio", "return audio[:100]")
    seen = found(text, check, workers=workers)
    first = seen["lines"][0]
    assert seen["reason"] is None and seen["items"] > 0 and seen["item_ms"] > 15
    assert (first["file"], first["part"], first["function"]) == ("mine.py", "other", "__getitem__")
    assert "# burns" in first["code"] and first["share"] > 0.5
    assert first["ms"] == pytest.approx(first["share"] * seen["item_ms"])
    assert sum(seen["parts"].values()) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("built", ["Mels()", "torch.nn.Linear(2000, 1000)"])
def test_an_object_that_each_item_builds_is_a_part(found, built):
    text = f"""
class Mels:
    def __init__(self):
        self.table = np.random.rand(300, 1000).cumsum(0)


class Mine(Files):
    def __getitem__(self, index):
        made = {built}  # builds
        return np.zeros(100, np.float32)
"""
    seen = found(text)
    assert max(seen["parts"], key=seen["parts"].get) == "build"
    assert seen["lines"][0]["part"] == "build"
    assert ("# builds" in seen["lines"][0]["code"]) == (built != "Mels()")  # a class of theirs has lines of its own


def test_reading_is_told_from_computing_as_a_clock_tells_it(found, placed):
    files = sorted(location_of(placed).split("train").path.glob("*.wav"))
    windows = "np.stack([np.abs(np.fft.rfft(audio[k : k + 8000])) for k in range(0, 8000, 400)])"
    read, computed = 0.0, 0.0
    for path in files:
        started = time.perf_counter()
        audio = soundfile.read(path, dtype="float32")[0]
        between = time.perf_counter()
        eval(windows, {"np": np, "audio": audio, "range": range})
        read, computed = read + between - started, computed + time.perf_counter() - between
    seen = found(f"""
class Mine(Files):
    def __getitem__(self, index):
        audio = soundfile.read(self.files[index], dtype="float32")[0]
        bins = {windows}
        return bins[:, :100]
""")
    direct = read / (read + computed)
    share = seen["parts"]["decode"] / (seen["parts"]["decode"] + seen["parts"]["other"])
    assert direct / 3 < share < 1 - (1 - direct) / 3, (direct, seen["parts"])
    assert {row["part"] for row in seen["lines"][:4]} >= {"decode", "other"}
    assert next(row for row in seen["lines"] if row["part"] == "decode")["code"].startswith("audio = soundfile.read")


def test_parts_of_one_line_are_told_apart(found):
    seen = found("""
class Mine(Files):
    def __getitem__(self, index):
        return np.abs(np.fft.fft(np.tile(soundfile.read(self.files[index])[0], 4)))[:100]
""")
    of_line = {row["part"] for row in seen["lines"] if row["code"].startswith("return np.abs")}
    assert of_line >= {"decode", "other"}


def test_collating_is_a_part(found):
    seen = found("""
class Mine(Files):
    def __getitem__(self, index):
        return np.zeros(100, np.float32)


def slow(items):
    time.sleep(0.05)
    return torch.as_tensor(np.stack(items))


def loader(request):
    return DataLoader(Mine(request), request.batch_size, collate_fn=slow)
""")
    assert seen["lines"][0]["part"] == "collate" and seen["lines"][0]["function"] == "slow"


def test_an_iterable_dataset_has_lines_too(found):
    seen = found(
        """
class Mine(IterableDataset):
    def __init__(self, request):
        self.files = sorted(request.data.glob("*.wav"))

    def __iter__(self):
        for path in self.files:
            time.sleep(0.005)
            yield soundfile.read(path, dtype="float32")[0][:100]


def loader(request):
    return DataLoader(Mine(request), 4)
""",
        "none",
    )
    assert seen["reason"] is None and seen["lines"][0]["code"] == "time.sleep(0.005)"


def test_items_that_take_long_end_within_a_batch(found):
    seen = found(
        """
class Mine(Files):
    def __getitem__(self, index):
        time.sleep(2.0)
        return np.zeros(100, np.float32)
""",
        batch_size=32,
    )
    assert 0 < seen["items"] <= 2


WITHOUT = {
    "one that raises now and then": ("""
class Mine(Files):
    def __getitem__(self, index):
        if index % 3 == 1:
            raise OSError("torn")
        return np.zeros(100, np.float32)
""", r"OSError: torn (mine.py, line "),
    "no DataLoader": ("""
def loader(request):
    return iter([])
""", "no DataLoader"),
    "open_epochs alone": ("""
def open_epochs(request):
    yield None
""", "open_epochs(request)"),
    "an empty stream": ("""
class Mine(IterableDataset):
    def __init__(self, request):
        pass

    def __iter__(self):
        return iter([])


def loader(request):
    return DataLoader(Mine(request), 4)
""", "no item"),
}  # fmt: skip


@pytest.mark.parametrize("name", WITHOUT)
def test_what_has_no_lines_has_a_reason(found, name):
    text, words = WITHOUT[name]
    seen = found(text)
    assert words in seen["reason"] and seen["lines"] == [] and seen["item_ms"] is None
