"""Sources of images and arrays: the idx files of MNIST, and arrays made here."""

import gzip
import json
import struct

import numpy as np
import pytest
from PIL import Image

from scripts.common import plugins
from scripts.common.errors import UserError
from scripts.common.ledger import SourceRequest

IMAGES = np.random.default_rng(0).integers(0, 256, (25, 6, 4), dtype=np.uint8)
LABELS = np.arange(25, dtype=np.uint8) % 3


def idx(values: np.ndarray) -> bytes:
    """Return an array of bytes in the form of an idx file."""
    return bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


HALF = idx(IMAGES).replace(struct.pack(">2I", 6, 4), struct.pack(">2I", 3, 4), 1)  # of another height than its data
HUGE = idx(IMAGES).replace(struct.pack(">2I", 6, 4), struct.pack(">2I", 2**32 - 1, 2**32 - 1), 1)


@pytest.fixture
def options(tmp_path):
    (tmp_path / "images").write_bytes(idx(IMAGES))
    (tmp_path / "labels.gz").write_bytes(gzip.compress(idx(LABELS), mtime=0))
    return {"images": str(tmp_path / "images"), "labels": str(tmp_path / "labels.gz"), "names": None}


def rows_of(source, options, store, shards=1, **more):
    module = plugins.load("sources", source)
    module.check(options)
    requests = [SourceRequest(options, 10.0, shard, shards, store, **more) for shard in range(shards)]
    return [row for request in requests for row in module.fetch(request)]


def test_each_image_of_an_idx_file_is_there_once_without_loss(options, tmp_path):
    for shards in (1, 3):
        rows = rows_of("idx", options, tmp_path / "store", shards)
        assert [row.id for row in rows] == [f"image-{number:06d}" for number in range(25)]
        assert [row.labels for row in rows] == [[f"class {label}"] for label in LABELS]
        found = [np.asarray(Image.open(tmp_path / "store" / row.path)) for row in rows]
        assert np.array_equal(found, IMAGES)
    assert plugins.load("sources", "idx").expected(options) == 25


def test_classes_have_names(options, tmp_path):
    rows = rows_of("idx", options | {"names": ["shirt", "coat", "bag"]}, tmp_path / "store")
    assert {row.labels[0] for row in rows} == {"shirt", "coat", "bag"}
    with pytest.raises(UserError, match="found 2 names, image 2 is of class 2"):
        rows_of("idx", options | {"names": ["shirt", "coat"]}, tmp_path / "store")


@pytest.mark.parametrize(("name", "content", "words"), [
    ("images", idx(LABELS), "allowed is an idx file of bytes with 3 dimensions, 00 00 08 03"),
    ("images", b"", "found nothing at its beginning"),
    ("labels", idx(LABELS[:-1]), "found 24 labels of 25 images"),
    ("labels", gzip.compress(idx(LABELS), mtime=0)[:-20], "truncated"),
    ("labels", gzip.compress(idx(LABELS)[:-3], mtime=0), "found 22 of 25 bytes: it is truncated"),
    ("images", idx(IMAGES)[:-5], "found 611 bytes, its header says 25 x 6 x 4, which are 616"),
    ("images", HALF, "found 616 bytes, its header says 25 x 3 x 4, which are 316"),
    ("images", gzip.compress(HALF, mtime=0), "found more bytes than its header says"),
    ("images", idx(IMAGES[:0]), "found 0 x 6 x 4 as its sizes"),
    ("images", gzip.compress(HUGE, mtime=0), "allowed are 1 and more, and images of at most"),
    ("images", None, "found no file"),
])  # fmt: skip
def test_other_files_are_refused(options, tmp_path, name, content, words):
    path = tmp_path / "other"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=words):
        rows_of("idx", options | {name: str(path)}, tmp_path / "store")


def test_made_arrays_are_the_same_again(tmp_path):
    of_kind = {"shape": [3, 5], "dtype": "int16"}
    options = {"arrays": 12, "seed": 3}
    rows = rows_of("synthetic_arrays", options, tmp_path / "one", kind_options=of_kind)
    again = rows_of("synthetic_arrays", options, tmp_path / "two", 3, kind_options=of_kind)
    assert [(row.id, row.labels) for row in rows] == [(row.id, row.labels) for row in again]
    for row in rows:
        one, two = (np.load(tmp_path / folder / row.path) for folder in ("one", "two"))
        assert one.dtype == np.int16 and one.shape == (3, 5) and np.array_equal(one, two)


def test_made_arrays_keep_to_the_range_of_their_type(tmp_path):
    """What is beyond it has no defined value: another machine would make other data of the same seed."""
    of_kind = {"shape": [40, 50], "dtype": "int8"}
    rows = rows_of("synthetic_arrays", {"arrays": 12, "seed": 3}, tmp_path, kind_options=of_kind)
    values = {row.labels[0]: np.load(tmp_path / row.path) for row in rows}
    assert values["class 9"].max() == 127 and values["class 9"].min() > 60


def test_every_source_says_which_data_it_brings():
    found = {name: plugins.kinds(plugins.load("sources", name)) for name in plugins.names("sources")}
    assert found["folder"][0] == "audio" and set(found["folder"]) == set(plugins.names("kinds"))
    assert found["idx"] == ("image",)
    assert all(set(kinds) <= set(plugins.names("kinds")) for kinds in found.values())
    assert json.dumps(found)
