"""Our own ring of reused buffers over tar shards of images, as WebDataset's: read by position, decoded in threads.

The shards' headers are read once, when the loader opens: from then on a member is one read at its place in its shard,
in any order, without a file to open. Every epoch is one random permutation, with no shuffle buffer, and ranks and
threads need no shard of their own. Each of `workers` threads decodes an image at a time straight into its row of a
batch, without Python's lock; set them to the number of cores. `decoder` is the library, as of `image_files`. On a CPU a
batch is valid until the next one is taken; `copies: true` gives each memory of its own.
"""

import json
import os
import tarfile

import numpy as np

from scripts.loaders._declared import DECODER, SETTINGS, never, simplify_threads as simplify
from scripts.loaders._plain.epochs import Epochs
from scripts.loaders._plain.images import decode_of
from scripts.loaders._plain.labels import labels_in
from scripts.loaders._plain.ring import over_items
from scripts.loaders._ring.plan import COPIES, lifetime
from scripts.loaders._ring.unread import without_read

FORMAT = "webdataset"
KINDS = ("image",)
REQUIRES = ("torch", "numpy", "opencv-python-headless")
LIFETIME = lifetime
STAGES = ("read", "decode")
OPTIONS = {**DECODER, **COPIES}


def members_of(path, ending):
    """Return the place of each image of a shard, as (first byte, bytes), and what its JSON says, in their order."""
    places, about = {}, {}  # by the members' name
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                name, _, kind = member.name.rpartition(".")
                if kind == ending:
                    places[name] = member.offset_data, member.size
                elif kind == "json":
                    about[name] = json.loads(os.pread(tar.fileobj.fileno(), member.size, member.offset_data))
    except (tarfile.TarError, ValueError) as error:
        raise ValueError(f"{path}: it cannot be read as a tar shard: {error}") from error
    if alone := sorted(places.keys() ^ about.keys()):
        raise ValueError(f"{path}: {alone[0]}: found one of .{ending} and .json; an image needs both")
    return places.values(), map(about.get, places)


class Shards:
    """Open tar shards, with the place of each image: its shard, first byte and bytes."""

    def __init__(self, data, ending, items=None):
        self.paths, places, self.about = sorted(data.glob("*.tar")), [], []
        for shard, path in enumerate(self.paths):
            found, about = members_of(path, ending)
            places += [(shard, *place) for place in found]
            self.about += about
        if items not in (None, len(places)):
            raise ValueError(
                f"{data}: found {len(places)} images in {len(self.paths)} tar shards, the split has {items}: a shard "
                "is not there or was cut short"
            )
        self.places = np.array(places)
        self.files = [os.open(path, os.O_RDONLY) for path in self.paths]

    def close(self):
        for file in self.files:
            os.close(file)


class Members:
    """Reads and decodes images of the shards, in a thread of the ring: its place for a file is used again."""

    def __init__(self, shards, decode):
        self.shards, self.decode = shards, decode
        self.content = memoryview(bytearray(shards.places[:, 2].max()))

    def read_into(self, position, row):
        shard, first, size = self.shards.places[position].tolist()
        content = self.content[:size]
        found = os.preadv(self.shards.files[shard], [content], first)
        if found != size:
            path = self.shards.paths[shard]
            raise EOFError(f"{path}: found {found} of {size} bytes from {first}: it was cut short while it was open")
        self.decode(content, row)

    def close(self):
        """Do nothing: the shards stay open until the loader is closed."""


def make_loader(
    data,
    key,
    shape,
    dtype,
    ending,
    decoder,
    batch_size,
    workers,
    prefetch,
    device,
    pin_memory,
    copies,
    seed,
    order=None,
    items=None,
    classes=None,
):
    """Return a loader over tar shards, of as many items and classes as are found in them unless told."""
    shards, decode = Shards(data, ending, items), decode_of(decoder)
    classes = classes or 1 + max(max(one["classes"]) for one in shards.about)
    loader = over_items(
        lambda: Members(shards, decode),
        labels_in(shards.about, classes),
        key,
        seed,
        order,
        shape,
        dtype,
        batch_size,
        in_flight=workers,
        prefetch=prefetch,
        device=device,
        pin_memory=pin_memory,
        copies=copies,
        at_once=4,  # images: 8 and 16 give no more
    )

    def close():
        loader.close()
        shards.close()

    return Epochs(loader.batches, close)
