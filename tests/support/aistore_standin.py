"""What AIStore's SDK asks of a cluster to read, on loopback: a proxy, which redirects, and one target, in this process.

GET and HEAD /v1/objects/BUCKET/NAME with Range, and GET /v1/ml/moss/BUCKET (GetBatch): a TAR in the order that is asked
for, where an absent object is an empty member below __404__. The objects are those of a stand-in for S3. It is not
AIStore: it proves that a program uses the SDK as it must, and says nothing of AIStore's speed.
"""

import io
import json
import os
import tarfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from scripts.machine.object_protocol import Handler, ObjectServer


class Target(Handler):
    """What holds the objects."""

    def answer(self) -> None:
        """Answer the requests of a reader."""
        kind, _, rest = self.key.partition("/")
        if kind == "objects":
            self.bucket, _, self.key = rest.partition("/")
            self.get()
        elif self.key.startswith("ml/moss"):
            self._batch(self.key.removeprefix("ml/moss").strip("/"))
        else:
            self._unknown()

    def _batch(self, bucket: str) -> None:
        asked, archive = json.loads(b"".join(self._body())), io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w", format=tarfile.GNU_FORMAT) as tar:
            for one in asked["in"]:
                name, found = one["objname"], self.server.store.open(one.get("bucket") or bucket, one["objname"])
                content = b""
                if found:
                    with os.fdopen(found[1], "rb") as file:
                        content = file.read()
                member = tarfile.TarInfo(name if found else f"__404__/{name}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        self.head(200, len(archive.getvalue()), {"Content-Type": "application/x-tar"})
        self.wfile.write(archive.getvalue())


class Proxy(Handler):
    """What knows where the objects are."""

    def answer(self) -> None:
        """Send the request on to the target."""
        query = "&".join(f"{name}={value}" for name, value in self.query.items())
        where = f"{self.server.target}/{self.bucket}/{self.key}{f'?{query}' if query else ''}"
        self.reply(307, "", {"Location": where})


@contextmanager
def aistore(root: Path) -> Iterator[str]:
    """Serve the objects in a folder; the block gets the proxy's endpoint."""
    with ExitStack() as stack:
        target, proxy = (stack.enter_context(ObjectServer(root, handler=kind)) for kind in (Target, Proxy))
        proxy.target = target.endpoint
        for server in (target, proxy):
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
        yield proxy.endpoint
