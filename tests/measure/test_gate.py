"""The gate: loaders broken on purpose, each in one way, must be caught, and told what is wrong."""

import itertools
import json
import shutil
import subprocess
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from scripts.common import plugins
from scripts.common.corpus import Corpus
from scripts.measure import checksums, order, protocol, run, sink
from scripts.measure.checksums import LEAST_SHUFFLED
from scripts.measure.sink import Sink
from scripts.measure.verify import Verifier
from tests.support.loader_cases import BATCH_SIZE, request_for, write_format
from tests.support.made_corpus import make_corpus
from tests.support.programs import PROJECT, program_line
from tests.support.repository import committed


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Corpus:
    return make_corpus(tmp_path_factory.mktemp("corpus") / "made", items=30, seconds=0.1)


@pytest.fixture(scope="module")
def batches(corpus, tmp_path_factory) -> list[dict]:
    """One right epoch of the train split."""
    folder = tmp_path_factory.mktemp("memmap")
    write_format(corpus, "memmap", folder, readers=1)
    with plugins.load("loaders", "numpy_memmap").open_epochs(request_for(corpus, "numpy_memmap", folder)) as epoch:
        return [{key: value.clone() for key, value in batch.items()} for batch in epoch(0)]


def missing(batches, _corpus):
    batches[1] = {key: value[1:] for key, value in batches[1].items()}


def doubled(batches, _corpus):
    for value in batches[0].values():
        value[1] = value[0]


def swapped_label(batches, _corpus):
    batches[0]["labels"] = batches[0]["labels"].roll(1, dims=1)


def swapped_target(batches, corpus):
    batches[0]["target"][0] = (batches[0]["target"][0] + 1) % corpus.classes


def scaled(batches, _corpus):
    for batch in batches:
        batch["audio"] *= 32768 / 32767


def scaled_down(batches, _corpus):
    for batch in batches:
        batch["audio"] *= 32767 / 32768


def wrapped(batches, _corpus):
    """What int16 arithmetic does to 32768: the loudest positive samples turn negative."""
    for batch in batches:
        batch["audio"][batch["audio"] > 0.999] -= 2


def padded_with_last_sample(batches, corpus):
    lengths = {item.index: min(item.frames, corpus.samples) for item in corpus.items("train")}
    for batch in batches:
        for row, index in enumerate(batch["item"].tolist()):
            batch["audio"][row, 0, lengths[index] :] = 0.25


def last_batch_dropped(batches, _corpus):
    batches.pop()


def audio_exchanged(batches, _corpus):
    batches[0]["audio"][[0, 1]] = batches[0]["audio"][[1, 0]]


def item_of_another_split(batches, corpus):
    batches[0]["item"][0] = next(corpus.items("validation")).index


def shifted(batches, _corpus):
    batches[0]["audio"][0] = batches[0]["audio"][0].roll(1, dims=1)


def not_a_number(batches, _corpus):
    batches[0]["audio"][0, 0, 5] = float("nan")


def a_tiny_difference(batches, _corpus):
    batches[0]["audio"][0, 0, 5] += 2**-17


def minus_zero(batches, _corpus):
    batches[0]["audio"][batches[0]["audio"] == 0] *= -1.0


def float64(batches, _corpus):
    batches[0]["audio"] = batches[0]["audio"].double()


def without_channel(batches, _corpus):
    batches[0]["audio"] = batches[0]["audio"][:, 0]


def without_item(batches, _corpus):
    del batches[0]["item"]


def too_many_short_batches(batches, _corpus):
    batches[:] = [{key: value[i : i + 2] for key, value in batch.items()} for batch in batches for i in range(0, 8, 2)]


BROKEN = {
    missing: "missing items: 1 of 23: ",
    doubled: "doubled items: item ",
    swapped_label: "wrong labels: item ",
    swapped_target: "wrong targets: item ",
    scaled: "is scaled by 1.000031",
    scaled_down: "is scaled by 0.999969",
    wrapped: "wraps around the int16 range at ",
    padded_with_last_sample: "wrong in the padding",
    last_batch_dropped: "missing items: 7 of 23: ",
    audio_exchanged: "carries the audio of item ",
    item_of_another_split: "items that are not in the split: item ",
    shifted: "is shifted by 1 samples",
    not_a_number: "not finite",
    a_tiny_difference: "differs at 1 of 1600 samples",
    minus_zero: "altered items: item ",
    float64: "audio is torch.float64",
    without_channel: "expected torch.float32 (8, 1, 1600)",
    without_item: "found the keys audio, target, labels, allowed are audio, target, labels, item",
    too_many_short_batches: "short batches: ",
}


