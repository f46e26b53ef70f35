"""Object storage for tests: the stand-in in this process, with formats placed in it, and faults planted on demand."""

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from scripts.common.location import Location
from scripts.machine.bucket_client import client_of, make_bucket
from scripts.machine.objects import bucket_of
from scripts.machine.signing import made_up
from scripts.tiers._objects.upload import upload
from tests.support.aistore_standin import aistore
from tests.support.object_faults import FaultyServer
from tests.support.s3_store import Store

BUCKET = "feedrate-tests"


class PlantedServer(FaultyServer):
    """The stand-in with what is planted: a file for a key, in each line a fault of `Faulty`, used up by requests."""

    def __init__(self, root: Path) -> None:
        self.faults = root / "faults"
        self.faults.mkdir(parents=True)
        super().__init__(root)
        self.plan = self.next_fault

    def next_fault(self, key: str, _number: int) -> str:
        """Return the fault that a request for a key gets, an empty string for none."""
        file = self.faults / quote(key, safe="")
        first, _, rest = (file.read_text() if file.exists() else "").partition("\n")
        if first:
            file.write_text(rest)
        return first


class ObjectStore:
    """A bucket of a stand-in that is being served."""

    def __init__(self, server: PlantedServer, aistore: str, folder: Path) -> None:
        self.server, self.aistore, self.folder = server, aistore, folder
        self.prefix = "kept"

    def location(self, name: str) -> Location:
        """Return where the copy of this name is."""
        return Location(
            f"s3://{BUCKET}/{self.prefix}/{name}",
            index=self.folder / "index" / name,
            endpoint=self.server.endpoint,
            region="us-east-1",
            path_style=True,
        )

    def place(self, source: Path, name: str) -> Location:
        """Send a folder of splits, the first time that it is asked for; return where it is."""
        location = self.location(name)
        if not location.index.exists():
            upload(source, location)
        return location

    def as_aistore(self, location: Location) -> Location:
        """Return where the same objects are for AIStore's SDK."""
        return replace(location, uri=location.uri.replace("s3:", "ais:", 1), endpoint=self.aistore)

    def key(self, location: Location, name: str) -> str:
        """Return the whole key of an object of a split."""
        return f"{location.uri.partition(f'://{BUCKET}/')[2]}/{name}"

    def plant(self, key: str, *faults: str) -> None:
        """Let the next answers for a key be these, and then the object again; also from a fork."""
        (self.server.faults / quote(key, safe="")).write_text("\n".join(faults))

    def planted(self, key: str) -> str:
        """Return what is planted for a key and has not happened yet."""
        return (self.server.faults / quote(key, safe="")).read_text()

    def replace(self, key: str) -> None:
        """Put another object of the same length in its place; also from a fork."""
        store = Store(self.folder / "data")
        store.put(BUCKET, key, bytes(byte ^ 1 for byte in store.find(BUCKET, key).content))

    def delete(self, key: str) -> None:
        """Delete an object; also from a fork."""
        Store(self.folder / "data").delete(BUCKET, key)


def object_store_if_installed(folder: Path) -> AbstractContextManager[ObjectStore | None]:
    """Return a bucket as `object_store` has it; None without boto3, as after `make gpu`, which tests nothing of it."""
    return object_store(folder) if find_spec("boto3") else nullcontext()


@contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    """Serve a bucket, whose data and indexes are in a folder, and have credentials for it in the environment."""
    with PlantedServer(folder / "data") as server, aistore(folder / "data", server.plan) as proxy, made_up():
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        store = ObjectStore(server, proxy, folder)
        bucket = bucket_of(store.location("none"))
        with client_of(bucket) as client:
            make_bucket(client, bucket.name)
        try:
            yield store
        finally:
            server.shutdown()
            thread.join()
            _wait_for_connections()


def _wait_for_connections() -> None:
    """Give the threads of connections that clients have closed a moment to end."""
    until = time.monotonic() + 2
    while time.monotonic() < until and any("process_request" in thread.name for thread in threading.enumerate()):
        time.sleep(0.02)
