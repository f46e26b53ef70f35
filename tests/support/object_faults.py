"""A stand-in for object storage with planted faults, in this process, and a location that it serves."""

import hashlib
import json
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from scripts.common.location import Location
from scripts.machine import signing
from scripts.machine.objects import StoredObject
from tests.support.s3_protocol import Handler, ObjectServer, Refused

BUCKET = "feedrate"


class Faulty(Handler):
    """Answers GETs of objects as `server.plan(key, number)` says: by a fault's name, or None for a right answer."""

    server: "FaultyServer"

    def get(self) -> None:
        if self.command == "HEAD":
            return super().get()
        with self.server.lock:
            number = self.server.asked[self.key]
            self.server.asked[self.key] += 1
            fault = self.server.plan(self.key, number)
        return getattr(self, fault)() if fault else super().get()

    def internal(self):
        raise Refused(500, "InternalError")

    def slow_down(self):
        raise Refused(503, "SlowDown", Retry_After="0")

    def retry_after(self):
        raise Refused(503, "ServiceUnavailable", Retry_After="1")

    def forbidden(self):
        raise Refused(403, "AccessDenied")

    def expired(self):
        raise Refused(400, "ExpiredToken")

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise ConnectionResetError

    def truncated(self):
        self._sending(lambda content: self.wfile.write(content[: len(content) // 2]))
        raise ConnectionResetError

    def slow(self):
        self._sending(lambda content: self._in_parts(content, -(-len(content) // 5) or 1, 0.05))

    def dribble(self):
        self._sending(lambda content: self._in_parts(content, 1, 0.02))

    def _sending(self, send):
        self.send_bytes = send
        try:
            super().get()
        finally:
            del self.send_bytes

    def _in_parts(self, content, step, seconds):
        for start in range(0, len(content), step):
            self.wfile.write(content[start : start + step])
            time.sleep(seconds)

    def wrong_length(self):
        entry = self.server.store.find(self.bucket, self.key)
        self.head(206, entry.size - 10, {"ETag": f'"{entry.etag}"'})
        self.wfile.write(bytes(entry.size - 10))

    def silent(self):
        time.sleep(self.server.silence)
        raise ConnectionResetError


class FaultyServer(ObjectServer):
    """The stand-in, with a plan of faults."""

    def __init__(self, root: Path, handler: type[Faulty] = Faulty) -> None:
        super().__init__(root, handler=handler)
        self.plan = lambda _key, _number: None
        self.asked: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.silence = 5.0


@contextmanager
def faulty(root: Path) -> Iterator[FaultyServer]:
    """Serve a folder in threads of this process, with credentials in the environment."""
    names = {signing.KEY: "planted-key", signing.SECRET: "planted-secret"}
    with mock.patch.dict("os.environ", names), FaultyServer(root) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        server.store.make_bucket(BUCKET)
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def location_on(server: ObjectServer, prefix: str, index: Path | None = None) -> Location:
    """Return the location of what is below a prefix."""
    return Location(
        f"s3://{BUCKET}/{prefix}", index=index, endpoint=server.endpoint, region="us-east-1", path_style=True
    )


def filled(
    server: ObjectServer, prefix: str, contents: dict[str, bytes], folder: Path | None = None
) -> list[StoredObject]:
    """Put objects below a prefix and return them; write their index where a folder is given."""
    objects = []
    for key, content in contents.items():
        etag = server.store.put(BUCKET, f"{prefix}/{key}", content)
        objects.append(StoredObject(key, len(content), etag, hashlib.sha256(content).hexdigest()))
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        about = {"bucket": BUCKET, "prefix": prefix, "objects": [one._asdict() for one in objects]}
        about |= {"region": "us-east-1", "path_style": True, "format": "npy"}
        (folder / "index.json").write_text(json.dumps(about))
    return objects