@pytest.mark.parametrize("breaks", BROKEN, ids=lambda breaks: breaks.__name__)
def test_a_broken_loader_is_caught_and_told(breaks, batches, corpus):
    """The verify epoch fails with the message, and no epoch is timed."""
    broken = [{key: value.clone() for key, value in batch.items()} for batch in batches]
    breaks(broken, corpus)
    verifier = Verifier(corpus, "train", BATCH_SIZE, 1)
    times = protocol.run(always(broken), verifier, Sink("cpu"), 2, Ticks())
    assert not verifier.ok
    assert BROKEN[breaks] in " | ".join(verifier.problems)
    assert times.epochs == []


def test_a_right_loader_passes(batches, corpus):
    verifier = Verifier(corpus, "train", BATCH_SIZE, 1)
    times = protocol.run(always(batches), verifier, Sink("cpu"), 2, Ticks())
    assert verifier.problems == []
    assert verifier.as_json() == {"ok": True, "expected": 23, "delivered": 23, "problems": []}
    assert [epoch.items for epoch in times.epochs] == [23, 23]


def test_a_loader_that_cheats_after_the_verify_epoch_is_caught(batches, corpus):
    """Right in the verify epoch, short in the second timed one."""

    right = shuffled(batches, 2)
    assert "missing items in timed epoch 2: " in problems_of(corpus, [batches, shuffled(batches, 1), right[:-1]])


def stale_audio(batches):
    """The audio of the batch before: what a buffer does that is used again too early."""
    for before, batch in zip(batches[::-1][1:], batches[::-1], strict=False):
        batch["audio"] = before["audio"][: len(batch["item"])]


def nothing_but_items(batches):
    for batch in batches:
        batch["audio"], batch["target"] = batch["audio"][:1], batch["target"][:1]


def other_label(batches):
    batches[0]["labels"] = batches[0]["labels"].roll(1, dims=1)


def labels_of_the_next_item(batches):
    for batch in batches:
        batch["labels"] = batch["labels"].roll(1, dims=0)


def labels_of_equal_sums(batches):
    """Classes 0 and 3 for 1 and 2, whose numbers have the same sum, and the like."""
    sets = [torch.tensor(one, dtype=torch.float32) for one in itertools.product((0, 1), repeat=5)]
    for batch in batches:
        for row in batch["labels"]:
            same = [one for one in sets if _sums(one) == _sums(row) and not torch.equal(one, row)]
            row.copy_(same[0] if same else row)


def _sums(labels):
    classes = labels.nonzero().flatten()
    return len(classes), classes.sum().item()


def one_huge_batch(batches):
    batches[:] = [{key: torch.cat([batch[key] for batch in batches]) for key in batches[0]}]


def reversed_in_time(batches):
    for batch in batches:
        batch["audio"] = batch["audio"].flip(2)


def halves_exchanged(batches):
    for batch in batches:
        batch["audio"] = batch["audio"].roll(batch["audio"].shape[2] // 2, dims=2)


def shifted_by_one(batches):
    for batch in batches:
        batch["audio"] = batch["audio"].roll(1, dims=2)


def inverted(batches):
    for batch in batches:
        batch["audio"] = -batch["audio"]


CHEATS = {
    stale_audio: "other data than was verified in timed epoch 2: item ",
    nothing_but_items: "wrong batch in timed epoch 2: ",
    other_label: "other data than was verified in timed epoch 2: item ",
    **dict.fromkeys(
        (reversed_in_time, halves_exchanged, shifted_by_one, inverted, labels_of_the_next_item, labels_of_equal_sums),
        "other data than was verified in timed epoch 2: item ",
    ),
    one_huge_batch: "long batches in timed epoch 2: 23 items, allowed are 8",
}


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.__name__)
def test_other_data_in_a_timed_epoch_is_caught(cheat, batches, corpus):
    """Right in the verify epoch and the first timed one, wrong in the second."""
    epochs = [batches, shuffled(batches, 1), shuffled(batches, 2)]
    cheat(epochs[2])
    assert CHEATS[cheat] in problems_of(corpus, epochs)


def test_an_order_that_stays_is_caught(batches, corpus):
    """The same order in two epochs, and the order of the manifest."""
    assert "not shuffled in timed epoch 1: the order is that of an earlier epoch" in problems_of(corpus, [batches] * 2)
    rows = sorted(
        ({key: value[row] for key, value in batch.items()} for batch in batches for row in range(len(batch["item"]))),
        key=lambda row: row["item"].item(),
    )
    in_order = [torch.utils.data.default_collate(rows[i : i + BATCH_SIZE]) for i in range(0, len(rows), BATCH_SIZE)]
    assert "not shuffled: the order is that of the manifest" in problems_of(corpus, [in_order])


