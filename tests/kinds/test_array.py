"""Which files are arrays of a data set, and what the gate says of one that was delivered wrong."""

import io
import zipfile

import numpy as np
import pytest

from scripts.common.corpus import item_hash
from scripts.common.decode import Rejected
from scripts.common.ledger import LedgerRow
from scripts.kinds import array
from tests.support.made_corpus import make_corpus

KIND = array.Kind((3, 5), "float32")


def array_of(path, kind=KIND) -> np.ndarray:
    """Return the one array of a file."""
    [found] = kind.pieces(LedgerRow("one", "fetched"), path)
    return found


def reason_of(path, kind=KIND) -> str:
    """Return why a file is no array of the corpus."""
    with pytest.raises(Rejected) as found:
        array_of(path, kind)
    return str(found.value)


def made(dtype="float32", shape=(3, 5)) -> np.ndarray:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["<f4", ">f4"])
def test_npy_and_npz_are_read_in_either_byte_order(tmp_path, dtype):
    np.save(tmp_path / "a.npy", made(dtype))
    np.savez(tmp_path / "a.npz", features=made(dtype))
    np.savez_compressed(tmp_path / "b.npz", other=made() + 1, features=made(dtype))
    named = array.Kind((3, 5), "float32", entry="features")
    for path, kind in (("a.npy", KIND), ("a.npz", KIND), ("b.npz", named)):
        found = array_of(tmp_path / path, kind)
        assert found.dtype == np.dtype("<f4") and np.array_equal(found, made())


def test_fortran_order_is_put_into_rows(tmp_path):
    np.save(tmp_path / "a.npy", np.asfortranarray(made()))
    assert array_of(tmp_path / "a.npy").flags.c_contiguous


@pytest.mark.parametrize(("values", "reason"), [
    (made(shape=(5, 3)), "other shape: [5, 3], shape asks for [3, 5]"),
    (made("float64"), "other type: float64, dtype asks for float32"),
    (np.where(made() == 4, np.float32(np.nan), made()), "not finite: 1 values are NaN or infinite"),
    (np.array([{"a": 1}], dtype=object), "no plain array: it holds Python objects, which are not read"),
])  # fmt: skip
def test_other_arrays_are_rejected_with_the_reason(tmp_path, values, reason):
    np.save(tmp_path / "a.npy", values)
    assert reason_of(tmp_path / "a.npy").startswith(reason)
    if "finite" in reason:
        assert np.isnan(array_of(tmp_path / "a.npy", array.Kind((3, 5), "float32", finite=False))).sum() == 1


def test_files_that_are_none_are_rejected(tmp_path):
    np.save(tmp_path / "whole.npy", made())
    content = (tmp_path / "whole.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(content[:-7])
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "text.npy").write_bytes(b"1 2 3\n" * 50)
    np.savez(tmp_path / "a.npz", a=made(), b=made())
    (tmp_path / "zip.npy").write_bytes((tmp_path / "a.npz").read_bytes())
    np.save(tmp_path / "one.npy", made())
    (tmp_path / "one.npy").rename(tmp_path / "one.npz")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:-30])
    reasons = {path.name: reason_of(path) for path in tmp_path.iterdir() if path.name != "whole.npy"}
    assert reasons["empty.npy"] == "empty file"
    assert reasons["cut.npy"].startswith("no array of NumPy, or truncated")
    assert reasons["text.npy"] == "no array of NumPy: it begins with b'1 2 3\\n'"
    assert reasons["zip.npy"].startswith("other type than its name says: an archive of arrays")
    assert reasons["one.npz"].startswith("other type than its name says: a single array")
    assert reasons["cut.npz"].startswith("no array of NumPy, or truncated")
    assert reasons["a.npz"].startswith("several arrays: a, b; name one of them in entry")
    assert reason_of(tmp_path / "a.npz", array.Kind((3, 5), entry="c")).startswith("no array 'c': it has a, b")


def test_an_archive_that_unpacks_to_more_than_it_may_is_not_unpacked(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (1 << 28,)})
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as file, file.open("a.npy", "w") as entry:
        entry.write(header.getvalue())
        for _ in range(64):
            entry.write(bytes(1 << 20))
    assert (tmp_path / "bomb.npz").stat().st_size < 100_000
    assert reason_of(tmp_path / "bomb.npz").startswith("too large: 67,108,992 bytes unpacked, its shape allows 65,596")


FAULTS = {
    "is array 1": None,
    "has values that are not finite": lambda values: np.where(values > 0, np.nan, values).astype(values.dtype),
    "has its bytes in the other order": lambda values: values.byteswap(),
    "is transposed": lambda values: np.ascontiguousarray(values.T).reshape(values.shape),
    "is reversed along its last axis": lambda values: values[..., ::-1],
    "went through float16": lambda values: values.astype(np.float16).astype(values.dtype),
    "differs at 15 of 15 values": lambda values: values * 2,
}


@pytest.mark.parametrize("words", FAULTS)
def test_the_gate_names_what_is_wrong_with_an_array(tmp_path, words):
    corpus = make_corpus(tmp_path / "made", items=8, kind=KIND)
    one, two = list(corpus.items("train"))[:2]
    right = corpus.delivered(one)
    wrong = corpus.delivered(two) if FAULTS[words] is None else FAULTS[words](right)
    owners = {item_hash(corpus.delivered(item)): item.index for item in (one, two)}
    with np.errstate(all="ignore"):
        found = array.examine(np.ascontiguousarray(wrong), one, corpus, lambda values: owners.get(item_hash(values)), 0)
    assert found.problem.startswith(words)
    assert array.examine(right, one, corpus, owners.get, 0) == (None, 0.0)
