"""AIStore's SDK in a DataLoader: one object per item, or a batch of objects by one request (GetBatch).

`get: object` asks for items one by one, by `in_flight` threads in each worker; `get: batch` for all of a batch at once,
which the cluster sends as one archive. The SDK is proven against a stand-in that answers as AIStore does. No cluster
was there to measure its speed on, so that it has none here and no rank.
"""

from functools import partial

from aistore import Client
from aistore.sdk.retry_config import RetryConfig
from tenacity import stop_after_attempt, wait_random_exponential
from urllib3.exceptions import ProtocolError

from scripts.loaders import _declared
from scripts.loaders._declared import SETTINGS, STAGES
from scripts.loaders._plain.data_loader import data_loader
from scripts.loaders._plain.objects import ATTEMPTS, SECONDS, Fetchers, ObjectError, Objects, copy_into, tried
from scripts.loaders._s3 import IN_FLIGHT

FORMAT = "npy"
READS = ("ais", "s3")
REQUIRES = ("torch", "numpy", "aistore")
LIFETIME = "lasting"
OPTIONS = {"get": {"enum": ["object", "batch"], "default": "object"}, **IN_FLIGHT}


def simplify(settings):
    """Return settings as a DataLoader's are, `in_flight` null where a batch is one request."""
    settings = _declared.simplify(settings)
    return settings if settings["get"] == "object" else {**settings, "in_flight": None}


def never(request):
    """Return why the tier cannot be read: it is no AIStore."""
    if request.location.read_by == "ais":
        return None
    return "the tier is not an AIStore: its SDK is proven against a stand-in; its speed is not measured"


def client_of(split, connections):
    """Return a client. What is tried again is the library's choice, but how often is as elsewhere."""
    retry = RetryConfig.default()
    retry.http_retry = retry.http_retry.new(total=ATTEMPTS - 1, backoff_factor=0.1)
    stop, wait = stop_after_attempt(ATTEMPTS), wait_random_exponential(multiplier=0.1, max=2)
    retry.network_retry = retry.network_retry.copy(stop=stop, wait=wait)
    return Client(split.endpoint, max_pool_size=connections, timeout=SECONDS, retry_config=retry)


def end(client):
    """Close its connections: the SDK has no call for it."""
    client._request_client.session_manager.session.close()


class OneByOne(Fetchers):
    """A client with threads that ask for an item each."""

    transient = ()  # the SDK tries again itself

    def __init__(self, split, threads):
        super().__init__(threads)
        self.client = client_of(split, threads)
        self.bucket = self.client.bucket(split.name)

    def fetch(self, part, row):
        copy_into(row, self.bucket.object(part.key).get_reader(byte_range=part.range).read_all())

    def close(self):
        super().close()
        end(self.client)


class Batched:
    """A client that asks for all items of a batch at once."""

    def __init__(self, split):
        self.client = client_of(split, 1)
        self.bucket = self.client.bucket(split.name)

    def fill(self, parts, rows):
        # the SDK does not ask again for an archive that breaks off
        tried(lambda: self.fetch(parts, rows), parts[0], (ProtocolError,))

    def fetch(self, parts, rows):
        found = self.client.batch([part.key for part in parts], bucket=self.bucket).get()
        for part, row, (about, content) in zip(parts, rows, found, strict=True):
            if about.obj_name != part.key or len(content) != part.first + part.length:
                said = f"{about.obj_name}, {len(content)} bytes, {about.err_msg or 'no error'}"
                raise ObjectError(f"object {part.uri}: {said}")
            row[:] = content[part.first :]

    def close(self):
        end(self.client)


def make_loader(data, key, shape, dtype, get, in_flight, **how):
    """Return a DataLoader over the objects of a bucket."""
    if get == "object":
        return data_loader(Objects(data, key, shape, dtype, partial(OneByOne, threads=in_flight)), **how)
    return data_loader(Objects(data, key, shape, dtype, Batched), **how)
