"""Images: resized and cropped to one size, decoded by Pillow, kept as JPEG or PNG of that size."""

from __future__ import annotations

from dataclasses import asdict, dataclass
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
    "size": {
        **{"type": "array", "minItems": 2, "maxItems": 2, "default": [224, 224]},
        "items": {"type": "integer", "minimum": 1, "maximum": 8192},
        "description": "height and width: scaled so that the image covers them, then the middle is cut out",
    },
    "channels": {"enum": [1, 3], "default": 3, "description": "1: grey; 3: red, green, blue"},
    "dtype": {
        **{"enum": ["uint8", "float32"], "default": "uint8"},
        "description": "as every loader delivers it, channels first; float32: value / 255",
    },
    "encoding": {"enum": ["jpeg", "png"], "default": "jpeg", "description": "of the corpus's files"},
    "quality": {"type": "integer", "minimum": 1, "maximum": 100, "default": 90, "description": "of JPEG"},
    "min_side": {"type": "integer", "minimum": 1, "default": 8, "description": "pixels; smaller images are left out"},
    "max_pixels": {
        **{"type": "integer", "minimum": 1, "default": 100_000_000},
        "description": "of an image; larger ones are left out before they are decoded",
    },
}
MEAN_SHIFT, CONTRAST = 2.0, 0.05  # of 255, and of the deviation: by what a channel may be brighter, or have contrast
MEAN_PART = 6  # of what a value may differ by all may on average
ENDINGS = {"jpeg": "jpg", "png": "png"}
# What a file's name says that it is, by the names of Pillow; of any other ending the content decides.
NAMED = {"jpg": "JPEG", "jpeg": "JPEG", "jpe": "JPEG", "png": "PNG", "gif": "GIF", "bmp": "BMP", "webp": "WEBP"}


FORMATS = [*dict.fromkeys(NAMED.values()), "TIFF", "PPM"]  # not those that hold other formats or programs
BITS, PHOTOMETRIC = 258, 262  # TIFF's tags: bits a sample; 0: white is zero
ORIENTATION = 274  # EXIF's tag
TURNS = (  # what makes an image upright, by its orientation from 2 on, as names of Pillow's Transpose
    *("FLIP_LEFT_RIGHT", "ROTATE_180", "FLIP_TOP_BOTTOM", "TRANSPOSE", "ROTATE_270", "TRANSVERSE", "ROTATE_90"),
)


