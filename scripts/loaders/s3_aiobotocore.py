"""aiobotocore in a DataLoader: one GET per item from a bucket, many at a time in the event loop of each worker.

boto3's client for asyncio, on which s3fs is built. Its time goes into Python: one core signs its requests
and takes their answers, so that workers help more than a larger `in_flight`.
"""

import asyncio
from contextlib import AsyncExitStack
from functools import partial

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from aiohttp import ClientError
from botocore.exceptions import HTTPClientError, IncompleteReadError

from scripts.loaders._declared import SETTINGS, STAGES, simplify
from scripts.loaders._plain.data_loader import data_loader
from scripts.loaders._plain.objects import ATTEMPTS, Objects, client_arguments, copy_into, pause
from scripts.loaders._s3 import IN_FLIGHT, READS

FORMAT = "npy"
REQUIRES = ("torch", "numpy", "aiobotocore")
LIFETIME = "lasting"
OPTIONS = IN_FLIGHT


class Client:
    """A client in an event loop of its own."""

    transient = (EOFError, OSError, ClientError, HTTPClientError, IncompleteReadError)

    def __init__(self, split, in_flight):
        self.loop, self.opened, self.in_flight = asyncio.new_event_loop(), AsyncExitStack(), in_flight
        client = get_session().create_client(**client_arguments(split, AioConfig, in_flight))
        self.client = self.loop.run_until_complete(self.opened.enter_async_context(client))

    def fill(self, parts, rows):
        self.loop.run_until_complete(self.fetch_all(parts, rows))

    async def fetch_all(self, parts, rows):
        gate = asyncio.Semaphore(self.in_flight)
        try:
            async with asyncio.TaskGroup() as group:
                for part, row in zip(parts, rows, strict=True):
                    group.create_task(self.whole(gate, part, row))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def whole(self, gate, part, row):
        async with gate:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    return await self.fetch(part, row)
                except Exception as error:
                    seconds = pause(error, part, attempt, self.transient)
                await asyncio.sleep(seconds)

    async def fetch(self, part, row):
        found = await self.client.get_object(Bucket=part.bucket, Key=part.key, Range=part.range)
        async with found["Body"] as body:
            part.check(found["ETag"], found["ContentLength"])
            copy_into(row, await body.read())

    def close(self):
        self.loop.run_until_complete(self.opened.aclose())
        self.loop.close()


def make_loader(data, key, shape, dtype, in_flight, **how):
    """Return a DataLoader over the objects of a bucket."""
    return data_loader(Objects(data, key, shape, dtype, partial(Client, in_flight=in_flight)), **how)
