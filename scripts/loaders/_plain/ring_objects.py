"""A ring that is filled from a bucket: threads with a connection each, whose requests stay in flight."""

import re
import time
from functools import lru_cache, partial
from http.client import HTTPConnection, HTTPSConnection
from urllib.parse import quote, urlsplit

import boto3
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest

from scripts.loaders._plain.labels import read_labels
from scripts.loaders._plain.objects import SECONDS, Split, read_into, tried
from scripts.loaders._plain.ring import over_items

VALID_SECONDS = 3600  # of a signature, which is used for half of that
FOR_NOW = (429, 500, 502, 503, 504)  # answers after which an item is asked for again


class Requests:
    """Signed requests for parts of objects, and where to send them."""

    def __init__(self, split):
        self.split, url = split, urlsplit(split.endpoint or f"https://s3.{split.region}.amazonaws.com")
        secure = url.scheme == "https"
        host = url.netloc.lower().removesuffix(":443" if secure else ":80")
        self.host = host if split.path_style else f"{split.name}.{host}"  # as it is signed
        self.address = self.host if secure else url.netloc
        self.kind, self.origin = HTTPSConnection if secure else HTTPConnection, f"{url.scheme}://{self.host}"
        self.credentials = boto3.Session().get_credentials()
        self.target = lru_cache(1 << 16)(self.signed)  # to sign takes longer than all else that a read takes of a CPU

    def signed(self, key, _period):
        """Return the path and query of a request for an object."""
        path = quote(f"/{self.split.name}/{key}" if self.split.path_style else f"/{key}")
        request = AWSRequest("GET", f"{self.origin}{path}")
        S3SigV4QueryAuth(self.credentials, "s3", self.split.region, VALID_SECONDS).add_auth(request)
        return request.url.removeprefix(self.origin)

    def get(self, part):
        """Return the request for a part."""
        target = self.target(part.key, int(2 * time.time() // VALID_SECONDS))
        return f"GET {target} HTTP/1.1\r\nHost: {self.host}\r\nRange: {part.range}\r\n\r\n".encode()


class Connection:
    """Reads items over a connection of its own, in a thread of the ring, each straight into its row.

    It parses answers itself: `http.client` takes three times as long for it, since it reads their heads as mail.
    """

    def __init__(self, split, requests):
        self.split, self.requests = split, requests
        self.link, self.head = None, memoryview(bytearray(16 * 1024))

    def read_into(self, position, row):
        part, row = self.split.part(position), memoryview(row).cast("B")
        tried(lambda: self.fetch(part, row), part, (EOFError, OSError))

    def fetch(self, part, row):
        """Fill a row; an answer that is not read to its end ends the connection."""
        try:
            self.receive(part, row)
        except BaseException:
            self.close()
            raise

    def receive(self, part, row):
        if self.link is None:
            self.link = self.requests.kind(self.requests.address, timeout=SECONDS)
            self.link.connect()
        receive_into = self.link.sock.recv_into
        self.link.sock.sendall(self.requests.get(part))
        came, end = 0, -1
        while end < 0:
            size = receive_into(self.head[came:])
            if not size:
                raise EOFError("a connection that was closed")
            came += size
            end = self.head.obj.find(b"\r\n\r\n", 0, came)
        first, *lines = bytes(self.head[:end]).decode("latin-1").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        status, length = int(first.split()[1]), int(fields.get("content-length", 0))
        if status in (200, 206):
            part.check(fields.get("etag", ""), length)
        else:
            row = memoryview(bytearray(length))  # what is wrong
        done = min(came - end - 4, len(row))
        row[:done] = self.head[end + 4 : end + 4 + done]
        read_into(row[done:], receive_into)
        if status not in (200, 206):
            code = re.search(rb"<Code>\w{1,64}</Code>", row) or [b""]
            raise (OSError if status in FOR_NOW else ValueError)(f"status {status} {code[0].decode()}")
        if fields.get("connection", "").lower() == "close":
            self.close()

    def close(self):
        if self.link is not None:
            self.link.close()
            self.link = None


def over_bucket(data, key, shape, dtype, batch_size, seed, order, **how):
    """Return a loader over the items of a bucket, of which `in_flight` are asked for at a time."""
    split = Split(data, key, shape, dtype)
    requests = Requests(split)
    connect = partial(Connection, split, requests)
    return over_items(connect, read_labels(data), key, seed, order, shape, dtype, batch_size, **how)
