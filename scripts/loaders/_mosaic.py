"""What the loaders by MosaicML Streaming say of themselves."""

ORDER = "shards in random order, items near to their shard"
