"""obstore in a DataLoader: one GET per item from a bucket, by threads whose requests Rust makes.

Python's client of the Rust library object_store. Its time goes into latency where `in_flight` is small, and into the
network beyond; no worker is needed for its requests.
"""

from scripts.loaders._obstore import SNIPPET, open_epochs  # noqa: F401
from scripts.loaders._s3 import IN_FLIGHT, READS, SETTINGS  # noqa: F401
from scripts.loaders._torch import simplify  # noqa: F401

FORMAT = "npy"
REQUIRES = ("torch", "numpy", "obstore")
LIFETIME = "lasting"
STAGES = ("read",)
OPTIONS = IN_FLIGHT
