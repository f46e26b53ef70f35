"""boto3 in a DataLoader: one GET per item from a bucket, by a pool of threads in each worker.

What most published code does with a bucket. `fetchers` is the size of the pool: with 0 a worker fetches one item after
another, and waits for the storage's latency each time. Its time goes into latency where fetchers are few, and into
boto3's own Python where they are many: threads of one process share its lock, so that workers help as well.
"""

from contextlib import closing
from functools import partial

import boto3
from botocore.config import Config
from botocore.exceptions import HTTPClientError, IncompleteReadError

from scripts.common.settings import OF_WORKERS as SETTINGS
from scripts.loaders._declared import STAGES, simplify
from scripts.loaders._plain.data_loader import data_loader
from scripts.loaders._plain.objects import Fetchers, Objects, client_arguments, read_into
from scripts.loaders._s3 import READS

FORMAT = "npy"
REQUIRES = ("torch", "numpy", "boto3")
LIFETIME = "lasting"
OPTIONS = {"fetchers": {"enum": [0, 5, 20], "default": 0}}


class Client(Fetchers):
    """A client of boto3's with its threads."""

    transient = (EOFError, OSError, HTTPClientError, IncompleteReadError)

    def __init__(self, split, threads):
        super().__init__(threads)
        self.client = boto3.session.Session().client(**client_arguments(split, Config, max(1, threads)))

    def fetch(self, part, row):
        found = self.client.get_object(Bucket=part.bucket, Key=part.key, Range=part.range)
        with closing(found["Body"]) as body:
            part.check(found["ETag"], found["ContentLength"])
            read_into(row, body.readinto)

    def close(self):
        super().close()
        self.client.close()


def make_loader(data, key, shape, dtype, fetchers, **how):
    """Return a DataLoader over the objects of a bucket."""
    return data_loader(Objects(data, key, shape, dtype, partial(Client, threads=fetchers)), **how)
