"""TorchRL's LazyMemmapStorage, one per split: memory-mapped tensors of data and labels, nothing left to decode.

The folder holds what `LazyMemmapStorage.dumps` leaves, without a pickle. `audio.memmap`, float32 (n, 1, samples),
`target.memmap`, `labels.memmap` and `item.memmap` are raw rows without a header. Beside them are `meta.json` and
`storage_metadata.json`.

Reopen it without a copy as a storage, where `folder` is a pathlib.Path; another `scratch_dir` copies everything:

    storage = LazyMemmapStorage(items, scratch_dir=folder, existsok=True, auto_cleanup=False)
    storage.loads(folder)

or as a plain TensorDict: `TensorDict.load_memmap(folder, allow_pickle=False)`.
"""

from scripts.formats._contract import Corpus, Path, Progress, Rows

VERSION = 1
REQUIRES = ("numpy", "torch", "tensordict")
BYTES_PER_ITEM = lambda sample: sample.bytes  # noqa: E731
READERS = False


def write(corpus: Corpus, split: str, out: Path, readers: int, progress: Progress) -> None:  # noqa: ARG001
    """Write the storage of one split into the empty folder `out`, front to back."""
    from scripts.common.arrays import delivered_items
    from scripts.common.files import write_json
    from scripts.common.labels import label_rows

    count = corpus.counts[split]
    _lay_out(out, count, corpus)
    # By plain writes: rows assigned through the storage stay mapped, and count as memory of the process.
    with open(out / f"{corpus.sample.key}.memmap", "r+b") as file:
        for row in delivered_items(corpus, split, progress):
            file.write(row)
    with (
        open(out / "item.memmap", "r+b") as items,
        open(out / "target.memmap", "r+b") as targets,
        open(out / "labels.memmap", "r+b") as labels,
    ):
        for row in label_rows(corpus, split):
            items.write(row.item.tobytes())
            targets.write(row.target.tobytes())
            labels.write(row.labels.tobytes())
    write_json(out / "storage_metadata.json", {"metadata": {}, "is_pytree": False, "len": count})


def _lay_out(out: Path, count: int, corpus: Corpus) -> None:
    """Let tensordict make meta.json and the four files in their full length, without a byte written."""
    import torch
    from tensordict import TensorDict

    row = TensorDict(
        {
            corpus.sample.key: torch.zeros(corpus.sample.shape, dtype=getattr(torch, corpus.sample.dtype)),
            "target": torch.zeros((), dtype=torch.int64),
            "labels": torch.zeros((corpus.classes,), dtype=torch.float32),
            "item": torch.zeros((), dtype=torch.int64),
        },
        device="cpu",
    )
    row.expand(count).memmap_like(prefix=out)


def read(out: Path, corpus: Corpus) -> Rows:
    """Yield (item index, delivered item, classes) in manifest order, through TensorDict.load_memmap."""
    import numpy as np
    from tensordict import TensorDict

    from scripts.common.labels import class_lists

    rows = TensorDict.load_memmap(out, allow_pickle=False)
    classes = class_lists(rows["target"].tolist(), rows["labels"].numpy())
    for item, values, numbers in zip(rows["item"].tolist(), rows[corpus.sample.key], classes, strict=True):
        yield item, np.array(values.numpy()), numbers
