"""FFCV with its field for RGB images, as JPEG: mapped, and decoded into batches by compiled threads.

What the library was made for, but that images have one size and are whole. Its threads (`workers`) decode by
libjpeg-turbo with its fast transform, whose last bits differ from those of the others (PIXEL_LIMIT; the record of the
proof says by how much); set them to the number of cores. The library does not look whether decoding went well. Its time
goes into decoding.
"""

from ffcv.fields.rgb_image import SimpleRGBImageDecoder
from ffcv.pipeline.compiler import Compiler
from ffcv.transforms import ToTensor

from scripts.loaders._ffcv import SETTINGS, STAGES, simplify, unsuited, without_read
from scripts.loaders._plain.ffcv import channels_first, from_beton

FORMAT = "ffcv_jpeg"
ENV = "ffcv"
REQUIRES = ("torch", "ffcv", "numpy")
LIFETIME = "lasting"
PIXEL_LIMIT = 16  # of 255; 5 was the most of 2,048 made images


def never(request):
    """Return why the library cannot decode the files, or None."""
    if request.sample.ending != "jpg":
        return f"FFCV decodes JPEG, the data set's files are .{request.sample.ending}: take ffcv_raw"
    return None


def decode_by_threads():
    """Return what FFCV's threads do with an image, which is its default too."""
    return [SimpleRGBImageDecoder(), ToTensor()]


def make_loader(data, key, shape, dtype, scale, batch_size, workers, prefetch, seed, order=None):
    """Return a loader of a beton of JPEG."""
    how = batch_size, workers, prefetch, seed, order, {key: decode_by_threads()}
    return from_beton(data, key, shape, dtype, scale, channels_first, *how)


def without_decode(decode, _request):
    """Return a pipeline that decodes nothing: FFCV's threads touch each page of a file, torch writes zeros."""
    if decode is decode_by_threads:
        return lambda: [Touching(), ToTensor()]
    return lambda _values, _scale, batch: batch.zero_()


class Touching(SimpleRGBImageDecoder):
    """Reads a byte of each page of a file in the place of decoding it."""

    def generate_code(self):
        read, every = self.memory_read, Compiler.get_iterator()

        def touch(batch_indices, destination, metadata, storage_state):
            for row in every(len(batch_indices)):
                content = read(metadata[batch_indices[row]]["data_ptr"], storage_state)
                for place in range(0, len(content), 4096):
                    destination[row, 0, 0, 0] = content[place]
            return destination[: len(batch_indices)]

        touch.is_parallel = True
        return touch
