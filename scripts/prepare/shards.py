"""The tables of a shard's folder, which build_corpus.py writes and index_corpus.py joins."""

ITEM_COLUMNS = ("id", "frames", "hash", "path", "labels")  # items.csv
REJECTED_COLUMNS = ("id", "reason", "status")  # rejected.csv
