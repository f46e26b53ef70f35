"""What becomes of an image, and what the gate says of one that was delivered wrong."""

import errno
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from scripts.common import plugins
from scripts.common.corpus import item_hash
from scripts.common.decode import Rejected
from scripts.common.ledger import LedgerRow
from scripts.kinds import image
from scripts.sources import _synthetic_images
from tests.support.made_corpus import make_corpus

KIND = image.Kind((24, 32), encoding="png")  # without loss, so that pixels can be compared


def pixels_of(path, kind=KIND) -> np.ndarray:
    """Return uint8 (height, width, channels) of the one image of a file."""
    [found] = kind.pieces(LedgerRow("one", "fetched"), path)
    return found


def reason_of(path, kind=KIND) -> str:
    """Return why a file is no image of the corpus."""
    with pytest.raises(Rejected) as found:
        pixels_of(path, kind)
    return str(found.value)


def smooth(height: int, width: int, seed: int = 0) -> Image.Image:
    """Return an image whose corners differ: nothing that is turned or mirrored looks the same."""
    coarse = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def png_header(width: int, height: int) -> bytes:
    """Return a PNG file that says its size, and has but a few bytes of it."""
    parts = [b"\x89PNG\r\n\x1a\n"]
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    for name, content in ((b"IHDR", head), (b"IDAT", zlib.compress(b"\0" * 1000)), (b"IEND", b"")):
        parts.append(struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content)))
    return b"".join(parts)


def _with(tag: int, value: int | bytes, form: str, kind: int) -> bytes:
    """Return EXIF of one upright orientation and one tag of an odd type."""
    odd = struct.pack("<HHI", tag, kind, 1) + struct.pack(form, value)
    return b"Exif\0\0II*\0" + struct.pack("<IH", 8, 2) + struct.pack("<HHIHH", 274, 3, 1, 1, 0) + odd + bytes(4)


@pytest.mark.parametrize(("name", "content", "reason"), [
    ("a.png", png_header(50_000, 50_000), "too many pixels: 50000 x 50000"),
    ("a.png", png_header(7, 900), "too small: 7 x 900, min_side asks for 8"),
    ("a.png", png_header(64, 64), "truncated: "),
    ("a.jpg", png_header(64, 64), "other type than its name says: PNG in a file that ends in .jpg"),
    ("a.jpg", b"no image at all" * 100, "no JPEG, PNG, GIF, BMP, WEBP, TIFF or PPM, or cut off in its header"),
    ("a.png", b"", "empty file"),
])  # fmt: skip
def test_what_is_no_image_is_rejected_with_its_reason(tmp_path, name, content, reason):
    (tmp_path / name).write_bytes(content)
    assert reason_of(tmp_path / name).startswith(reason)


@pytest.mark.parametrize("kept", [0.3, 0.7, 0.95])
def test_a_truncated_jpeg_is_rejected(tmp_path, kept):
    smooth(200, 200).save(tmp_path / "whole.jpg", quality=95)
    content = (tmp_path / "whole.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(content[: round(len(content) * kept)])
    assert reason_of(tmp_path / "cut.jpg").startswith("truncated")


def test_a_file_that_the_system_does_not_give_is_left_out(tmp_path):
    with pytest.raises(Rejected, match="file vanished"):
        pixels_of(tmp_path / "absent.jpg")
    (tmp_path / "folder.jpg").mkdir()
    with pytest.raises(Rejected, match="file cannot be read: Is a directory"):
        pixels_of(tmp_path / "folder.jpg")


def test_a_fault_of_the_disk_is_not_the_images(tmp_path, monkeypatch):
    def fails(*_, **_formats):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Image, "open", fails)
    with pytest.raises(OSError, match="Input/output error"):
        pixels_of(tmp_path / "a.jpg")


def test_more_than_8_bits_are_their_upper_8_or_a_reason(tmp_path):
    """A PGM of 16 bits comes as 32-bit integers, of which a plain conversion would make white."""
    deep = (np.arange(64 * 64).reshape(64, 64) * 16).astype(">u2")
    (tmp_path / "deep.pgm").write_bytes(b"P5 64 64 65535\n" + deep.tobytes())
    Image.fromarray((deep >> 8).astype(np.uint8)).save(tmp_path / "plain.png")
    assert np.array_equal(pixels_of(tmp_path / "deep.pgm"), pixels_of(tmp_path / "plain.png"))
    Image.fromarray(np.linspace(0, 1, 64 * 64, dtype=np.float32).reshape(64, 64)).save(tmp_path / "real.tiff")
    with pytest.raises(Rejected, match="no whole numbers: mode F"):
        pixels_of(tmp_path / "real.tiff")


