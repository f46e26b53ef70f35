"""SPDL threads with its own image I/O: each image decoded by FFmpeg without Python's lock, whole batches at a time.

Without worker processes: threads share memory, so that a batch is handed over and not copied. `workers` are threads,
each of which makes a whole batch; set them to the number of cores. Its time goes into decoding. FFmpeg's decoder scales
the colours of JPEG up in another way than libjpeg-turbo does: values differ (PIXEL_LIMIT), and the record of the proof
says by how much.
"""

import spdl.io

from scripts.loaders._plain.images import content_of, put_planes
from scripts.loaders._plain.spdl import Files, by_batch, empty_of
from scripts.loaders._spdl import SETTINGS, simplify, without_read

FORMAT = "files"
REQUIRES = ("torch", "spdl", "numpy")
LIFETIME = "lasting"
STAGES = ("read", "decode")
PIXEL_LIMIT = 48  # of 255; 27 was the most of 120 made images, 163 of noise of pure colours, which is refused


def decode(contents, rows):
    """Decode files into the rows of a batch. SPDL keeps their frames apart until one copy makes them an array."""
    colours = spdl.io.get_video_filter_desc(pix_fmt="gray" if rows.shape[1] == 1 else "rgb24")
    frames = [spdl.io.decode_packets(spdl.io.demux_image(one), filter_desc=colours) for one in contents]
    pixels = spdl.io.to_numpy(spdl.io.convert_frames(frames))
    put_planes(pixels.transpose(0, 3, 1, 2) if pixels.ndim == 4 else pixels[:, None], rows)


def read(paths, rows):
    """Read files, decoded into the rows of a batch."""
    decode([content_of(path) for path in paths], rows)


def make_loader(data, key, shape, dtype, ending, batch_size, workers, prefetch, pin_memory, seed, order=None):
    """Return a loader of numbered image files."""
    files = Files(data, key, shape, dtype, ending, read, empty_of(pin_memory))
    return by_batch(files, batch_size, workers, prefetch, seed, order)
