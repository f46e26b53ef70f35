"""Arrays made on this machine, of the shape and type that the data set says: random numbers around one mean a class."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.common.ledger import LedgerRow, SourceRequest

VERSION = 1  # in the path of what is made, so that no stale file is met
KINDS = ("array",)
OPTIONS = {
    "arrays": {"type": "integer", "minimum": 1, "default": 512, "description": "How many arrays to make."},
    "seed": {"type": "integer", "minimum": 0, "default": 7, "description": "Another seed makes another data set."},
}
CLASSES = 10
ARRAYS_PER_SHARD = 4096
MOST_SHARDS = 1000


def check(options: Mapping[str, Any]) -> None:
    """Do nothing: the schema already holds all that can be wrong."""


def shards(options: Mapping[str, Any]) -> int:
    """Return the number of shards: of 4,096 arrays each, or larger so that there are never more than 1,000."""
    return min(MOST_SHARDS, -(-options["arrays"] // ARRAYS_PER_SHARD))


def expected(options: Mapping[str, Any]) -> int:
    """Return how many arrays there will be."""
    return options["arrays"]


def fetch(request: SourceRequest) -> Iterator[LedgerRow]:
    """Yield this shard's arrays in order of their number; one that the store already holds is not made again."""
    import numpy as np

    from scripts.common.files import whole_file

    arrays, seed, shape = request.options["arrays"], request.options["seed"], tuple(request.kind_options["shape"])
    dtype = np.dtype(request.kind_options["dtype"])
    folder = f"arrays-{VERSION}-{seed}-{'x'.join(map(str, shape))}-{dtype.name}"
    first, end = (arrays * shard // request.shards for shard in (request.shard, request.shard + 1))
    for number in range(first, end):
        rng = np.random.default_rng([seed, number])
        label = int(rng.integers(CLASSES))
        array_id = f"synthetic-{seed}-{number:06d}"
        path = Path(folder, f"{number // 1000:04d}", f"{array_id}.npy")
        if not (request.store / path).exists():
            values = rng.normal(10 * label + 20, 5, shape)
            if dtype.kind != "f":
                values = np.clip(np.rint(values), np.iinfo(dtype).min, np.iinfo(dtype).max)
            with whole_file(request.store / path, "wb") as file:
                np.save(file, values.astype(dtype), allow_pickle=False)
        yield LedgerRow(array_id, "fetched", path=path.as_posix(), labels=[f"class {label}"])
