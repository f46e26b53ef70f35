"""What the loaders of encoded images share: decoders by name, each from a file's bytes into a row of the batch.

The files are upright, of one size, without metadata (`scripts/kinds/image.py`): no decoder turns or scales anything.
All decoders are built on libjpeg-turbo and give the same bits, but for SPDL's, which is FFmpeg's.
"""

import os
from collections.abc import Callable
from typing import Any

from scripts.common.request import LoaderRequest

LIBRARIES = {
    "simplejpeg": "simplejpeg",
    "pillow": "pillow",
    "pillow_simd": "pillow-simd",  # installed in Pillow's place, by the same name
    "opencv": "opencv-python-headless",
    "torchvision": "torchvision",
}
DECODER = {"decoder": {"enum": list(LIBRARIES), "default": "simplejpeg", "requires": LIBRARIES}}
_PILLOW = """import io
import cv2
from PIL import Image
def decode(content, row):
    with Image.open(io.BytesIO(content)) as image:
        pixels = np.asarray(image)
    $row_of_pixels
"""
DECODE_SNIPPET = f"""$when decoder=simplejpeg
import threading
import cv2
import simplejpeg
own = threading.local()


def decode(content, row):
    if not hasattr(own, "pixels"):
        # Used again by each image of a thread; at an odd address, since to a multiple of 32 libjpeg-turbo stores past
        # the caches
        own.pixels = np.empty(1 + np.prod(shape), np.uint8)[1:].reshape(*shape[1:], shape[0])
    pixels = simplejpeg.decode_jpeg(content, "GRAY" if shape[0] == 1 else "RGB", buffer=own.pixels)
    $row_of_pixels
$when decoder=pillow
{_PILLOW}$when decoder=pillow_simd
{_PILLOW}$when decoder=opencv
import cv2
def decode(content, row):
    flag = cv2.IMREAD_GRAYSCALE if shape[0] == 1 else cv2.IMREAD_COLOR_RGB
    pixels = cv2.imdecode(np.frombuffer(content, np.uint8), flag)
    $row_of_pixels
$when decoder=torchvision
from torchvision.io import ImageReadMode, decode_image
def decode(content, row):
    encoded = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    pixels = decode_image(encoded, ImageReadMode.GRAY if shape[0] == 1 else ImageReadMode.RGB).numpy()
    $row_of_planes
$end
"""  # of a program with the option `decoder`: from a file's bytes into a row of the batch
Decode = Callable[[bytes, Any], None]  # of a file's bytes into a row, an array (channels, height, width)


def path_of(request: LoaderRequest, position: int) -> str:
    """Return the file of the image at `position` of a split."""
    return f"{request.data}/{position:06d}.{request.sample.ending}"


def content_of(path: str) -> bytes:
    """Return a file's bytes by four system calls: Python's own file takes seven, and its lock at each."""
    file = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(file).st_size
        content = os.read(file, size)
    finally:
        os.close(file)
    if len(content) != size:
        raise EOFError(f"{path}: found {len(content)} of {size} bytes: it was cut short while it was read")
    return content


def never(request: LoaderRequest) -> str | None:
    """Return why the decoder cannot decode the files of a data set, or None: it knows no PNG."""
    if request.options["decoder"] == "simplejpeg" and request.sample.ending != "jpg":
        return f"simplejpeg decodes JPEG, the data set's files are .{request.sample.ending}: take another decoder"
    return None


def decode_of(request: LoaderRequest) -> Decode:
    """Return the function that decodes by the library that is asked for; it leaves zeros where decoding is left out."""
    if "decode" in request.without:
        return lambda _content, row: row.fill(0)
    decoders = {"simplejpeg": _simplejpeg, "opencv": _opencv, "torchvision": _torchvision}
    return decoders.get(request.options["decoder"], _pillow)(request.sample.shape[0] == 1)


def pillow_pixels(content: bytes) -> Any:
    """Return what Pillow makes of a file's bytes: uint8 (height, width, channels); (height, width) if grey."""
    import io

    import numpy as np
    from PIL import Image

    with Image.open(io.BytesIO(content)) as image:
        return np.asarray(image)


def put(pixels: Any, row: Any) -> None:
    """Write uint8 (channels, height, width) into a row of the batch, or (n, ...) into n; of float32 as 255ths."""
    import numpy as np

    if row.dtype == np.uint8:
        row[...] = pixels
    else:
        np.multiply(pixels, np.float32(1 / 255), out=row)


def _put_interleaved() -> Callable[[Any, Any], None]:
    """Return what writes uint8 (height, width, channels) or (height, width) into a row; of float32 as 255ths.

    OpenCV takes the channels apart in a third of the time of NumPy's copy of the transposed array.
    """
    import cv2
    import numpy as np

    def put_interleaved(pixels: Any, row: Any) -> None:
        if row.dtype == np.uint8:
            cv2.split(pixels, [*row])
        else:
            put(pixels.reshape(*row.shape[1:], -1).transpose(2, 0, 1), row)

    return put_interleaved


def _simplejpeg(grey: bool) -> Decode:
    import threading

    import simplejpeg

    colours, own, put_interleaved = "GRAY" if grey else "RGB", threading.local(), _put_interleaved()

    def decode(content: bytes, row: Any) -> None:
        if not hasattr(own, "pixels"):
            own.pixels = _cached_pixels(row.shape)  # used again by each image of a thread
        put_interleaved(simplejpeg.decode_jpeg(content, colours, buffer=own.pixels), row)

    return decode


def _cached_pixels(shape: tuple[int, ...]) -> Any:
    """Return a place uint8 (height, width, channels) for an image of the shape (channels, height, width).

    It begins at an odd address. Rows that begin at a multiple of 32 libjpeg-turbo writes past the caches (its AVX2
    conversion of colours stores by `vmovntdq`): to take the channels apart then waits for memory, 7 % of a decoded
    image of 224 x 224, in some openings and not in others as malloc has it.
    """
    import numpy as np

    channels, height, width = shape
    return np.empty(1 + channels * height * width, np.uint8)[1:].reshape(height, width, channels)


def _pillow(grey: bool) -> Decode:  # noqa: ARG001
    put_interleaved = _put_interleaved()
    return lambda content, row: put_interleaved(pillow_pixels(content), row)


def _opencv(grey: bool) -> Decode:
    import cv2
    import numpy as np

    put_interleaved = _put_interleaved()
    flag = (cv2.IMREAD_GRAYSCALE if grey else cv2.IMREAD_COLOR_RGB) | cv2.IMREAD_IGNORE_ORIENTATION
    cv2.setNumThreads(0)  # worker processes or the consumer's threads are there already

    def decode(content: bytes, row: Any) -> None:
        put_interleaved(cv2.imdecode(np.frombuffer(content, np.uint8), flag), row)

    return decode


def _torchvision(grey: bool) -> Decode:
    import warnings

    import torch
    from torchvision.io import ImageReadMode, decode_image

    mode = ImageReadMode.GRAY if grey else ImageReadMode.RGB
    warnings.filterwarnings("ignore", "The given buffer is not writable")  # nobody writes to it

    def decode(content: bytes, row: Any) -> None:
        put(decode_image(torch.frombuffer(content, dtype=torch.uint8), mode).numpy(), row)

    return decode
