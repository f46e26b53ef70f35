"""FFCV with its field for RGB images, as JPEG: mapped, and decoded into batches by compiled threads.

What the library was made for, but that images have one size and are whole. Its threads (`workers`) decode by
libjpeg-turbo with its fast transform, whose last bits differ from those of the others (PIXEL_LIMIT; the record of the
proof says by how much); set them to the number of cores. The library does not look whether decoding went well. Its time
goes into decoding.
"""

from scripts.loaders import _ffcv
from scripts.loaders._ffcv import SETTINGS, simplify, unsuited  # noqa: F401

FORMAT = "ffcv_jpeg"
ENV = "ffcv"
REQUIRES = ("torch", "ffcv", "numpy")
LIFETIME = "lasting"
STAGES = ("read", "decode")
PIXEL_LIMIT = 16  # of 255; 5 was the most of 2,048 made images
SNIPPET = _ffcv.PIXELS_SNIPPET


def never(request):
    """Return why the library cannot decode the files, or None."""
    if request.sample.ending != "jpg":
        return f"FFCV decodes JPEG, the data set's files are .{request.sample.ending}: take ffcv_raw"
    return None


def open_epochs(request):
    """Return what opens the epoch function over this rank's images."""
    from ffcv.transforms import ToTensor

    pipelines = {request.sample.key: [_touching(), ToTensor()]} if "decode" in request.without else None
    return _ffcv.epochs_of(request, _ffcv.pixels_first, pipelines)


def _touching():
    """Return what stands for the decoder where decoding is left out: it touches each page of a file."""
    from ffcv.fields.rgb_image import SimpleRGBImageDecoder
    from ffcv.pipeline.compiler import Compiler

    class Touching(SimpleRGBImageDecoder):
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

    return Touching()
