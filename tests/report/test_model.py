"""The arithmetic of the user's own model, against a table reckoned by hand."""

import pytest

from scripts.decide.utilisation import Feeding
from scripts.report.hero import hero
from scripts.report.model import Answer, Candidate, Model, smallest, unit_of
from tests.support.made_runs import Made
from tests.support.report_pages import tables_of

PCM = 320_000  # bytes: 10 s at 16 kHz as 16-bit samples
ITEMS = 320  # ten batches of 32
FED = Feeding(10.0, 0.0, 0.0, start_seconds=0.05)  # a batch takes 10 ms
FLOATS = Candidate(3200.0, FED, 32, 2.0 * PCM, False)
SHORTS, WAITS = FLOATS._replace(item_bytes=float(PCM)), FLOATS._replace(fed=FED._replace(wait_ms=10.0))
KEEPS, PACKED = FLOATS._replace(keeps=True), FLOATS._replace(item_bytes=PCM / 2)
SMALL = Model(32, 20.0, None, 25.0, 100.0)
LARGE = Model(64, 15.0, 300.0, 25.0, 100.0)


@pytest.mark.parametrize(
    ("candidate", "model", "rate", "au", "source"),
    [
        (FLOATS, SMALL, 3200.0, 100 * 200 / 250, "memory"),  # ten steps of 20 ms, and 50 ms to start
        (WAITS, SMALL, 3200.0, 100 * 200 / 350, "memory"),  # nothing overlaps
        (FLOATS._replace(fed=None), SMALL, None, None, "unknown"),  # it was not tried with steps
        (FLOATS._replace(measured=(32, 20.0, 77.0)), SMALL, 3200.0, 77.0, "memory"),
        (FLOATS._replace(measured=(32, 10.0, 77.0)), SMALL, 3200.0, 80.0, "memory"),
        # 300 GB, 937,500 items, 14,649 batches; storage gives 100 MB/s: 156.25 items/s as float32, 409.6 ms a batch
        (FLOATS, LARGE, 156.25, 100 * 15 / 409.6, "storage"),
        (SHORTS, LARGE, 312.5, 100 * 15 / 204.8, "storage"),
        (PACKED, LARGE, 625.0, 100 * 15 / 102.4, "storage"),
        (KEEPS, LARGE, None, None, "does not fit"),
        (FLOATS, LARGE._replace(storage_mbps=None), None, None, "unknown"),
        (FLOATS._replace(item_bytes=None), LARGE, None, None, "unknown"),
        (FLOATS._replace(rate=None), SMALL, None, None, "unknown"),  # it was measured in a training
        (FLOATS, LARGE._replace(storage_mbps=1e6), 3200.0, 75.0, "memory"),  # faster than the loader: 20 ms a batch
        # 20 GB fit as 16-bit samples, and do not as float32
        (SHORTS, LARGE._replace(gigabytes=20.0), 3200.0, 75.0, "memory"),
        (FLOATS, LARGE._replace(gigabytes=20.0), 156.25, 100 * 15 / 409.6, "storage"),
        (PACKED, LARGE._replace(gigabytes=40.0), 3200.0, 75.0, "memory"),
    ],
)
def test_what_a_result_gives_to_a_model(candidate, model, rate, au, source):
    found = candidate.answer(model, PCM, ITEMS)
    assert (found.rate, found.source) == (rate, source)
    assert found.au == (None if au is None else pytest.approx(au, rel=5e-3))
    assert found.sustains == (None if source == "unknown" else au is not None and au >= 90)


@pytest.mark.parametrize(
    ("au", "text"),
    [(98.2, "98 %"), (90.0, "90 %"), (89.98, "89.9 %"), (89.61, "89.6 %"), (89.4, "89 %"), (7.31, "7.3 %")],
)
def test_what_misses_the_target_does_not_read_as_if_it_had_it(au, text):
    assert Answer(1.0, au, "memory").au_text == text


def test_other_data_has_other_units():
    """Images of bytes are delivered as they are stored; of float32 they are four times as large."""
    shape = [3, 224, 224]
    item = {"key": "image", "dtype": "uint8", "shape": shape, "stored": "uint8", "decoding": "", "kind": "image"}
    size = 3 * 224 * 224
    assert unit_of({"sample": item}).sizes == (("uint8", size),)
    floats = unit_of({"sample": item | {"dtype": "float32"}})
    assert floats.sizes == (("float32", 4 * size), ("uint8", size)) and floats.stored_bytes == size
    encoded = smallest([PACKED._replace(item_bytes=size / 6), PACKED._replace(item_bytes=None)], floats)
    assert encoded == size / 6 and smallest([], floats) == smallest([PACKED._replace(item_bytes=9e9)], floats) == size
    array = item | {"key": "array", "kind": "array", "dtype": "float16", "stored": "float16", "shape": [80, 300]}
    assert unit_of({"sample": array}).data == "arrays of float16"
    assert unit_of({"sample": array}).stored_bytes == 48_000


@pytest.mark.parametrize("how", [{"task": "lightning"}, {"step_ms": 20, "au": 91.0}])
def test_what_was_measured_with_a_step_does_not_say_what_a_loader_gives_to_another(tmp_path, how):
    tables = tables_of(tmp_path, [Made("a", "ram", [480.0] * 3, **how), Made("b", "ram", [470.0] * 3, **how)])
    found = hero(tables, "cpu", None)
    assert [one["answer"] for one in found["rows"]] == [Answer(None, None, "unknown")] * 2
