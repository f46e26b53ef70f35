"""What the loaders by obstore share: items fetched by threads, whose requests obstore makes without Python's lock.

Its runtime does not survive a fork: a process that has used it can have no workers any more, and workers open it
themselves. So nothing is read before they are started, and leaving out the transfer is no stage of these loaders.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from scripts.common.request import LoaderRequest
from scripts.loaders._s3 import (
    ATTEMPTS,
    BATCH_SNIPPET,
    HEAD_SNIPPET,
    SECONDS,
    Fetchers,
    Objects,
    Wanted,
)
from scripts.loaders._torch import Batch, epochs_of_opened
from scripts.machine.objects import bucket_of

SNIPPET = (
    HEAD_SNIPPET
    + """\
from obstore.store import S3Store
    def open(self):  # obstore does not survive a fork
        self.client = S3Store(
            index["bucket"],
            region=index["region"],
            virtual_hosted_style_request=not index["path_style"],
            client_options={"allow_http": True},
            **({"endpoint": endpoint} if endpoint else {}),
        )
        self.pool = ThreadPoolExecutor($in_flight)

    def fetch(self, position, row):
        key, first = place(position)
        body = self.client.get_range(key, start=first, length=row.nbytes)
        row[...] = np.frombuffer(body, dtype=np.$dtype).reshape(shape)
"""
    + BATCH_SNIPPET
)


class Items(Objects):
    """The items, by a store and threads in each process."""

    def open(self) -> Fetchers:
        """Return a store with its threads."""
        from datetime import timedelta

        from obstore.exceptions import GenericError
        from obstore.store import S3Store

        bucket = bucket_of(self.request.location)
        timeouts = {"connect_timeout": timedelta(seconds=SECONDS), "timeout": timedelta(seconds=SECONDS)}
        store = S3Store(
            bucket.name,
            endpoint=bucket.endpoint,
            region=bucket.region,
            access_key_id=bucket.who.access_key,
            secret_access_key=bucket.who.secret_key,
            virtual_hosted_style_request=not bucket.path_style,
            client_options={"allow_http": bucket.endpoint.startswith("http:"), **timeouts},
            retry_config={"max_retries": ATTEMPTS - 1},
            **({"session_token": bucket.who.token} if bucket.who.token else {}),
        )

        def fetch(wanted: Wanted, row: Any) -> None:
            found = store.get(wanted.key, options={"range": (wanted.first, wanted.first + wanted.bytes)})
            first, stop = found.range
            wanted.check(found.meta["e_tag"] or "", stop - first)
            content = memoryview(found.bytes())
            if len(content) != len(row):
                raise EOFError(f"a body that ends after {len(content)} of {len(row)} bytes")
            row[:] = content

        return Fetchers(self.request.options["in_flight"], fetch, (GenericError, OSError))


def open_epochs(request: LoaderRequest) -> AbstractContextManager[Callable[[int], Iterator[Batch]]]:
    """Return what opens the epoch function over the objects of a split, or ranges of the one that holds all items."""
    return epochs_of_opened(request, Items(request))
