"""boto3 in a DataLoader: one GET per item from a bucket, by a pool of threads in each worker.

What most published code does with a bucket. `fetchers` is the size of the pool: with 0 a worker fetches one item after
another, and waits for the storage's latency each time. Its time goes into latency where fetchers are few, and into
boto3's own Python where they are many: threads of one process share its lock, so that workers help as well.
"""

from contextlib import closing

from scripts.loaders._s3 import (
    BATCH_SNIPPET,
    HEAD_SNIPPET,
    READS,  # noqa: F401
    SETTINGS,  # noqa: F401
    Fetchers,
    Objects,
    client_arguments,
    read_into,
)
from scripts.loaders._torch import STAGES, epochs_of_opened, simplify  # noqa: F401
from scripts.machine.objects import bucket_of

FORMAT = "npy"
REQUIRES = ("torch", "numpy", "boto3")
LIFETIME = "lasting"
OPTIONS = {"fetchers": {"enum": [0, 5, 20], "default": 0}}
SNIPPET = (
    HEAD_SNIPPET
    + """\
import boto3
from botocore.config import Config
    def open(self):
        config = Config(
            max_pool_connections=max(1, $fetchers),
            s3={"addressing_style": "path" if index["path_style"] else "virtual"},
        )
        self.client = boto3.client("s3", endpoint_url=endpoint, region_name=index["region"], config=config)
        self.pool = ThreadPoolExecutor(max(1, $fetchers))

    def fetch(self, position, row):
        key, first = place(position)
        wanted = f"bytes={first}-{first + row.nbytes - 1}"
        body = self.client.get_object(Bucket=index["bucket"], Key=key, Range=wanted)["Body"].read()
        row[...] = np.frombuffer(body, dtype=np.$dtype).reshape(shape)
"""
    + BATCH_SNIPPET
)


class Items(Objects):
    """The items, by a client of boto3's and a pool of threads in each process."""

    def open(self):
        """Return a client with its threads."""
        import boto3
        from botocore.config import Config
        from botocore.exceptions import HTTPClientError, IncompleteReadError

        bucket, threads = bucket_of(self.request.location), self.request.options["fetchers"]
        client = boto3.session.Session().client(**client_arguments(bucket, Config, max(1, threads)))

        def fetch(wanted, row):
            found = client.get_object(Bucket=wanted.bucket, Key=wanted.key, Range=wanted.range)
            with closing(found["Body"]) as body:
                wanted.check(found["ETag"], found["ContentLength"])
                read_into(body.readinto, row)

        return Fetchers(threads, fetch, (HTTPClientError, IncompleteReadError, OSError), client.close)


def open_epochs(request):
    """Return what opens the epoch function over the objects."""
    return epochs_of_opened(request, Items(request))
