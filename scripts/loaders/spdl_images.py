"""SPDL threads with its own image I/O: each image decoded by FFmpeg without Python's lock, whole batches at a time.

Without worker processes: threads share memory, so that a batch is handed over and not copied. `workers` are threads,
each of which makes a whole batch; set them to the number of cores. Its time goes into decoding. FFmpeg's decoder scales
the colours of JPEG up in another way than libjpeg-turbo does: values differ (PIXEL_LIMIT), and the record of the proof
says by how much.
"""

from collections import deque

from scripts.loaders._image import content_of, path_of, put
from scripts.loaders._spdl import BATCHES_SNIPPET, READ_SNIPPET, SETTINGS, ReadBatch, epochs_in_batches  # noqa: F401
from scripts.loaders._torch import simplify_threads as simplify  # noqa: F401

FORMAT = "files"
REQUIRES = ("torch", "spdl", "numpy")
LIFETIME = "lasting"
STAGES = ("read", "decode")
PIXEL_LIMIT = 48  # of 255; 27 was the most of 120 made images, 163 of noise of pure colours, which is refused
SNIPPET = (
    BATCHES_SNIPPET
    + """
import spdl.io


colours = spdl.io.get_video_filter_desc(pix_fmt="gray" if shape[0] == 1 else "rgb24")


def frames_of(position):
    content = (data / f"{position:06d}.$ending").read_bytes()
    return spdl.io.decode_packets(spdl.io.demux_image(content), filter_desc=colours)


def read(positions):  # a batch at a time: all its frames, then one copy
    pixels = spdl.io.to_numpy(spdl.io.convert_frames([frames_of(position) for position in positions.tolist()]))
    first = pixels.transpose(0, 3, 1, 2) if pixels.ndim == 4 else pixels[:, None]
    $item = torch.empty(first.shape, dtype=torch.$dtype, pin_memory=pin)
    $when dtype=uint8
    $item.numpy()[...] = first
    $when dtype=float32
    np.multiply(first, np.float32(1 / 255), out=$item.numpy())
    $end
    where = torch.from_numpy(positions)
    return {"$item": $item, "target": target[where], "labels": labels[where]}

"""
    + READ_SNIPPET
)


class Frames(ReadBatch):
    """Reads and decodes by SPDL, which keeps the frames of a batch apart until one copy makes the batch."""

    def read(self, positions, rows):
        """Write the decoded images at `positions` into `rows`, an array (batch, channels, height, width)."""
        import spdl.io

        contents = (content_of(path_of(self.request, position)) for position in positions.tolist())
        if "decode" in self.request.without:
            deque(contents, maxlen=0)
            rows.fill(0)
            return
        colours = spdl.io.get_video_filter_desc(pix_fmt="gray" if self.request.sample.shape[0] == 1 else "rgb24")
        frames = [spdl.io.decode_packets(spdl.io.demux_image(one), filter_desc=colours) for one in contents]
        pixels = spdl.io.to_numpy(spdl.io.convert_frames(frames))
        put(pixels.transpose(0, 3, 1, 2) if pixels.ndim == 4 else pixels[:, None], rows)


def open_epochs(request):
    """Return what opens the epoch function over numbered image files."""
    return epochs_in_batches(Frames(request), request)