@dataclass(frozen=True)
class Kind:
    """What every image of the corpus has in common."""

    size: tuple[int, int]
    channels: int = 3
    dtype: str = "uint8"
    encoding: str = "jpeg"
    quality: int = 90
    min_side: int = 8
    max_pixels: int = 100_000_000

    @property
    def sample(self) -> Sample:
        """What a delivered image is: (channels, height, width)."""
        from scripts.common.sample import Sample

        how = "decoded to 8 bits a channel, channels first"
        return Sample(
            **{"key": "image", "dtype": self.dtype, "shape": (self.channels, *self.size), "stored": "uint8"},
            **{"kind": "image", "ending": ENDINGS[self.encoding]},
            decoding=how if self.dtype == "uint8" else f"{how}; value / 255",
        )

    def check(self) -> None:
        """Do nothing: the schema holds all that can be wrong."""

    def pieces(self, row: LedgerRow, path: Path) -> Iterator[np.ndarray]:  # noqa: ARG002
        """Yield the one image of a file: uint8 (height, width, channels), upright. Raises Rejected."""
        import numpy as np
        from PIL import Image, ImageOps

        from scripts.common.decode import Rejected, refused

        Image.MAX_IMAGE_PIXELS = None  # ours is the limit, and it rejects the image
        try:
            with Image.open(path, formats=FORMATS) as image:
                self._check_header(image, path)
                Image.MAX_IMAGE_PIXELS = self.max_pixels  # of what is inside: tiles may be larger than the image
                image.load()
                upright = _upright(image)
                if image.format == "TIFF" and upright.mode.startswith("I;16") and image.tag_v2.get(BITS) != (16,):
                    raise Rejected(f"neither 8 nor 16 bits a channel: {image.tag_v2.get(BITS)}")
                if upright.mode.startswith("I;16"):  # of which a conversion would keep what is below 256 only
                    values = (np.asarray(upright) >> 8).astype(np.uint8)
                    if image.format == "TIFF" and image.tag_v2.get(PHOTOMETRIC) == 0:  # Pillow turns it of 8 bits only
                        values = 255 - values
                    upright = Image.fromarray(values)
                elif upright.mode in ("I", "F"):  # of which it would make white or black
                    if image.format != "PPM" or upright.mode == "F":
                        raise Rejected(f"more than 16 bits a channel, or no whole numbers: mode {upright.mode}")
                    upright = Image.fromarray((np.asarray(upright) >> 8).astype(np.uint8))
                elif upright.mode == "LAB":  # which has no way to grey
                    upright = upright.convert("RGB")
                plain = upright.convert("L" if self.channels == 1 else "RGB")
            height, width = self.size
            fitted = ImageOps.fit(plain, (width, height), Image.Resampling.LANCZOS)
        except Rejected:
            raise
        except OSError as error:
            if error.errno:  # of the file system
                raise refused(error) from None
            raise Rejected(_problem(error, path)) from None
        except MemoryError:
            raise
        except Exception as error:
            raise Rejected(_problem(error, path)) from None
        finally:
            Image.MAX_IMAGE_PIXELS = None
        yield np.asarray(fitted, dtype=np.uint8).reshape(*self.size, self.channels)

    def _check_header(self, image: Any, path: Path) -> None:
        """Raise Rejected for what is known before anything is decoded."""
        from scripts.common.decode import Rejected

        named = NAMED.get(path.suffix.lstrip(".").lower(), image.format)
        if image.format != named and not (named == "JPEG" and image.format == "MPO"):  # JPEG with a second image
            raise Rejected(f"other type than its name says: {image.format} in a file that ends in {path.suffix}")
        width, height = image.size
        if width * height > self.max_pixels:
            raise Rejected(
                f"too many pixels: {width} x {height}, {path.stat().st_size:,} bytes; max_pixels allows "
                f"{self.max_pixels:,}"
            )
        if min(width, height) < self.min_side:
            raise Rejected(f"too small: {width} x {height}, min_side asks for {self.min_side}")

    def write(self, path: Path, pixels: np.ndarray) -> np.ndarray:
        """Write an image as the corpus keeps it; return what `read` gives of it."""
        from PIL import Image

        image = Image.fromarray(pixels[:, :, 0] if self.channels == 1 else pixels)
        if self.encoding == "jpeg":
            image.save(path, "JPEG", quality=self.quality)
        else:
            image.save(path, "PNG")
        return read(path, self.sample)

    def about(self, frames: int) -> dict[str, Any]:  # noqa: ARG002
        """Return what corpus.json says of a corpus of this kind: its options, and which decoder gives the truth."""
        import PIL
        from PIL import features

        library = f", libjpeg-turbo {features.version('libjpeg_turbo')}" if self.encoding == "jpeg" else ""
        return {"options": asdict(self), "decoder": f"Pillow {PIL.__version__}{library}"}


def _upright(image: Any) -> Any:
    """Return a loaded image as its EXIF orientation says; as it is where that cannot be read."""
    from PIL import Image

    try:
        orientation = image.getexif().get(ORIENTATION)
    except Exception:  # of whatever: the pixels are there, and viewers show them
        orientation = None
    turns = dict(enumerate(TURNS, 2))
    return image.transpose(Image.Transpose[turns[orientation]]) if orientation in turns else image


def _problem(error: Exception, path: Path) -> str:
    from PIL import UnidentifiedImageError

    if isinstance(error, UnidentifiedImageError):
        known = f"no {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, or cut off in its header"
        return known if path.stat().st_size else "empty file"
    text = " ".join(str(error).split())
    kind = "truncated" if "truncated" in text or "Truncated" in text else "cannot be decoded"
    return f"{kind}: {text or type(error).__name__}"


def read(source: Path | BinaryIO, sample: Sample) -> np.ndarray:
    """Return uint8 (channels, height, width). Raises ValueError for what is no image of the corpus, and OSError."""
    import numpy as np
    from PIL import Image

    try:
        with Image.open(source) as image:
            pixels = np.asarray(image)
    except OSError as error:
        if error.errno:
            raise
        raise ValueError(str(error)) from None
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if (pixels.shape[2], *pixels.shape[:2]) != sample.shape:
        raise ValueError(f"{pixels.shape[1]} x {pixels.shape[0]} pixels of {pixels.shape[2]} channels")
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def fixed(pixels: np.ndarray, sample: Sample) -> np.ndarray:  # noqa: ARG001
    """Return the same: images have their size already."""
    return pixels


def delivered(pixels: np.ndarray, sample: Sample, out: np.ndarray | None = None) -> np.ndarray:
    """Return the image in the type that loaders deliver, of pixels in any shape; in `out`, where that is given."""
    import numpy as np

    pixels = pixels.reshape(sample.shape)
    row = np.empty(sample.shape, sample.dtype) if out is None else out
    if sample.dtype == sample.stored:
        row[...] = pixels
    else:
        np.multiply(pixels, np.float32(1 / 255), out=row)
    return row


