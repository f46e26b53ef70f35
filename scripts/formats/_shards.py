"""How the items of a split are divided into shards: few large files, of as many items each as can be."""

LARGEST_SHARD_BYTES = 500_000_000


def shard_sizes(items: int, item_bytes: int, readers: int) -> list[int]:
    """Return how many items each shard holds, if an item has at most `item_bytes`: as many a reader, none empty.

    The counts differ by at most one.
    """
    by_size = -(-items * item_bytes // LARGEST_SHARD_BYTES)
    shards = min(items, max(1, -(-by_size // readers)) * readers)
    return [items * (shard + 1) // shards - items * shard // shards for shard in range(shards)]
