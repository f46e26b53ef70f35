"""Arrays: .npy and .npz files of one shape and type, such as feature vectors and spectrograms, taken as they are."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import prod
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np

    from scripts.common.corpus import Corpus, Item
    from scripts.common.ledger import LedgerRow
    from scripts.common.sample import Sample
    from scripts.kinds._contract import Found, Owner

VERSION = 1
OPTIONS = {
    "shape": {
        **{"type": "array", "minItems": 1, "maxItems": 8, "items": {"type": "integer", "minimum": 1}},
        "description": "of each array, such as [128] or [80, 300]; others are left out",
    },
    "dtype": {
        **{"enum": ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"], "default": "float32"},
        "description": "of each array; others are left out",
    },
    "entry": {
        **{"type": ["string", "null"], "default": None},
        "description": "name of the array in an .npz file; null: its only one",
    },
    "finite": {"type": "boolean", "default": True, "description": "leave out arrays with a NaN or an infinity"},
}
MAGIC = b"\x93NUMPY", b"PK"  # with which an array and an archive of arrays begin
LONGEST_HEADER = 65_536  # bytes of a .npy file before its data


@dataclass(frozen=True)
class Kind:
    """What every array of the corpus has in common."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    entry: str | None = None
    finite: bool = True

    @property
    def sample(self) -> Sample:
        """What a delivered array is."""
        from scripts.common.sample import Sample

        return Sample(
            **{"key": "array", "dtype": self.dtype, "shape": tuple(self.shape), "stored": self.dtype},
            **{"kind": "array", "ending": "npy", "decoding": "none: as it is in the file"},
        )

    def check(self) -> None:
        """Do nothing: the schema holds all that can be wrong."""

    def pieces(self, row: LedgerRow, path: Path) -> Iterator[np.ndarray]:  # noqa: ARG002
        """Yield the one array of a file, in little-endian order. Raises Rejected; nothing large is read to find out."""
        import numpy as np

        from scripts.common.decode import Rejected, refused

        try:
            array = self._of_zip(path) if path.suffix.lower() == ".npz" else np.load(path, "r", allow_pickle=False)
        except Rejected:
            raise
        except OSError as error:
            if error.errno:
                raise refused(error) from None
            raise Rejected(f"cannot be read: {error}") from None
        except Exception as error:
            raise Rejected(_problem(error, path)) from None
        if not isinstance(array, np.ndarray):  # an archive behind the name of a single array
            array.close()
            raise Rejected(f"other type than its name says: an archive of arrays in a file that ends in {path.suffix}")
        if array.shape != tuple(self.shape):
            raise Rejected(f"other shape: {list(array.shape)}, shape asks for {list(self.shape)}")
        if array.dtype.newbyteorder("=") != np.dtype(self.dtype):
            raise Rejected(f"other type: {array.dtype.name}, dtype asks for {self.dtype}")
        values = np.array(array, dtype=np.dtype(self.dtype).newbyteorder("<"), order="C")
        if self.finite and values.dtype.kind == "f" and not np.isfinite(values).all():
            raise Rejected(f"not finite: {int((~np.isfinite(values)).sum()):,} values are NaN or infinite")
        yield values

    def _of_zip(self, path: Path) -> np.ndarray:
        """Return an array of an .npz file; what unpacks to more than it may is not unpacked."""
        import zipfile

        import numpy as np

        from scripts.common.decode import Rejected

        with zipfile.ZipFile(path) as file:
            names = {info.filename.removesuffix(".npy"): info for info in file.infolist()}
            if self.entry is None and len(names) != 1:
                raise Rejected(f"several arrays: {', '.join(sorted(names)[:5])}; name one of them in entry")
            entry = self.entry if self.entry is not None else next(iter(names))
            if entry not in names:
                raise Rejected(f"no array {entry!r}: it has {', '.join(sorted(names)[:5]) or 'none'}")
            allowed = prod(self.shape) * np.dtype(self.dtype).itemsize + LONGEST_HEADER
            if names[entry].file_size > allowed:
                raise Rejected(f"too large: {names[entry].file_size:,} bytes unpacked, its shape allows {allowed:,}")
            with file.open(names[entry]) as stream:
                return np.lib.format.read_array(stream, allow_pickle=False)

    def write(self, path: Path, values: np.ndarray) -> np.ndarray:
        """Write an array as the corpus keeps it, a .npy file; return what `read` gives of it."""
        import numpy as np

        np.save(path, values, allow_pickle=False)
        return values

    def about(self, frames: int) -> dict[str, Any]:  # noqa: ARG002
        """Return what corpus.json says of a corpus of this kind."""
        return {"options": asdict(self)}


def _problem(error: Exception, path: Path) -> str:
    if not path.stat().st_size:
        return "empty file"
    with path.open("rb") as file:
        begins = file.read(len(MAGIC[0]))
    if path.suffix.lower() == ".npz" and begins == MAGIC[0]:
        return "other type than its name says: a single array in a file that ends in .npz"
    if not begins.startswith(MAGIC):
        return f"no array of NumPy: it begins with {begins!r}"
    text = " ".join(str(error).split())
    if "pickle" in text or "Object arrays" in text or "Python objects" in text:
        return "no plain array: it holds Python objects, which are not read"
    return f"no array of NumPy, or truncated: {text or type(error).__name__}"


def read(source: Path | BinaryIO, sample: Sample) -> np.ndarray:
    """Return the array of a file of the corpus. Raises ValueError for another one, and OSError."""
    import numpy as np

    array = np.load(source, allow_pickle=False)
    if not isinstance(array, np.ndarray) or array.shape != sample.shape or array.dtype != np.dtype(sample.dtype):
        raise ValueError("another array")
    return array


def fixed(values: np.ndarray, sample: Sample) -> np.ndarray:  # noqa: ARG001
    """Return the same: arrays have their shape already."""
    return values


def delivered(values: np.ndarray, sample: Sample, out: np.ndarray | None = None) -> np.ndarray:
    """Return the same values, given in any shape; in `out`, where that is given."""
    values = values.reshape(sample.shape)
    if out is None:
        return values
    out[...] = values
    return out


def examine(found: np.ndarray, item: Item, corpus: Corpus, owner: Owner, limit: int) -> Found:  # noqa: ARG001
    """Say what is wrong with a delivered array: it must be the corpus's to the bit."""
    from scripts.common.corpus import item_hash
    from scripts.kinds._contract import Found

    if item_hash(found) == item.hash:
        return Found()
    return Found(_explained(found, corpus.padded(item), owner(found)))


def _explained(found: np.ndarray, expected: np.ndarray, other: int | None) -> str:
    """Return what happened to an array, as far as it can be told; `other` is the same."""
    import numpy as np

    if other is not None:
        return f"is array {other}"
    if found.dtype.kind == "f" and not np.isfinite(found).all() and np.isfinite(expected).all():
        return "has values that are not finite"
    changes = {
        "has its bytes in the other order": expected.byteswap(),
        "is transposed": np.ascontiguousarray(expected.T).reshape(expected.shape),
        "is reversed along its last axis": expected[..., ::-1],
    }
    if expected.dtype in (np.float32, np.float64):
        changes["went through float16"] = expected.astype(np.float16).astype(expected.dtype)
        if expected.dtype == np.float64:
            changes["went through float32"] = expected.astype(np.float32).astype(np.float64)
    for words, changed in changes.items():
        if np.array_equal(found, changed, equal_nan=found.dtype.kind == "f"):
            return words
    error = np.abs(found.astype(np.float64) - expected)
    return f"differs at {np.count_nonzero(error):,} of {expected.size:,} values, by up to {error.max():g}"
