"""How the items of a split are divided into shards: few large files, of as many items each as can be."""

import io
import tarfile
from pathlib import Path

LARGEST_SHARD_BYTES = 500_000_000
COPY_BYTES = 4 * 1024 * 1024  # an item in one write; tarfile's own is 16 KiB


def shard_sizes(items: int, item_bytes: int, readers: int) -> list[int]:
    """Return how many items each shard holds, if an item has at most `item_bytes`: as many a reader, none empty.

    The counts differ by at most one.
    """
    by_size = -(-items * item_bytes // LARGEST_SHARD_BYTES)
    shards = min(items, max(1, -(-by_size // readers)) * readers)
    return [items * (shard + 1) // shards - items * shard // shards for shard in range(shards)]


def opened_tar(path: Path) -> tarfile.TarFile:
    """Return a new tar file."""
    return tarfile.open(path, "w", format=tarfile.USTAR_FORMAT, copybufsize=COPY_BYTES)


def add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    """Add a member to a tar file."""
    member = tarfile.TarInfo(name)  # time, user and group are 0
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))
