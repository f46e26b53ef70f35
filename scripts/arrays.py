"""The .npy layout for writers that stream: the header alone, so that the rows can follow as they come.

`numpy.lib.format.open_memmap` would do the same through mapped pages, which count as memory of the process until the
kernel takes them back; plain writes keep it flat however long the array is.
"""

import io

import numpy as np


def npy_header(dtype: np.typing.DTypeLike, shape: tuple[int, ...]) -> bytes:
    """Return the header of a C-ordered .npy file (format 1.0): what precedes the raw bytes of the array."""
    header = io.BytesIO()
    fields = {
        "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
        "fortran_order": False,
        "shape": shape,
    }
    np.lib.format.write_array_header_1_0(header, fields)
    return header.getvalue()
