"""AIStore's SDK in a DataLoader: one object per item, or a batch of objects by one request (GetBatch).

`get: object` asks for items one by one, by `in_flight` threads in each worker; `get: batch` for all of a batch at once,
which the cluster sends as one archive. The SDK is proven against a stand-in that answers as AIStore does. No cluster
was there to measure its speed on, so that it has none here and no rank.
"""

from scripts.loaders import _torch
from scripts.loaders._s3 import ATTEMPTS, IN_FLIGHT, SECONDS, SETTINGS, Fetchers, Objects, pause, tried  # noqa: F401
from scripts.loaders._torch import STAGES, epochs_of_opened  # noqa: F401

FORMAT = "npy"
READS = ("ais", "s3")
REQUIRES = ("torch", "numpy", "aistore")
LIFETIME = "lasting"
OPTIONS = {"get": {"enum": ["object", "batch"], "default": "object"}, **IN_FLIGHT}
SNIPPET = """
from aistore import Client
from torch.utils.data import Dataset

$when get=object
from concurrent.futures import ThreadPoolExecutor
$end
$head
$labels
$objects


$empty_batch


class Items(Dataset):
    bucket = None  # each process opens its own

    def __len__(self):
        return len(target)

    $when get=object
    def fetch(self, position, row):
        key, first = place(position)
        body = self.bucket.object(key).get_reader().read_all()
        row[...] = np.frombuffer(body, dtype=np.$dtype, offset=first).reshape(shape)

    $end
    def __getitems__(self, positions):  # a batch at a time
        if self.bucket is None:
            self.client = Client(endpoint)  # of a cluster's proxy
            self.bucket = self.client.bucket(index["bucket"])
            $when get=object
            self.pool = ThreadPoolExecutor($in_flight)
            $end
        $item = empty_batch(len(positions))
        $when get=object
        list(self.pool.map(self.fetch, positions, $item.numpy()))
        $when get=batch
        places = [place(position) for position in positions]
        found = self.client.batch([key for key, _ in places], bucket=self.bucket).get()
        for (_, first), (_, body), row in zip(places, found, $item.numpy(), strict=True):
            row[...] = np.frombuffer(body, dtype=np.$dtype, offset=first).reshape(shape)
        $end
        return {"$item": $item, "target": target[positions], "labels": labels[positions]}


$by_data_loader
"""


def simplify(settings):
    """Return settings as a DataLoader's are, `in_flight` null where a batch is one request."""
    settings = _torch.simplify(settings)
    return settings if settings["get"] == "object" else {**settings, "in_flight": None}


def never(request):
    """Return why the tier cannot be read: it is no AIStore."""
    if request.location.read_by == "ais":
        return None
    return "the tier is not an AIStore: its SDK is proven against a stand-in; its speed is not measured"


class Items(Objects):
    """The items, by a client in each process."""

    def open(self):
        """Return a client, with threads or without."""
        from aistore import Client
        from aistore.sdk.retry_config import RetryConfig
        from tenacity import stop_after_attempt, wait_random_exponential

        location, in_flight = self.request.location, self.request.options["in_flight"]
        retry = RetryConfig.default()  # what is tried again stays the library's choice; how often is as elsewhere
        retry.http_retry = retry.http_retry.new(total=ATTEMPTS - 1, backoff_factor=0.1)
        stop, wait = stop_after_attempt(ATTEMPTS), wait_random_exponential(multiplier=0.1, max=2)
        retry.network_retry = retry.network_retry.copy(stop=stop, wait=wait)
        client = Client(location.endpoint, max_pool_size=in_flight or 1, timeout=SECONDS, retry_config=retry)
        bucket = client.bucket(self.wanted(0).bucket)

        def close():
            client._request_client.session_manager.session.close()

        def fetch(wanted, row):
            content = bucket.object(wanted.key).get_reader(byte_range=wanted.range).read_all()
            if len(content) != len(row):
                raise EOFError(f"a body of {len(content)} bytes instead of {len(row)}")
            row[:] = content

        if self.request.options["get"] == "batch":
            return Batched(client, bucket, close)
        return Fetchers(in_flight, fetch, (), close)  # the SDK tries again itself


class Batched:
    """Fetches all items of a batch by one request."""

    def __init__(self, client, bucket, close):
        self.client, self.bucket, self.close = client, bucket, close

    def fill(self, rows, wanted):
        """Fetch each of `wanted` into its row.

        Raises UserError, which names an object that is not there, or the first of a batch that did not come.
        """
        from urllib3.exceptions import ProtocolError

        wanted = list(wanted)
        # the SDK does not ask again for an archive that breaks off
        tried(lambda: self._fill(rows, wanted), wanted[0], (ProtocolError,))

    def _fill(self, rows, wanted):
        found = self.client.batch([one.key for one in wanted], bucket=self.bucket).get()
        for one, row, (about, content) in zip(wanted, rows, found, strict=True):
            if about.obj_name != one.key or len(content) != one.stored.size:
                said = f"{about.obj_name}, {len(content)} bytes, {about.err_msg or 'no error'}"
                pause(EOFError(said), one, 1, ())
            row[:] = content[one.first :]


def open_epochs(request):
    """Return what opens the epoch function over the objects."""
    return epochs_of_opened(request, Items(request))
