"""How a synthetic image is drawn and encoded: noise whose power falls with the frequency, as that of photographs does.

Of natural images the amplitude falls about as 1 / frequency (Field 1987, "Relations between the statistics of natural
images and the response properties of cortical cells"), so that JPEG shrinks these as it shrinks photographs.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from scripts.common.files import whole_file

LABELS = ("red", "yellow", "green", "cyan", "blue", "magenta")  # what an image is tinted with
TINTS = ((1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 1, 1), (0, 0, 1), (1, 0, 1))
QUALITIES = (75, 85, 90, 95)
ODD = ("grey", "cmyk", "rotated", "progressive", "png")  # each of every 40 images
ODD_EVERY = 40
ORIENTATION = 274  # EXIF's tag
UPRIGHT = {6: 90, 8: 270, 3: 180}  # which orientation says that an image was turned by so many degrees before
CONTRAST = 40.0  # standard deviation of a channel's values


@dataclass(frozen=True)
class Recipe:
    """What an image is like."""

    label: str
    height: int
    width: int
    quality: int
    odd: str  # one of ODD, or empty

    @property
    def ending(self) -> str:
        """Of its file."""
        return "png" if self.odd == "png" else "jpg"


def draw_recipe(seed: int, number: int, side: int) -> tuple[Recipe, np.random.Generator]:
    """Return what image `number` is like, and the random numbers that it is drawn by."""
    rng = np.random.default_rng([seed, number])
    height = max(8, round(side * rng.uniform(0.75, 1.25)))
    width = max(8, round(height * rng.choice([1.0, 4 / 3, 1.5, 0.75])))
    turn = number % ODD_EVERY
    odd = ODD[turn // (ODD_EVERY // len(ODD))] if turn % (ODD_EVERY // len(ODD)) == 3 else ""
    return Recipe(LABELS[int(rng.integers(len(LABELS)))], height, width, int(rng.choice(QUALITIES)), odd), rng


def pixels(recipe: Recipe, rng: np.random.Generator) -> np.ndarray:
    """Return uint8 (height, width, 3): noise with an amplitude of 1 / frequency, tinted."""
    down = np.fft.fftfreq(recipe.height)[:, None]
    right = np.fft.rfftfreq(recipe.width)[None]
    amplitude = 1 / np.maximum(np.hypot(down, right), 1 / max(recipe.height, recipe.width))
    amplitude[0, 0] = 0
    shape = (2, 3, recipe.height, recipe.width // 2 + 1)
    real, imaginary = rng.standard_normal(shape, dtype=np.float32)
    planes = np.fft.irfft2((real + 1j * imaginary) * amplitude, s=(recipe.height, recipe.width), axes=(1, 2))
    planes += 1.5 * planes.mean(axis=0)  # channels of photographs have much in common
    planes *= CONTRAST / planes.std(axis=(1, 2), keepdims=True)
    tint = np.array(TINTS[LABELS.index(recipe.label)], np.float32)[:, None, None]
    return np.clip(planes + 100 + 60 * tint, 0, 255).astype(np.uint8).transpose(1, 2, 0)


def encode(path: Path, recipe: Recipe, rng: np.random.Generator) -> None:
    """Write the image as its recipe says, whole or not at all."""
    image = Image.fromarray(pixels(recipe, rng))
    options = {"format": "JPEG", "quality": recipe.quality}
    if recipe.odd == "png":
        options = {"format": "PNG"}
    elif recipe.odd == "progressive":
        options["progressive"] = True
    elif recipe.odd in ("grey", "cmyk"):
        image = image.convert({"grey": "L", "cmyk": "CMYK"}[recipe.odd])
    elif recipe.odd == "rotated":
        orientation = int(rng.choice(list(UPRIGHT)))
        image = image.rotate(UPRIGHT[orientation], expand=True)
        exif = Image.Exif()
        exif[ORIENTATION] = orientation
        options["exif"] = exif
    with whole_file(path, "wb") as file:
        image.save(file, **options)
