"""The part of S3's protocol that the stand-in for object storage speaks.

Path style: GET with Range and If-Match, HEAD, PUT, DELETE, uploads in parts, ListObjectsV2 in pages. It checks no
signatures, and listens on loopback only.
https://docs.aws.amazon.com/AmazonS3/latest/API/
"""

import base64
import contextlib
import os
import re
import secrets
import socketserver
import time
from collections.abc import Iterator, Mapping
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.support.s3_store import HEAD, ROUND, Entry, Store

PAGE = 1000  # keys of a list, at most
REASONS = {200: "OK", 204: "No Content", 206: "Partial Content"}
XML = '<?xml version="1.0" encoding="UTF-8"?>\n'
NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


class Refused(Exception):
    """A request that gets an error for an answer."""

    def __init__(self, status: int, code: str, **headers: str) -> None:
        super().__init__(code)
        self.status, self.code, self.headers = status, code, headers


class Handler(socketserver.StreamRequestHandler):
    """One connection: its requests one after the other."""

    disable_nagle_algorithm = True
    server: "ObjectServer"

    def handle(self) -> None:
        """Answer until the client closes the connection."""
        with contextlib.suppress(ConnectionError):
            while self._one():
                pass

    def _one(self) -> bool:
        """Answer one request; return whether another one may follow."""
        first = self.rfile.readline(64 * 1024).decode("latin-1").split()
        if len(first) != 3:
            return False
        self.method, target, _ = first
        self.headers: dict[str, str] = {}
        while (line := self.rfile.readline(64 * 1024).decode("latin-1").strip()) != "":
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        parts = urlsplit(target)
        self.query = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.bucket, _, self.key = unquote(parts.path)[1:].partition("/")
        self.left = int(self.headers.get("content-length", 0))
        if self.headers.get("expect", "").lower() == "100-continue":
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            self.answer()
        except Refused as error:
            self._drain()
            self.reply(error.status, f"<Error><Code>{error.code}</Code></Error>", error.headers)
        self._drain()
        return self.headers.get("connection", "").lower() != "close"

    def answer(self) -> None:
        """Answer the request. Raises Refused."""
        name = f"{self.method} {'object' if self.key else 'bucket'}"
        {
            "GET bucket": self._list,
            "HEAD bucket": self._has_bucket,
            "PUT bucket": self._make_bucket,
            "GET object": self.get,
            "HEAD object": self.get,
            "PUT object": self._put,
            "POST object": self._parts,
            "DELETE object": self._delete,
        }.get(name, self._unknown)()

    def _unknown(self) -> None:
        raise Refused(501, "NotImplemented")

    def _has_bucket(self) -> None:
        if not self.server.store.has_bucket(self.bucket):
            raise Refused(404, "NoSuchBucket")
        self.reply(200)

    def _make_bucket(self) -> None:
        self.server.store.make_bucket(self.bucket)
        self.reply(200)

    def get(self) -> None:
        """Answer with an object, or the part of it that a Range asks for."""
        found = self.server.store.open(self.bucket, self.key)
        if found is None:
            raise Refused(404, "NoSuchKey")
        entry, file = found
        try:
            wanted = self.headers.get("if-match", "*").strip('"')
            if wanted not in ("*", entry.etag):
                raise Refused(412, "PreconditionFailed")
            start, stop = self._range(entry.size)
            self.send(entry, file, start, stop)
        finally:
            os.close(file)

    def _range(self, size: int) -> tuple[int, int]:
        """Return the first byte that is asked for and the one behind the last."""
        found = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("range", ""))
        if not found or not any(found.groups()):
            return 0, size
        first, last = found.groups()
        start = int(first) if first else max(0, size - int(last))
        stop = min(int(last) + 1, size) if first and last else size
        if start >= stop:
            raise Refused(416, "InvalidRange")
        return start, stop

    def send(self, entry: Entry, file: int, start: int, stop: int) -> None:
        """Send an object's head and, unless only that is asked for, its bytes."""
        part = "range" in self.headers
        headers = {
            "ETag": f'"{entry.etag}"',
            "Last-Modified": formatdate(entry.changed, usegmt=True),
            "Accept-Ranges": "bytes",
            "Content-Type": "application/octet-stream",
            **({"Content-Range": f"bytes {start}-{stop - 1}/{entry.size}"} if part else {}),
        }
        self.head(206 if part else 200, stop - start, headers)
        if self.method == "GET":
            self.send_bytes(file, start, stop)

    def send_bytes(self, file: int, start: int, stop: int) -> None:
        """Send bytes of an object."""
        while start < stop:
            start += os.sendfile(self.connection.fileno(), file, HEAD + start, stop - start)

    def _put(self) -> None:
        if not self.server.store.has_bucket(self.bucket):
            raise Refused(404, "NoSuchBucket")
        if "aws-chunked" in self.headers.get("content-encoding", "") or "transfer-encoding" in self.headers:
            raise Refused(501, "NotImplemented")
        part = self.server.store.receive(self._body())
        try:
            self._compare(part)
            if "uploadId" in self.query:
                upload = self.server.uploads.get(self.query["uploadId"])
                if upload is None:
                    raise Refused(404, "NoSuchUpload")
                upload[int(self.query["partNumber"])] = part
                etag = part.md5.hex()
            else:
                etag = self.server.store.put(self.bucket, self.key, part).etag
        except BaseException:
            part.path.unlink(missing_ok=True)
            raise
        self.reply(200, "", {"ETag": f'"{etag}"'})

    def _compare(self, part: Any) -> None:
        """Raise Refused where what came is not what was sent."""
        wanted = self.headers.get("content-md5")
        if wanted and base64.b64decode(wanted) != part.md5:
            raise Refused(400, "BadDigest")
        signed = self.headers.get("x-amz-content-sha256", "")
        if re.fullmatch("[0-9a-f]{64}", signed) and signed != part.sha256:
            raise Refused(400, "XAmzContentSHA256Mismatch")

    def _parts(self) -> None:
        """Begin an upload in parts, or join them."""
        if "uploads" in self.query:
            number = secrets.token_hex(16)
            self.server.uploads[number] = {}
            names = {"Bucket": self.bucket, "Key": self.key, "UploadId": number}
            return self._xml("InitiateMultipartUploadResult", names)
        upload = self.server.uploads.pop(self.query.get("uploadId", ""), None)
        if upload is None:
            raise Refused(404, "NoSuchUpload")
        body = b"".join(self._body())
        numbers = [int(found) for found in re.findall(rb"<PartNumber>(\d+)</PartNumber>", body)]
        entry = self.server.store.join(self.bucket, self.key, [upload[number] for number in numbers])
        return self._xml(
            "CompleteMultipartUploadResult", {"Bucket": self.bucket, "Key": self.key, "ETag": f'"{entry.etag}"'}
        )

    def _delete(self) -> None:
        if "uploadId" in self.query:
            for part in self.server.uploads.pop(self.query["uploadId"], {}).values():
                part.path.unlink(missing_ok=True)
        else:
            self.server.store.delete(self.bucket, self.key)
        self.reply(204)

    def _list(self) -> None:
        """Answer with a page of keys (ListObjectsV2)."""
        if self.query.get("list-type") != "2" or self.query.get("delimiter"):
            raise Refused(501, "NotImplemented")
        if not self.server.store.has_bucket(self.bucket):
            raise Refused(404, "NoSuchBucket")
        prefix, most = self.query.get("prefix", ""), min(PAGE, int(self.query.get("max-keys", PAGE)))
        token = self.query.get("continuation-token")
        after = base64.urlsafe_b64decode(token).decode() if token else self.query.get("start-after", "")
        found = self.server.store.listed(self.bucket, prefix, after, most + 1)
        page, more = found[:most], len(found) > most
        shown = quote if self.query.get("encoding-type") == "url" else str
        names = {"Name": self.bucket, "Prefix": shown(prefix), "KeyCount": len(page), "MaxKeys": most}
        names |= {"EncodingType": "url"} if shown is quote else {}
        names |= {"IsTruncated": str(more).lower()}
        if more:
            names["NextContinuationToken"] = base64.urlsafe_b64encode(page[-1].key.encode()).decode()
        contents = (
            f"<Contents><Key>{escape(shown(one.key))}</Key><LastModified>{_iso(one.changed)}</LastModified>"
            f"<ETag>&quot;{one.etag}&quot;</ETag><Size>{one.size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
            for one in page
        )
        self._xml("ListBucketResult", names, "".join(contents))

    def _xml(self, root: str, names: Mapping[str, Any], more: str = "") -> None:
        inside = "".join(f"<{name}>{escape(str(value))}</{name}>" for name, value in names.items())
        self.reply(200, f"{XML}<{root} {NAMESPACE}>{inside}{more}</{root}>")

    def head(self, status: int, length: int, headers: Mapping[str, str]) -> None:
        """Send the head of an answer."""
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Error')}", f"Content-Length: {length}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.wfile.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    def reply(self, status: int, body: str = "", headers: Mapping[str, str] | None = None) -> None:
        """Send an answer with a text as its body."""
        content = body.encode()
        self.head(status, len(content), {"Content-Type": "application/xml", **(headers or {})})
        if self.method != "HEAD" and content:
            self.wfile.write(content)

    def _body(self) -> Iterator[bytes]:
        """Yield the request's body."""
        while self.left:
            round_number = self.rfile.read(min(self.left, ROUND))
            if not round_number:
                raise ConnectionResetError("a request that ends early")
            self.left -= len(round_number)
            yield round_number

    def _drain(self) -> None:
        for _ in self._body():
            pass


class ObjectServer(socketserver.ThreadingTCPServer):
    """A stand-in for object storage on a free port of loopback."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, root: Path, handler: type[Handler] = Handler) -> None:
        self.store = Store(root)
        self.uploads: dict[str, dict[int, Any]] = {}
        super().__init__(("127.0.0.1", 0), handler)

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away."""


def _iso(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(moment))
