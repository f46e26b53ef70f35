"""Checksums that are kept: later runs are held to what was verified."""

import numpy as np
import pytest
import torch

from scripts.common.errors import UserError
from scripts.measure import checksums
from scripts.measure.sink import MEANS, PlainLoop, Sink, label_sums, label_weights, means


def batch_of(*items):
    """A batch of these items, whose tensors depend on the item."""
    index = torch.tensor(items)
    audio = (index[:, None, None] + torch.arange(50.0)) / 32768
    return {"item": index, "target": index % 3, "labels": torch.eye(40)[index % 40], "audio": audio}


@pytest.fixture
def verified():
    return checksums.checksums_of([Sink("cpu").consume(batch_of(*items)) for items in ((3, 1), (2, 0))])


def consumed(*batches):
    sink = Sink("cpu")
    return [sink.consume(batch) for batch in batches]


def test_checksums_are_those_of_the_items_in_any_order(verified):
    assert set(verified) == {0, 1, 2, 3}
    assert verified == checksums.checksums_of(consumed(batch_of(0, 1, 2, 3)))
    assert [sums[0] for _, sums in sorted(verified.items())] == [0, 1, 2, 0]


def test_what_is_saved_is_loaded(tmp_path, verified):
    path = tmp_path / "checksums.npy"
    checksums.save(path, verified)
    assert checksums.load(path) == verified
    rows = np.load(path, allow_pickle=False)
    assert (rows.dtype, rows.shape) == (np.int64, (4, 4)) and rows[:, 0].tolist() == [0, 1, 2, 3]
    checksums.save(path, {})
    assert checksums.load(path) == {}


@pytest.mark.parametrize("classes", [2, 10, 600])
def test_other_labels_have_another_checksum(classes):
    """Exact by definition; no two rows of up to two labels have the same, nor one whose value differs by a bit."""
    pairs = [{one, other} for one in range(min(classes, 40)) for other in range(one, classes)]
    labels = torch.zeros(len(pairs) + 2, classes)
    for row, pair in zip(labels, pairs, strict=False):
        row[list(pair)] = 1
    labels[-1, 0] = torch.nextafter(torch.tensor(1.0), torch.tensor(2.0))
    sums = label_sums(labels, torch.tensor(label_weights(classes))).tolist()
    assert len(set(sums)) == len(pairs) + 2
    bits = labels[5 % len(pairs)].view(torch.int32).tolist()
    exact = sum(bit * weight for bit, weight in zip(bits, label_weights(classes), strict=True))
    assert (sums[5 % len(pairs)] - exact) % (1 << 64) == 0


@pytest.mark.parametrize("rows", [np.zeros((2, 3), dtype=np.int64), np.zeros((2, 4)), np.zeros(4, dtype=np.int64)])
def test_another_array_is_refused(tmp_path, rows):
    np.save(tmp_path / "checksums.npy", rows)
    with pytest.raises(UserError, match="expected int64"):
        checksums.load(tmp_path / "checksums.npy")


def test_checksums_without_sums_are_not_saved(tmp_path):
    plain = checksums.checksums_of([PlainLoop().consume(batch_of(0, 1))])
    with pytest.raises(ValueError):
        checksums.save(tmp_path / "checksums.npy", plain)
    assert not (tmp_path / "checksums.npy").exists()


def test_what_was_verified_passes(verified):
    assert checksums.check_against(verified, consumed(batch_of(2, 3), batch_of(0, 1)), whole=True) == []
    assert checksums.check_against(verified, consumed(batch_of(2)), whole=False) == []
    assert checksums.check_against(verified, [PlainLoop().consume(batch_of(2, 3))], whole=False) == []


def reversed_audio(batch):
    batch["audio"][1] = batch["audio"][1].flip(1)


def other_target(batch):
    batch["target"][1] += 1


def other_labels(batch):
    batch["labels"][1] = batch["labels"][1].roll(1)


