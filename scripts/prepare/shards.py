"""The tables of a shard's folder, which build_corpus.py writes and index_corpus.py joins."""

CLIP_COLUMNS = ("id", "frames", "hash", "path", "labels")  # clips.csv
REJECTED_COLUMNS = ("id", "reason", "status")  # rejected.csv
