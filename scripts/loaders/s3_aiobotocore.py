"""aiobotocore in a DataLoader: one GET per item from a bucket, many at a time in the event loop of each worker.

boto3's client for asyncio, on which s3fs is built. Its time goes into Python: one core signs its requests
and takes their answers, so that workers help more than a larger `in_flight`.
"""

from scripts.loaders._s3 import (
    ATTEMPTS,
    IN_FLIGHT,
    READS,  # noqa: F401
    SETTINGS,  # noqa: F401
    Objects,
    client_arguments,
    pause,
)
from scripts.loaders._torch import STAGES, epochs_of_opened, simplify  # noqa: F401
from scripts.machine.objects import bucket_of

FORMAT = "npy"
REQUIRES = ("torch", "numpy", "aiobotocore")
LIFETIME = "lasting"
OPTIONS = IN_FLIGHT
SNIPPET = """
import asyncio
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from torch.utils.data import Dataset

$head
$labels
$objects


$empty_batch


class Items(Dataset):
    loop = None  # each process has its own, with a client

    def __len__(self):
        return len(target)

    async def open(self):
        config = AioConfig(
            max_pool_connections=$in_flight,
            s3={"addressing_style": "path" if index["path_style"] else "virtual"},
        )
        opening = get_session().create_client("s3", endpoint_url=endpoint, region_name=index["region"], config=config)
        self.client, self.gate = await opening.__aenter__(), asyncio.Semaphore($in_flight)

    async def fetch(self, position, row):
        key, first = place(position)
        wanted = f"bytes={first}-{first + row.nbytes - 1}"
        async with self.gate:
            found = await self.client.get_object(Bucket=index["bucket"], Key=key, Range=wanted)
            async with found["Body"] as body:
                row[...] = np.frombuffer(await body.read(), dtype=np.$dtype).reshape(shape)

    async def fetch_all(self, positions, rows):
        await asyncio.gather(*map(self.fetch, positions, rows))

    def __getitems__(self, positions):  # a batch at a time
        if self.loop is None:
            self.loop = asyncio.new_event_loop()
            self.loop.run_until_complete(self.open())
        $item = empty_batch(len(positions))
        self.loop.run_until_complete(self.fetch_all(positions, $item.numpy()))
        return {"$item": $item, "target": target[positions], "labels": labels[positions]}


$by_data_loader
"""


class Client:
    """A client in an event loop of its own."""

    def __init__(self, bucket, in_flight):
        import asyncio
        from contextlib import AsyncExitStack

        from aiobotocore.config import AioConfig
        from aiobotocore.session import get_session

        self.loop, self.opened, self.in_flight = asyncio.new_event_loop(), AsyncExitStack(), in_flight
        client = get_session().create_client(**client_arguments(bucket, AioConfig, in_flight))
        self.client = self.loop.run_until_complete(self.opened.enter_async_context(client))

    def fill(self, rows, wanted):
        """Fetch each of `wanted` into its row; return when all are there."""
        self.loop.run_until_complete(self._fill(rows, wanted))

    def close(self):
        """End connections and loop."""
        self.loop.run_until_complete(self.opened.aclose())
        self.loop.close()

    async def _fill(self, rows, wanted):
        import asyncio

        gate = asyncio.Semaphore(self.in_flight)
        try:
            async with asyncio.TaskGroup() as group:
                for row, one in zip(rows, wanted, strict=False):
                    group.create_task(self._whole(gate, row, one))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _whole(self, gate, row, wanted):
        import asyncio

        from aiohttp import ClientError
        from botocore.exceptions import HTTPClientError, IncompleteReadError

        transient = (ClientError, HTTPClientError, IncompleteReadError, EOFError, OSError)
        async with gate:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    return await self._fetch(row, wanted)
                except Exception as error:
                    seconds = pause(error, wanted, attempt, transient)
                await asyncio.sleep(seconds)

    async def _fetch(self, row, wanted):
        found = await self.client.get_object(Bucket=wanted.bucket, Key=wanted.key, Range=wanted.range)
        async with found["Body"] as body:
            wanted.check(found["ETag"], found["ContentLength"])
            content = await body.read()
        if len(content) != len(row):
            raise EOFError(f"a body that ends after {len(content)} of {len(row)} bytes")
        row[:] = content


class Items(Objects):
    """The items, by a client in each process."""

    def open(self):
        """Return a client in a loop of its own."""
        return Client(bucket_of(self.request.location), self.request.options["in_flight"])


def open_epochs(request):
    """Return what opens the epoch function over the objects."""
    return epochs_of_opened(request, Items(request))
