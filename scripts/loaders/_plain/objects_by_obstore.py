"""obstore's client for items in object storage: Rust makes the requests, without Python's lock.

Its runtime does not survive a fork: a process that has used it can have no workers any more, and workers open it
themselves. So nothing is read before they are started, and leaving out the transfer is no stage of its loaders.
"""

from datetime import timedelta

from obstore.exceptions import GenericError
from obstore.store import S3Store

from scripts.loaders._plain.objects import ATTEMPTS, SECONDS, Fetchers, copy_into


class Store(Fetchers):
    """A store of obstore's with its threads; credentials are in the environment."""

    transient = (EOFError, OSError, GenericError)

    def __init__(self, split, threads):
        super().__init__(threads)
        limit = timedelta(seconds=SECONDS)
        self.store = S3Store(
            split.name,
            region=split.region,
            virtual_hosted_style_request=not split.path_style,
            client_options={"allow_http": True, "connect_timeout": limit, "timeout": limit},
            retry_config={"max_retries": ATTEMPTS - 1},
            **({"endpoint": split.endpoint} if split.endpoint else {}),
        )

    def fetch(self, part, row):
        found = self.store.get(part.key, options={"range": (part.first, part.first + part.length)})
        first, stop = found.range
        part.check(found.meta["e_tag"] or "", stop - first)
        copy_into(row, memoryview(found.bytes()))