@pytest.mark.parametrize("ending", ["png", "jpg", "webp", "tif"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_image_is_upright_whatever_exif_says(tmp_path, orientation, ending):
    """The file holds the pixels as the camera had them; what is delivered is how one looks at them."""
    upright = smooth(48, 64)
    undo = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}  # Pillow's transpositions
    stored = upright.transpose(Image.Transpose(undo[orientation])) if orientation > 1 else upright
    exif = Image.Exif()
    exif[_synthetic_images.ORIENTATION] = orientation
    how = {"jpg": {"quality": 100, "subsampling": 0}, "webp": {"lossless": True}}.get(ending, {})
    stored.save(tmp_path / f"turned.{ending}", exif=exif, **how)
    upright.save(tmp_path / "plain.png")
    turned, plain = (pixels_of(tmp_path / name).astype(int) for name in (f"turned.{ending}", "plain.png"))
    assert np.abs(turned - plain).max() <= (3 if ending == "jpg" else 0)


@pytest.mark.parametrize("ending", ["png", "jpg", "webp"])
@pytest.mark.parametrize(
    "exif",
    [b"Exif\0\0garbage-garbage", b"Exif\0\0II*\0", _with(0x011A, -1, "<i", 9), _with(0x0100, b"wide", "4s", 2)],
    ids=["garbage", "stub", "negative resolution", "width as text"],
)
def test_what_cannot_be_read_of_exif_keeps_no_image_out(tmp_path, exif, ending):
    smooth(48, 64).save(tmp_path / "plain.png")
    how = {"lossless": True} if ending == "webp" else {"quality": 100, "subsampling": 0, "dpi": (72, 72)}
    smooth(48, 64).save(tmp_path / f"odd.{ending}", exif=exif, **how)
    odd, plain = (pixels_of(tmp_path / name).astype(int) for name in (f"odd.{ending}", "plain.png"))
    assert np.abs(odd - plain).max() <= (3 if ending == "jpg" else 0)


def test_where_white_is_zero_it_is_turned_of_any_width(tmp_path):
    ramp = np.tile(np.arange(0, 256, 4, dtype=np.uint8), (64, 1))
    for name, values in (("narrow.tif", ramp), ("wide.tif", ramp.astype(np.uint16) * 257)):
        Image.fromarray(values).save(tmp_path / name)
        content = (tmp_path / name).read_bytes()
        entry = struct.pack("<HHI", image.PHOTOMETRIC, 3, 1)
        assert content.count(entry + b"\1\0") == 1
        (tmp_path / name).write_bytes(content.replace(entry + b"\1\0", entry + b"\0\0"))
    narrow, wide = (pixels_of(tmp_path / f"{name}.tif").astype(int) for name in ("narrow", "wide"))
    assert narrow[0, 0, 0] > narrow[0, -1, 0] + 200 and np.abs(narrow - wide).max() <= 1


@pytest.mark.parametrize("channels", [1, 3])
def test_lab_is_taken_in_whatever_the_channels(tmp_path, channels):
    Image.fromarray(np.full((32, 32, 3), 128, np.uint8), mode="LAB").save(tmp_path / "a.tif")
    assert pixels_of(tmp_path / "a.tif", image.Kind((24, 32), channels=channels)).shape == (24, 32, channels)


def test_the_limit_of_pixels_is_that_of_sources_only(tmp_path):
    """An image of the corpus may be larger: it was made so."""
    kind = image.Kind((80, 80), encoding="png", max_pixels=2000)
    smooth(40, 40).save(tmp_path / "a.png")
    assert kind.write(tmp_path / "b.png", pixels_of(tmp_path / "a.png", kind)).shape == (3, 80, 80)


@pytest.mark.parametrize("mode", ["L", "CMYK", "P", "PA", "RGBA", "I;16", "1", "LA"])
def test_images_of_any_mode_become_rgb_and_grey(tmp_path, mode):
    grey = smooth(48, 64).convert("L")
    if mode == "I;16":
        found = Image.fromarray(np.asarray(grey).astype(np.uint16) * 257)
    elif mode == "PA":  # a palette of which one colour is transparent
        found = grey.quantize(256)
        found.info["transparency"] = 3
    else:
        found = grey.convert(mode) if mode != "CMYK" else grey.convert("RGB").convert("CMYK")
    path = tmp_path / ("a.tif" if mode == "CMYK" else "a.png")
    found.save(path)
    grey.save(tmp_path / "grey.png")
    expected = pixels_of(tmp_path / "grey.png").astype(int)
    for channels in (1, 3):
        kind = image.Kind((24, 32), channels=channels, encoding="png")
        found = pixels_of(path, kind).astype(int)
        assert found.shape == (24, 32, channels)
        if mode == "1":  # black and white: its parts are as bright
            found, right = (each.reshape(2, 12, 2, 16, -1).mean(axis=(1, 3)) for each in (found, expected))
            assert np.abs(found - right[..., :channels]).max() < 12
        else:
            assert np.abs(found - expected[..., :channels]).mean() < (12 if mode == "P" else 2), "P: of 216 colours"


def test_what_holds_other_files_or_values_of_other_widths_is_left_out(tmp_path):
    """An icon holds an image whose size it does not say; 12 bits in 16 would come out as nearly black."""
    smooth(64, 64).save(tmp_path / "a.ico")
    with pytest.raises(Rejected, match="no JPEG, PNG"):
        pixels_of(tmp_path / "a.ico")
    deep = Image.fromarray(np.full((32, 32), 4095, np.uint16))
    deep.save(tmp_path / "a.tif")
    assert pixels_of(tmp_path / "a.tif").max() == 4095 >> 8
    content = (tmp_path / "a.tif").read_bytes()
    entry = struct.pack("<HHI", 258, 3, 1)  # bits a sample: one short value
    assert content.count(entry) == 1
    (tmp_path / "b.tif").write_bytes(content.replace(entry + struct.pack("<H", 16), entry + struct.pack("<H", 12)))
    with pytest.raises(Rejected):
        pixels_of(tmp_path / "b.tif")


def test_the_middle_is_cut_out_and_nothing_is_squeezed(tmp_path):
    """A square in the middle of a wide image stays a square."""
    wide = np.zeros((240, 960, 3), np.uint8)
    wide[80:160, 440:520] = 255
    Image.fromarray(wide).save(tmp_path / "wide.png")
    found = pixels_of(tmp_path / "wide.png")[..., 0] > 127
    rows, columns = np.flatnonzero(found.any(axis=1)), np.flatnonzero(found.any(axis=0))
    assert (rows[0], rows[-1]) == (8, 15) and (columns[0], columns[-1]) == (12, 19)


FAULTS = {
    "blue, green, red": lambda item: item[::-1],
    "mirrored": lambda item: item[:, :, ::-1],
    "upside down": lambda item: item[:, ::-1],
    "height and width exchanged": lambda item: item.transpose(0, 2, 1),
    "channels last": lambda item: item.transpose(1, 2, 0).reshape(item.shape),
    "turned by 90": lambda item: np.rot90(item, 1, (1, 2)),
    "turned by 180": lambda item: np.rot90(item, 2, (1, 2)),
    "cropped 2 pixels too low and 1 too far right": lambda item: np.roll(item, (-2, -1), (1, 2)),
    "inverted": lambda item: 255 - item,
    "differs at": lambda item: np.rint(16 + item * (219 / 255)).astype(np.uint8),  # with a limit: the range of video
    "is image 1": None,
    "by up to 3 of 255 (allowed are 1": lambda item: np.where(item > 100, item - 3, item).astype(np.uint8),
}


@pytest.mark.parametrize("words", FAULTS)
@pytest.mark.parametrize("limit", [0, 1])
def test_the_gate_names_what_is_wrong_with_an_image(tmp_path, words, limit):
    """With images that are square, so that a turned one has the right shape."""
    corpus = make_corpus(tmp_path / "made", items=8, kind=image.Kind((32, 32)))
    one, two = list(corpus.items("train"))[:2]
    wrong = corpus.delivered(two) if FAULTS[words] is None else FAULTS[words](corpus.delivered(one))
    owners = {item_hash(corpus.delivered(item)): item.index for item in (one, two)}
    found = image.examine(np.ascontiguousarray(wrong), one, corpus, lambda values: owners.get(item_hash(values)), limit)
    words = words.replace("allowed are 1", f"allowed are {limit}")
    if words.startswith("turned by 180"):
        words = "turned by 180"
    assert found.problem and words in found.problem
    assert image.examine(corpus.delivered(one), one, corpus, owners.get, limit) == (None, 0.0)


def test_what_a_decoder_may_differ_by_is_measured(tmp_path):
    corpus = make_corpus(tmp_path / "made", items=8, kind=image.Kind((32, 32)))
    item = next(corpus.items("train"))
    right = corpus.delivered(item)
    near = np.where(np.arange(right.size).reshape(right.shape) % 10, right, right ^ 2)  # one of ten, by 2
    assert image.examine(near, item, corpus, {}.get, 2) == (None, 2.0)
    everywhere = image.examine(right ^ 2, item, corpus, lambda _: None, 2)
    assert "by up to 2 of 255 (allowed are 2, and a sixth of it on average), by 2.00" in everywhere.problem
    assert "by up to 2 of 255 (allowed are 1," in image.examine(near, item, corpus, lambda _: None, 1).problem


def test_of_floats_values_are_255ths(tmp_path):
    kind = image.Kind((16, 16), dtype="float32")
    corpus = make_corpus(tmp_path / "made", items=8, kind=kind)
    item = next(corpus.items("train"))
    right = corpus.delivered(item)
    assert right.dtype == np.float32 and right.min() >= 0 and right.max() <= 1
    assert image.examine(right, item, corpus, {}.get, 0) == (None, 0.0)
    divided = np.rint(right * 255).astype(np.uint8) / np.float32(255)  # as torchvision's ToTensor
    assert (divided != right).any() and image.examine(divided, item, corpus, {}.get, 0) == (None, 0.0)
    normalised = (right - 0.5) / 0.25
    assert "was it normalised?" in image.examine(normalised, item, corpus, {}.get, 0).problem
    assert "not finite" in image.examine(right * np.float32(np.nan), item, corpus, {}.get, 0).problem


def test_made_images_are_the_same_again_and_some_are_odd(tmp_path):
    found = set()
    for number in range(_synthetic_images.ODD_EVERY):
        recipe, rng = _synthetic_images.draw_recipe(7, number, 48)
        path = tmp_path / f"{number}.{recipe.ending}"
        _synthetic_images.encode(path, recipe, rng)
        again, rng = _synthetic_images.draw_recipe(7, number, 48)
        _synthetic_images.encode(tmp_path / f"again.{recipe.ending}", again, rng)
        assert path.read_bytes() == (tmp_path / f"again.{recipe.ending}").read_bytes()
        assert pixels_of(path).shape == (24, 32, 3)
        found.add(recipe.odd)
    assert found == {"", *_synthetic_images.ODD}
    with Image.open(tmp_path / "0.jpg") as plain:
        assert plain.mode == "RGB" and plain.format == "JPEG"


def test_made_images_shrink_as_photographs_do():
    """Of a photograph the amplitude falls as 1 / frequency: each octave has as much power."""
    recipe, rng = _synthetic_images.draw_recipe(7, 0, 256)
    grey = _synthetic_images.pixels(recipe, rng).mean(axis=2)
    power = np.abs(np.fft.fft2(grey - grey.mean())) ** 2
    radius = np.hypot(*np.meshgrid(*(np.fft.fftfreq(side) for side in grey.shape), indexing="ij"))
    octaves = [power[(radius >= low) & (radius < 2 * low)].sum() for low in (1 / 64, 1 / 32, 1 / 16, 1 / 8)]
    assert max(octaves) < 2.5 * min(octaves)


@pytest.mark.parametrize("words", [words for words in FAULTS if words.split()[0] not in ("by", "is")])
def test_a_decoder_that_may_differ_is_no_cover_for_other_faults(tmp_path, words):
    """With the limit of SPDL's decoder, on images as they are made here."""
    limit = plugins.pixel_limit(plugins.load("loaders", "spdl_images"), {}, image.Kind((64, 64)).sample)
    kind = image.Kind((64, 64))
    recipe, rng = _synthetic_images.draw_recipe(7, 0, 80)
    _synthetic_images.encode(tmp_path / "a.jpg", recipe, rng)
    corpus = make_corpus(tmp_path / "made", items=8, kind=kind)
    item = next(corpus.items("train"))
    right = kind.write(corpus.root / item.path, pixels_of(tmp_path / "a.jpg", kind))
    item = item._replace(hash=item_hash(right))
    assert image.examine(right, item, corpus, lambda _: None, limit) == (None, 0.0)
    assert image.examine(np.ascontiguousarray(FAULTS[words](right)), item, corpus, lambda _: None, limit).problem