def test_an_order_that_stays_is_caught_by_a_proof(batches, corpus, monkeypatch):
    """A proof sees but the beginning of an epoch, and more only where that is no new order."""
    monkeypatch.setattr(order, "LEAST_ITEMS", LEAST_SHUFFLED)
    rows = [{key: value[row] for key, value in batch.items()} for batch in batches for row in range(len(batch["item"]))]
    in_order = sorted(rows, key=lambda row: row["item"].item())
    late = [*rows[:-2], rows[-1], rows[-2]]
    said = {
        "an earlier epoch": rows,
        "the manifest": in_order,
        None: late,
    }
    for like, second in said.items():
        taken = []
        verifier = Verifier(corpus, "train", 1, 1)
        asked = SimpleNamespace(clock=time.perf_counter, reached=lambda taken=taken: taken.append(0), verifier=verifier)
        one_by_one = [[torch.utils.data.default_collate([row]) for row in epoch] for epoch in (rows, second)]
        verifier.finish([Sink("cpu").consume(batch) for batch in one_by_one[0]])
        verifier.faults.clear()  # nobody has looked at its items
        run._Run._beginning(asked, 1, iter(one_by_one[1]), Sink("cpu"))
        expected = [f"not shuffled in epoch 1: the order is that of {like}"] if like else []
        assert verifier.problems == expected
        assert len(taken) == len(rows) - (like is None), "until it is another order: in the second item from the end"
        taken.clear()
        run._Run._beginning(asked, 1, iter(one_by_one[1][::-1]), Sink("cpu"))
        assert verifier.problems == expected and len(taken) == LEAST_SHUFFLED < len(rows)


def test_a_rank_is_held_to_the_proof_of_all(batches, corpus):
    """Its share is another one in each epoch: of most items its own verify epoch knows nothing."""
    sums = checksums.checksums_of([Sink("cpu").consume(batch) for batch in batches])
    for fault in (False, True):
        verifier = Verifier(corpus, "train", BATCH_SIZE, 1, world=2, sums=sums)
        verifier.finish([Sink("cpu").consume(batches[0])])
        batch = {key: value.clone() for key, value in batches[1].items()}
        batch["audio"][0] *= -1 if fault else 1
        for sink_ in (Sink("cpu"), sink.PlainLoop()):
            verifier.check_epoch(1, [sink_.consume(batch)])
        item = batch["item"][0].item()
        assert verifier.problems == [f"other data than was verified in timed epoch 1: item {item}"] * fault


def problems_of(corpus, epochs) -> str:
    """Take a loader that delivers these epochs through the protocol; return what the gate says."""

    @contextmanager
    def opened():
        yield lambda number: iter(epochs[number])

    verifier = Verifier(corpus, "train", BATCH_SIZE, 1)
    protocol.run(opened, verifier, Sink("cpu"), len(epochs) - 1, Ticks())
    return " | ".join(verifier.problems)


def shuffled(batches, epoch) -> list[dict]:
    """The same batches in another order, and the items in each."""
    order = [epoch % len(batches), *(number for number in range(len(batches)) if number != epoch % len(batches))]
    return [{key: value.flip(0).clone() for key, value in batches[number].items()} for number in order]


class Ticks:
    """A clock that says 0, 1, 2, ... and notes nothing else."""

    def __init__(self) -> None:
        self.now = -1.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def always(batches):
    """Return an `opened` for the protocol that gives the same batches in every epoch, in another order."""

    @contextmanager
    def opened():
        yield lambda number: iter(shuffled(batches, number) if number else batches)

    return opened


BROKEN_FILE = '''"""A loader broken on purpose: it leaves the sign of the loudest samples to chance."""

from contextlib import contextmanager

FORMAT = "memmap"
REQUIRES = {requires}
SETTINGS = ()


@contextmanager
def open_epochs(request):
    yield lambda number: iter([])
'''


@pytest.mark.parametrize(
    ("requires", "status", "reason"),
    [
        (("torch",), "failed", "verification: missing items: 23 of 23: "),
        (("no-such-library",), "skipped", "not installed: no-such-library"),
    ],
)
def test_run_loader_records_what_happened(tmp_path, corpus, broken_project, requires, status, reason):
    """The program itself: a broken loader is a record with its reason and without a speed; exit status 0."""
    (broken_project / "loaders" / "broken.py").write_text(BROKEN_FILE.format(requires=repr(requires)))
    commit = committed(tmp_path)
    write_format(corpus, "memmap", tmp_path / "memmap", readers=1)
    out = tmp_path / "run.json"
    command = [*program_line("run_loader"), "--loader", "broken", "--data", tmp_path / "memmap"]
    subprocess.run(
        [*command, "--corpus", corpus.root, "--out", out], check=True, capture_output=True, cwd=broken_project.parent
    )
    record = json.loads(out.read_text())
    assert (record["status"], record["items_per_second"]) == (status, None)
    assert record["commit"] == commit[:12]
    assert record["verification"] is None or record["verification"]["ok"] is False, "nothing was proven"
    assert record["reason"].startswith(reason)
    declared = record["declared"]
    assert declared["about"].startswith("A loader broken on purpose") and declared["requires"] == list(requires)
    assert declared["program"] is None, "it has no make_loader"
    absent = {name: version is None for name, version in declared["versions"].items()}
    assert absent == dict.fromkeys(requires, status == "skipped")


