"""Decoders of encoded images, by library: each from a file's bytes into a row of the batch.

The files are upright, of one size, without metadata (`scripts/kinds/image.py`): no decoder turns or scales anything.
All are built on libjpeg-turbo and give the same bits.
"""

import os
import threading

import numpy as np

own = threading.local()


def content_of(path):
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


def put_planes(pixels, row):
    """Write uint8 (channels, height, width) into a row of the batch; of float32 as 255ths."""
    if row.dtype == np.uint8:
        row[...] = pixels
    else:
        np.multiply(pixels, np.float32(1 / 255), out=row)


def put(pixels, row):
    """Write uint8 (height, width, channels), or (height, width), into a row of the batch: its channels come first.

    OpenCV takes them apart in a third of the time of NumPy's copy of the transposed array.
    """
    import cv2

    if row.dtype == np.uint8:
        cv2.split(pixels, [*row])
    else:
        put_planes(pixels.reshape(*row.shape[1:], -1).transpose(2, 0, 1), row)


def pixels_for(row):
    """Return this thread's place for the pixels of an image, uint8 (height, width, channels), used again by each.

    It begins at an odd address: rows that begin at a multiple of 32 libjpeg-turbo writes past the caches.
    """
    shape = (*row.shape[1:], row.shape[0])
    if getattr(own, "shape", None) != shape:
        own.shape, own.pixels = shape, np.empty(1 + row.size, np.uint8)[1:].reshape(shape)
    return own.pixels


def decode_by_simplejpeg(content, row):
    """Decode a JPEG file into a row of the batch, (channels, height, width)."""
    import simplejpeg

    colours = "GRAY" if len(row) == 1 else "RGB"
    put(simplejpeg.decode_jpeg(content, colours, buffer=pixels_for(row)), row)


def decode_by_pillow(content, row):
    """Decode a file into a row of the batch, (channels, height, width)."""
    import io

    from PIL import Image

    with Image.open(io.BytesIO(content)) as image:
        put(np.asarray(image), row)


def decode_by_opencv(content, row):
    """Decode a file into a row of the batch, (channels, height, width)."""
    import cv2

    flag = cv2.IMREAD_GRAYSCALE if len(row) == 1 else cv2.IMREAD_COLOR_RGB
    put(cv2.imdecode(np.frombuffer(content, np.uint8), flag | cv2.IMREAD_IGNORE_ORIENTATION), row)


def decode_by_torchvision(content, row):
    """Decode a file into a row of the batch, (channels, height, width)."""
    import torch
    from torchvision.io import ImageReadMode, decode_image

    mode = ImageReadMode.GRAY if len(row) == 1 else ImageReadMode.RGB
    put_planes(decode_image(torch.frombuffer(bytearray(content), dtype=torch.uint8), mode).numpy(), row)


def decode_of(decoder):
    """Return the function that decodes by a library."""
    if decoder == "simplejpeg":
        return decode_by_simplejpeg
    if decoder == "opencv":
        return decode_by_opencv
    if decoder == "torchvision":
        return decode_by_torchvision
    return decode_by_pillow
