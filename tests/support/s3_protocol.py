"""The part of S3's protocol that the stand-in for object storage speaks.

Path style: GET with Range and If-Match, HEAD, PUT, DELETE, uploads in parts, ListObjectsV2 in pages. It checks no
signatures, and listens on loopback only.
https://docs.aws.amazon.com/AmazonS3/latest/API/
"""

import base64
import hashlib
import re
import secrets
import socketserver
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.support.s3_store import Store, md5_of

PAGE = 1000  # keys of a list, at most
XML = '<?xml version="1.0" encoding="UTF-8"?>\n'
NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


class Refused(Exception):
    """A request that gets an error for an answer."""

    def __init__(self, status: int, code: str, **headers: str) -> None:
        super().__init__(code)
        self.status, self.code, self.headers = status, code, headers


class Handler(BaseHTTPRequestHandler):
    """One connection: its requests one after the other."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: "ObjectServer"

    def do_GET(self) -> None:
        """Answer one request, of any method."""
        parts, length = urlsplit(self.path), int(self.headers.get("content-length", 0))
        self.query = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.bucket, _, self.key = unquote(parts.path)[1:].partition("/")
        self.body = self.rfile.read(length)
        if len(self.body) < length:
            raise ConnectionResetError("a request that ends early")
        try:
            self.answer()
        except Refused as error:
            self.reply(error.status, f"<Error><Code>{error.code}</Code></Error>", error.headers)

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    def log_message(self, *_: Any) -> None:
        """Say nothing of requests."""

    def answer(self) -> None:
        """Answer the request. Raises Refused."""
        name = f"{self.command} {'object' if self.key else 'bucket'}"
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
        found = self.server.store.find(self.bucket, self.key)
        if found is None:
            raise Refused(404, "NoSuchKey")
        if self.headers.get("if-match", "*").strip('"') not in ("*", found.etag):
            raise Refused(412, "PreconditionFailed")
        start, stop = self._range(found.size)
        part = "range" in self.headers
        headers = {
            "ETag": f'"{found.etag}"',
            "Last-Modified": self.date_time_string(found.changed),
            "Accept-Ranges": "bytes",
            "Content-Type": "application/octet-stream",
            **({"Content-Range": f"bytes {start}-{stop - 1}/{found.size}"} if part else {}),
        }
        self.head(206 if part else 200, stop - start, headers)
        if self.command == "GET":
            self.send_bytes(found.content[start:stop])

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

    def send_bytes(self, content: bytes) -> None:
        """Send bytes of an object."""
        self.wfile.write(content)

    def _put(self) -> None:
        if not self.server.store.has_bucket(self.bucket):
            raise Refused(404, "NoSuchBucket")
        if "aws-chunked" in self.headers.get("content-encoding", "") or "transfer-encoding" in self.headers:
            raise Refused(501, "NotImplemented")
        signed = self.headers.get("x-amz-content-sha256", "")
        if re.fullmatch("[0-9a-f]{64}", signed) and signed != hashlib.sha256(self.body).hexdigest():
            raise Refused(400, "XAmzContentSHA256Mismatch")
        if "uploadId" in self.query:
            self.server.uploads[self.query["uploadId"]][int(self.query["partNumber"])] = self.body
            etag = md5_of(self.body)
        else:
            etag = self.server.store.put(self.bucket, self.key, self.body)
        self.reply(200, "", {"ETag": f'"{etag}"'})

    def _parts(self) -> None:
        """Begin an upload in parts, or join them."""
        names = {"Bucket": self.bucket, "Key": self.key}
        if "uploads" in self.query:
            number = secrets.token_hex(16)
            self.server.uploads[number] = {}
            return self._xml("InitiateMultipartUploadResult", {**names, "UploadId": number})
        upload = self.server.uploads.pop(self.query["uploadId"])
        numbers = map(int, re.findall(rb"<PartNumber>(\d+)</PartNumber>", self.body))
        etag = self.server.store.join(self.bucket, self.key, [upload[number] for number in numbers])
        return self._xml("CompleteMultipartUploadResult", {**names, "ETag": f'"{etag}"'})

    def _delete(self) -> None:
        if "uploadId" in self.query:
            self.server.uploads.pop(self.query["uploadId"])
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
        self.send_response(status)
        for name, value in {"Content-Length": str(length), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def reply(self, status: int, body: str = "", headers: Mapping[str, str] | None = None) -> None:
        """Send an answer with a text as its body."""
        content = body.encode()
        self.head(status, len(content), {"Content-Type": "application/xml", **(headers or {})})
        if self.command != "HEAD" and content:
            self.wfile.write(content)


class ObjectServer(socketserver.ThreadingTCPServer):
    """A stand-in for object storage on a free port of loopback."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, root: Path, handler: type[Handler] = Handler) -> None:
        self.store = Store(root)
        self.uploads: dict[str, dict[int, bytes]] = {}  # their parts
        super().__init__(("127.0.0.1", 0), handler)

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away."""


def _iso(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(moment))
