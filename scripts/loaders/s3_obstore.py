"""obstore in a DataLoader: one GET per item from a bucket, by threads whose requests Rust makes.

Python's client of the Rust library object_store. Its time goes into latency where `in_flight` is small, and into the
network beyond; no worker is needed for its requests.
"""

from functools import partial

from scripts.loaders._declared import SETTINGS, simplify
from scripts.loaders._plain.data_loader import data_loader
from scripts.loaders._plain.objects import Objects
from scripts.loaders._plain.objects_by_obstore import Store
from scripts.loaders._s3 import IN_FLIGHT, READS

FORMAT = "npy"
REQUIRES = ("torch", "numpy", "obstore")
LIFETIME = "lasting"
STAGES = ("read",)
OPTIONS = IN_FLIGHT


def make_loader(data, key, shape, dtype, in_flight, **how):
    """Return a DataLoader over the objects of a bucket."""
    return data_loader(Objects(data, key, shape, dtype, partial(Store, threads=in_flight)), **how)
