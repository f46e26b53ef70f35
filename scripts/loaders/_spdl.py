"""What the loaders on SPDL declare: `workers` is SPDL's number of threads, `prefetch` its sink's buffer."""

from scripts.common.settings import OF_WORKERS as SETTINGS  # noqa: F401
from scripts.loaders._declared import simplify_threads as simplify  # noqa: F401


def without_read(read, _request):
    """Return a function that writes into each row what the first file gave. It may be in a process of its own."""
    kept = []

    def again(*arguments):
        *decode, paths, rows = arguments
        if not kept:
            read(*decode, paths[:1], rows[:1])
            kept.append(rows[0].copy())
        rows[:] = kept[0]

    return again