@pytest.fixture
def broken_project(tmp_path):
    """A copy of scripts/, of the schema it reads and of the environments it names, to plant a loader in."""
    project = PROJECT
    shutil.copytree(project / "envs", tmp_path / "envs")
    shutil.copytree(project / "workflow" / "schemas", tmp_path / "workflow" / "schemas")
    shutil.copy(project / ".gitignore", tmp_path)
    return shutil.copytree(plugins.SCRIPTS, tmp_path / "scripts", ignore=shutil.ignore_patterns("__pycache__"))


@pytest.mark.parametrize("key", ["audio", "target", "labels", "item"])
def test_sink_sees_every_value(batches, key):
    """A change of any one value, the first or the last, changes the checksum of its item and of no other."""
    sink = Sink("cpu")
    checksum = sink.consume(batches[0])
    for place in (0, -1):
        batch = {name: value.clone() for name, value in batches[0].items()}
        batch[key].view(BATCH_SIZE, -1)[3, place] += 1
        changed = sink.consume(batch)
        differs = torch.stack([old != new for old, new in zip(checksum, changed, strict=True)]).any(dim=0)
        assert differs.nonzero().flatten().tolist() == [3]


@pytest.mark.parametrize("samples", [1, 2, 15, 31, 32, 33, 62, 63, 997, 1000, 1601])
def test_the_checksum_depends_on_the_order_of_any_number_of_samples(samples):
    """It is that of the definition, the same for any layout in memory, and another one for another order."""
    made = torch.Generator().manual_seed(samples)
    audio = torch.randint(-32768, 32768, (3, 1, samples), generator=made) / 32768
    weights = torch.tensor(sink.WEIGHTS)
    found = sink.checksum(audio, weights)
    assert found.tolist() == [defined_checksum(item[0]) for item in audio.numpy()]
    offset = torch.cat([torch.zeros(3, 1, 1), audio, torch.zeros(3, 1, samples % 2)], dim=2)[:, :, 1 : samples + 1]
    columns = audio.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    for same in (offset, columns, audio.expand(3, 1, samples)):
        assert torch.equal(sink.checksum(same, weights), found)
    if samples > 2:
        others = [audio.flip(2), audio.roll(1, 2), audio.roll(2, 2), audio.roll(samples // 2, 2), -audio]
        assert all((sink.checksum(other, weights) != found).all() for other in others)


def defined_checksum(item) -> int:
    """Return the checksum of float32 (samples,) by numbers of any length."""
    bits, width = (item.view("int32"), 32) if len(item) % 2 else (item.view("int64"), 64)
    words = bits.tolist()
    size = len(words) // sink.CHUNKS
    sums = [signed(sum(words[part * size : (part + 1) * size]), width) for part in range(sink.CHUNKS)]
    weighted = zip(sums + words[sink.CHUNKS * size :], sink.WEIGHTS, strict=False)
    return signed(sum(value * weight for value, weight in weighted), 64)


def signed(number: int, width: int) -> int:
    """Return a number as two's complement of so many bits holds it."""
    return (number + 2 ** (width - 1)) % 2**width - 2 ** (width - 1)


def test_a_batch_without_channels_in_a_timed_epoch_is_an_error(batches, corpus):
    epochs = [batches, [{**batch, "audio": batch["audio"][:, 0]} for batch in shuffled(batches, 1)]]
    with pytest.raises(ValueError):
        problems_of(corpus, epochs)


def test_settings_by_hand_are_held_to_the_config(tmp_path):
    """A wrong setting is a message and no record."""
    command = [*program_line("run_loader"), "--loader", "numpy_memmap", "--settings", '{"gather": "all"}']
    places = ["--data", tmp_path, "--corpus", tmp_path, "--out", tmp_path / "run.json"]
    done = subprocess.run([*command, *places], capture_output=True, text=True)
    assert done.returncode == 2
    assert "--settings: gather[0]: " in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "run.json").exists()
