"""What AIStore's SDK asks of a cluster to read, on loopback: a proxy, which redirects, and one target, in this process.

GET and HEAD /v1/objects/BUCKET/NAME with Range, and GET /v1/ml/moss/BUCKET (GetBatch): a TAR in the order that is asked
for, where an absent object is an empty member below __404__. The objects are those of a stand-in for S3. It is not
AIStore: it proves that a program uses the SDK as it must, and says nothing of AIStore's speed. Faults can be planted as
in the stand-in for S3; one of an object in a batch is of the whole answer.
"""

import io
import json
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import quote, urlencode

from tests.support.object_faults import Faulty, FaultyServer
from tests.support.s3_protocol import Handler, ObjectServer


class Target(Faulty):
    """What holds the objects."""

    server: FaultyServer

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
        asked, archive = json.loads(self.body), io.BytesIO()
        planted = [fault for one in asked["in"] if (fault := self.server.plan(one["objname"], 0))]
        if planted and planted[0] not in ("truncated", "wrong_length", "slow"):
            getattr(self, planted[0])()
        with tarfile.open(fileobj=archive, mode="w", format=tarfile.GNU_FORMAT) as tar:
            for one in asked["in"]:
                name, store, inside = one["objname"], self.server.store, one.get("bucket") or bucket
                found = store.find(inside, name)
                content = found.content if found else b""
                member = tarfile.TarInfo(name if found else f"__404__/{name}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        content = archive.getvalue()
        if "wrong_length" in planted:
            content = content[: len(content) // 2]
        self.head(200, len(content), {"Content-Type": "application/x-tar"})
        if "truncated" in planted:
            self.wfile.write(content[: len(content) // 2])
            raise ConnectionResetError
        step = -(-len(content) // 5) if "slow" in planted else len(content)
        for start in range(0, len(content), step):
            self.wfile.write(content[start : start + step])
            time.sleep(0.05 if "slow" in planted else 0)


class Proxy(Handler):
    """What knows where the objects are."""

    def answer(self) -> None:
        """Send the request on to the target."""
        query = f"?{urlencode(self.query)}" if self.query else ""
        where = f"{self.server.target}/{self.bucket}/{quote(self.key)}{query}"
        self.reply(307, "", {"Location": where})


@contextmanager
def aistore(root: Path, plan: Callable[[str, int], str] = lambda _key, _number: "") -> Iterator[str]:
    """Serve the objects in a folder; the block gets the proxy's endpoint. `plan`: as that of `FaultyServer`."""
    with ExitStack() as stack:
        target = stack.enter_context(FaultyServer(root, handler=Target))
        target.plan = plan
        proxy = stack.enter_context(ObjectServer(root, handler=Proxy))
        proxy.target = target.endpoint
        for server in (target, proxy):
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
        yield proxy.endpoint