def examine(found: np.ndarray, item: Item, corpus: Corpus, owner: Owner, limit: int) -> Found:
    """Say what is wrong with a delivered image: each value must be the corpus's, or no further from it than `limit`.

    `limit` is what the loader's decoder may differ by, of 255, and on average by a sixth of that, since edges are few;
    0 for formats of decoded images.
    """
    import numpy as np

    from scripts.common.corpus import item_hash
    from scripts.kinds._contract import Found

    pixels = found
    if found.dtype != np.uint8:
        with np.errstate(invalid="ignore", over="ignore"):
            pixels = np.rint(found * np.float32(255)).astype(np.uint8)
        divided = pixels / np.float32(255)  # as `ToTensor` has it: the last bit may be another one
        if not any(np.array_equal(found, right) for right in (delivered(pixels, corpus.sample), divided)):
            return Found(_float_problem(found))
    if item_hash(pixels) == item.hash:
        return Found()
    expected = corpus.padded(item)
    differences = np.abs(pixels.astype(np.int16) - expected)
    difference = int(differences.max())
    if difference <= limit and differences.mean() <= limit / MEAN_PART:
        return Found(_otherwise_bright(pixels, expected), float(difference))
    return Found(_explained(pixels, expected, owner(pixels), difference, limit))


def _otherwise_bright(pixels: np.ndarray, expected: np.ndarray) -> str | None:
    """Return what is wrong where a channel is not as bright as the corpus's, or has other contrast; else None.

    A decoder that takes the range of JPEG for that of video, 16 to 235, differs no more at any value than one that
    scales colours up otherwise; but these differences have no direction.
    """
    import numpy as np

    found, right = (each.reshape(len(each), -1).astype(np.float32) for each in (pixels, expected))
    brighter, spread = found.mean(axis=1) - right.mean(axis=1), found.std(axis=1) - right.std(axis=1)
    if not (abs(brighter) > MEAN_SHIFT).any() and not (abs(spread) > MEAN_SHIFT + CONTRAST * right.std(axis=1)).any():
        return None
    video = abs(pixels - (16 + expected * (219 / 255))).mean() < 2
    cause = ": it has the range of video, 16 to 235 for 0 to 255" if video else ""
    return (
        f"is {max(brighter, key=abs):+.1f} of 255 brighter in a channel than the corpus's, its contrast "
        f"{max(spread, key=abs):+.1f} (allowed are {MEAN_SHIFT:g}, of contrast and {100 * CONTRAST:g} %){cause}"
    )


def _float_problem(found: np.ndarray) -> str:
    import numpy as np

    if not np.isfinite(found).all():
        return "has values that are not finite"
    return (
        f"has values that are no 255th of a whole number, from {found.min():g} to {found.max():g}: was it normalised?"
    )


def _explained(pixels: np.ndarray, expected: np.ndarray, other: int | None, difference: int, limit: int) -> str:
    """Return what happened to an image, as far as it can be told; `other` is the same. Near enough is not exact."""
    import numpy as np

    if other is not None:
        return f"is image {other}"

    def near(one: np.ndarray, two: np.ndarray) -> bool:
        return one.shape == two.shape and np.abs(one.astype(np.int16) - two).max(initial=0) <= max(limit, 2)

    turned = {f"is turned by {90 * turns} degrees": np.rot90(expected, turns, (1, 2)) for turns in (1, 2, 3)}
    changes = {
        "has its channels in the order blue, green, red": expected[::-1],
        "is mirrored, left to right": expected[:, :, ::-1],
        "is upside down": expected[:, ::-1],
        "has height and width exchanged": expected.transpose(0, 2, 1),
        "has its channels last, in the shape of channels first": expected.transpose(1, 2, 0).reshape(expected.shape),
        "is inverted": 255 - expected,
        **turned,
    }
    for words, changed in changes.items():
        if near(pixels, changed):
            return words
    reach = min(8, *(side - 1 for side in expected.shape[1:]))
    for down in range(-reach, reach + 1):
        for right in range(-reach, reach + 1):
            height, width = expected.shape[1] - abs(down), expected.shape[2] - abs(right)
            there = expected[:, max(0, down) :, max(0, right) :][:, :height, :width]
            here = pixels[:, max(0, -down) :, max(0, -right) :][:, :height, :width]
            if (down or right) and near(here, there):
                return (
                    f"is cropped {abs(down)} pixels too {'low' if down > 0 else 'high'} and {abs(right)} too far "
                    + ("right" if right > 0 else "left")
                )
    count = int(np.count_nonzero(pixels != expected))
    return (
        f"differs at {count:,} of {expected.size:,} values, by up to {difference} of 255 (allowed "
        f"are {limit}, and a sixth of it on average), by "
        f"{np.abs(pixels.astype(np.int16) - expected).mean():.2f} on average"
    )