@pytest.mark.parametrize("fault", [reversed_audio, other_target, other_labels])
def test_other_data_is_found(verified, fault):
    batch = batch_of(2, 3)
    fault(batch)
    problems = checksums.check_against(verified, consumed(batch), whole=False)
    assert problems == ["other data than was verified: 1: 3"]


def test_faults_of_the_epoch_are_found(verified):
    problems = checksums.check_against(verified, consumed(batch_of(2, 9), batch_of(2)), whole=True)
    assert problems == ["items that are not in the split: 1: 9", "doubled items: 1: 2", "missing items: 3: 0, 1, 3"]
    short = batch_of(0, 1)
    short["target"] = short["target"][:1]
    problems = checksums.check_against(verified, consumed(short), whole=False)
    assert problems == ["wrong batch: tensors of 2, 1, 2, 2 items"]
    target = PlainLoop().consume({**batch_of(0), "target": torch.tensor([1])})
    assert checksums.check_against(verified, [target], whole=False) == ["other data than was verified: 1: 0"]


def test_many_faults_are_counted(verified):
    problems = checksums.check_against(verified, consumed(batch_of(*range(10, 30))), whole=False)
    assert problems == ["items that are not in the split: 20: 10, 11, 12, 13, 14, ..."]


def test_a_whole_epoch_has_another_order_than_the_one_before():
    first, second = (consumed(batch_of(*items)) for items in (range(20), reversed(range(20))))
    assert checksums.same_orders([first, second, first]) == []
    assert checksums.same_orders([first, second, second]) == ["not shuffled: epoch 2 has the order of the epoch before"]
    few = consumed(batch_of(0, 1, 2))
    assert checksums.same_orders([few, few]) == [], "that happens by chance"


def images_of(*pictures):
    """A batch of these images, numbered."""
    index = torch.arange(len(pictures))
    return {"item": index, "target": index % 3, "labels": torch.eye(40)[index], "image": torch.stack(pictures)}


@pytest.mark.parametrize("kind", [torch.uint8, torch.float32])
def test_means_are_those_of_eight_parts(kind):
    picture = np.random.default_rng(3).integers(0, 256, (3, 7, 8), dtype=np.uint8)
    picture[0, :3] = 255  # the first part
    picture[2, 4:] = 254  # most of the last: its byte is the sign's
    values = torch.from_numpy(picture)[None]
    [found] = means(values if kind == torch.uint8 else values.float() / 255).tolist()
    parts = picture.reshape(MEANS, -1).astype(float).mean(axis=1)
    assert list((found % (1 << 64)).to_bytes(MEANS, "little")) == np.rint(parts).tolist() and found < 0


@pytest.mark.parametrize(("fault", "within"), [
    (lambda values: values + 5, True),  # by another decoder
    (lambda values: values + 30, False),
    (lambda values: values.flip(1), False),
    (lambda values: values.flip(0), False),  # blue, green, red
    (lambda values: torch.full_like(values, 90), False),
])  # fmt: skip
def test_a_decoder_that_varies_is_held_to_means(fault, within):
    ramp = torch.linspace(0, 60, 48, dtype=torch.uint8).view(1, 6, 8)  # darker above
    right = torch.cat([ramp, ramp + 60, ramp + 120])
    sink = Sink("cpu")
    sink.varies = True
    verified = checksums.checksums_of([sink.consume(images_of(right, right))])
    other = [sink.consume(images_of(right, fault(right)))]
    assert checksums.check_against(verified, other, True, 17) == ["other data than was verified: 1: 1"] * (not within)
    assert checksums.check_against(verified, other, True, 0) == ["other data than was verified: 1: 1"]
    plain = [PlainLoop().consume(images_of(right, right))]
    assert checksums.check_against(verified, plain, True, 17) == []
    labelled = images_of(right, right)
    labelled["labels"] = labelled["labels"].roll(1)
    assert checksums.check_against(verified, [sink.consume(labelled)], True, 17)
