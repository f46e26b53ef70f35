"""What the loaders of encoded images share: where libjpeg-turbo decodes to."""

import numpy as np
import pytest

from scripts.loaders._plain.images import own, pixels_for


@pytest.mark.parametrize("shape", [(3, 224, 224), (3, 32, 32), (3, 30, 17), (1, 64, 64)])
def test_where_pixels_go(shape: tuple[int, int, int]) -> None:
    """No row of an even length begins at a multiple of 32, to which libjpeg-turbo would store past the caches."""
    channels, height, width = shape
    for _ in range(8):
        own.shape = None
        pixels = pixels_for(np.empty(shape, np.uint8))
        assert pixels.shape == (height, width, channels)
        assert pixels.flags.c_contiguous and pixels.flags.writeable
        rows = [(pixels.ctypes.data + row * pixels.strides[0]) % 32 for row in range(height)]
        assert sum(start == 0 for start in rows) <= (height / 30 if width * channels % 2 else 0)
