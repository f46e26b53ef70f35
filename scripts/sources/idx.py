"""The file form of MNIST and FashionMNIST: images and labels in two idx files of the user's own, gzipped or not."""

import gzip
import hashlib
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from scripts.common.errors import UserError
from scripts.common.ledger import LedgerRow, SourceRequest

VERSION = 1
KINDS = ("image",)
OPTIONS = {
    "images": {"type": "string", "minLength": 1, "description": "The file of images, such as train-images-idx3-ubyte."},
    "labels": {"type": "string", "minLength": 1, "description": "The file of labels, such as train-labels-idx1-ubyte."},
    "names": {
        **{"type": ["array", "null"], "items": {"type": "string", "minLength": 1}, "default": None},
        "description": "What each class is called, in order; null: class 0, class 1, ...",
    },
}
IMAGES_PER_SHARD = 10_000
UNSIGNED_BYTE = 0x08  # the only type of value that images of this form have
GZIP = b"\x1f\x8b"
MOST_PIXELS = 1 << 26  # of an image: this form is of small ones


def check(options: Mapping[str, Any]) -> None:
    """Raise UserError where a file is absent or of another form, or the two do not belong together."""
    count, *_ = _sized(_path(options, "images"), 3)
    (labels,) = _sized(_path(options, "labels"), 1)
    if count != labels:
        raise UserError(
            f"labels: found {labels:,} labels of {count:,} images; allowed are files that belong together. "
            "Name the labels of the same set."
        )


def inputs(options: Mapping[str, Any]) -> list[str]:
    """Return both files: Snakemake looks at their time stamps."""
    return [str(_path(options, name)) for name in ("images", "labels")]


def shards(options: Mapping[str, Any]) -> int:
    """Return the number of shards: of 10,000 images each."""
    return min(1000, -(-_header(_path(options, "images"), 3)[0] // IMAGES_PER_SHARD))


def expected(options: Mapping[str, Any]) -> int:
    """Return how many images there are."""
    return _header(_path(options, "images"), 3)[0]


def fetch(request: SourceRequest) -> Iterator[LedgerRow]:
    """Yield this shard's images in order of their number, each as a PNG file in the store: without loss."""
    import numpy as np
    from PIL import Image

    from scripts.common.files import whole_file

    check(request.options)
    files = {name: _path(request.options, name) for name in ("images", "labels")}
    count, height, width = _header(files["images"], 3)
    first, end = (count * shard // request.shards for shard in (request.shard, request.shard + 1))
    last = end == count
    labels = _values(files["labels"], 8 + first, end - first, last)
    pixels = _values(files["images"], 16 + first * height * width, (end - first) * height * width, last)
    names = request.options["names"]
    state = files["images"].stat()
    with open(files["images"], "rb") as file:  # two sets of this form have files of one size
        begins = hashlib.sha256(file.read(1 << 20)).hexdigest()[:8]
    folder = f"idx-{state.st_size}-{state.st_mtime_ns}-{begins}"  # of another file nothing is met
    for number in range(first, end):
        label = labels[number - first]
        if names is not None and label >= len(names):
            raise UserError(f"names: found {len(names)} names, image {number} is of class {label}. Name all classes.")
        path = Path(folder, f"{number // 1000:04d}", f"{number:06d}.png")
        if not (request.store / path).exists():
            start = (number - first) * height * width
            image = np.frombuffer(pixels, np.uint8, height * width, start).reshape(height, width)
            with whole_file(request.store / path, "wb") as file:
                Image.fromarray(image).save(file, "PNG")
        name = f"class {label}" if names is None else names[label]
        yield LedgerRow(f"image-{number:06d}", "fetched", path=path.as_posix(), labels=[name])


def _path(options: Mapping[str, Any], name: str) -> Path:
    return Path(options[name]).expanduser().absolute()


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file, gzipped or not. Raises UserError where it cannot be read."""
    if not path.is_file():
        raise UserError(f"idx: found no file {str(path)!r}. Type the path of the file; it is not downloaded.")
    try:
        with open(path, "rb") as file:
            zipped = file.read(2) == GZIP
            file.seek(0)
            if not zipped:
                yield file
                return
            with gzip.open(file) as unpacked:
                yield unpacked
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be unpacked ({error}): it is truncated or damaged. Get it again.") from None


def _header(path: Path, dimensions: int) -> tuple[int, ...]:
    """Return the sizes that a file of so many dimensions says. Raises UserError for one of another form."""
    with _opened(path) as file:
        head = file.read(4 + 4 * dimensions)
    if len(head) < 4 + 4 * dimensions or head[:4] != bytes([0, 0, UNSIGNED_BYTE, dimensions]):
        raise UserError(
            f"{path}: found {head[:4].hex(' ') or 'nothing'} at its beginning; allowed is an idx file of bytes with "
            f"{dimensions} dimension{'s' if dimensions > 1 else ''}, 00 00 08 0{dimensions}. Name the other file."
        )
    return tuple(int.from_bytes(head[4 + 4 * one : 8 + 4 * one], "big") for one in range(dimensions))


def _sized(path: Path, dimensions: int) -> tuple[int, ...]:
    """Return the sizes that a file says. Raises UserError where one of them is none, or they are not those of the file.

    How long a gzipped file is shows when it is read (`_values`).
    """
    sizes = _header(path, dimensions)
    words = " x ".join(f"{size:,}" for size in sizes)
    if not min(sizes) or prod(sizes[1:]) > MOST_PIXELS:
        raise UserError(
            f"{path}: found {words} as its sizes; allowed are 1 and more, and images of at most "
            f"{MOST_PIXELS:,} pixels. Get the file again."
        )
    with open(path, "rb") as file:
        zipped = file.read(2) == GZIP
    expected, found = 4 + 4 * dimensions + prod(sizes), path.stat().st_size
    if not zipped and found != expected:
        raise UserError(
            f"{path}: found {found:,} bytes, its header says {words}, which are {expected:,}: it is truncated, or "
            "the header is another file's. Get it again."
        )
    return sizes


def _values(path: Path, start: int, count: int, last: bool) -> bytes:
    """Return `count` bytes of a file from `start` on. Raises UserError where it ends before, or behind the `last`."""
    with _opened(path) as file:
        file.seek(start)
        found = file.read(count + last)
    if len(found) < count:
        raise UserError(f"{path}: found {len(found):,} of {count:,} bytes: it is truncated. Get it again.")
    if len(found) > count:
        raise UserError(f"{path}: found more bytes than its header says. Get it again.")
    return found
