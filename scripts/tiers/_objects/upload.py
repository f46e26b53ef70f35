"""Sends a format's files to a bucket, and leaves an index of them and the label arrays in a local folder.

What is there already, by size and hash, is not sent again: a placing that was killed goes on where it was.
"""

import base64
import hashlib
import shutil
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from scripts.common.errors import UserError
from scripts.common.files import whole_directory, write_json
from scripts.common.location import Location
from scripts.machine.bucket_client import Listed, client_of, listed
from scripts.machine.objects import INDEX, Bucket, StoredObject, bucket_and_prefix, bucket_of

AT_ONCE = 8  # uploads in flight
LARGEST = 1 << 30  # bytes that are sent by one request; more in parts
PART = 256 << 20
BLOCK = 1 << 20
SMALL = ("item.npy", "target.npy", "labels.npy")  # the label arrays, which a loader reads from the local folder
SMALL_ENDINGS = (".json", ".csv", ".txt")


@dataclass(frozen=True)
class Sizes:
    """How objects are cut into requests."""

    largest: int = LARGEST
    part: int = PART


class Local(NamedTuple):
    """A file that is to be an object, and what it is called and known by there."""

    path: Path
    split: str
    name: str  # below the split, the key of the index
    size: int
    sha256: str
    md5: str  # base64, of the whole
    etag: str  # what storage that does not encrypt makes of it


def upload(source: Path, location: Location, sizes: Sizes | None = None) -> None:
    """Send the files of each split, a folder of `source`, to a location that is served; write its local index, last.

    Each is verified. Objects below the location that are no files of `source` are deleted: they are of an earlier copy.
    Raises UserError where the storage refuses, or has other bytes than were sent.
    """
    sizes, bucket = sizes or Sizes(), bucket_of(location)
    _, prefix = bucket_and_prefix(location.uri)
    files = [(path, path.relative_to(source)) for path in sorted(source.glob("*/**/*")) if path.is_file()]
    with client_of(bucket, AT_ONCE) as client, ThreadPoolExecutor(AT_ONCE) as pool:
        there = {one.key: one for one in listed(client, bucket.name, f"{prefix}/")}

        def send(file: tuple[Path, Path]) -> tuple[Local, str]:
            path, below = file
            local = _local(path, below, sizes)
            key = f"{prefix}/{local.split}/{local.name}"
            if there.get(key) == Listed(key, local.size, local.etag):
                return local, local.etag
            return local, _sent(client, bucket.name, key, local, sizes)

        try:
            sent = list(pool.map(send, files))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        wanted = {f"{prefix}/{local.split}/{local.name}": (local.size, etag) for local, etag in sent}
        for key in there.keys() - wanted.keys():
            client.delete_object(Bucket=bucket.name, Key=key)
        found = {one.key: (one.size, one.etag) for one in listed(client, bucket.name, f"{prefix}/")}
    _compare(wanted, found, bucket)
    _write_index(source, location, sent)


def _local(path: Path, below: Path, sizes: Sizes) -> Local:
    """Return what a file is known by; `below` is its path below the format, that of its split first."""
    whole, sha256, parts, size = hashlib.md5(usedforsecurity=False), hashlib.sha256(), [], 0
    single = path.stat().st_size <= sizes.largest
    with open(path, "rb") as file:
        while block := file.read(BLOCK if single else sizes.part):
            size += len(block)
            whole.update(block)
            sha256.update(block)
            if not single:
                parts.append(hashlib.md5(block, usedforsecurity=False).digest())
    joined = hashlib.md5(b"".join(parts), usedforsecurity=False).hexdigest()
    etag = whole.hexdigest() if single else f"{joined}-{len(parts)}"
    md5 = base64.b64encode(whole.digest()).decode()
    return Local(path, below.parts[0], "/".join(below.parts[1:]), size, sha256.hexdigest(), md5, etag)


def _sent(client: Any, bucket: str, key: str, local: Local, sizes: Sizes) -> str:
    """Send one file and return the ETag that it got, once that or the bytes say that all of it is there."""
    if local.size <= sizes.largest:
        with open(local.path, "rb") as file:
            answer = client.put_object(Bucket=bucket, Key=key, Body=file, ContentMD5=local.md5)
    else:
        from boto3.s3.transfer import TransferConfig

        how = TransferConfig(multipart_threshold=sizes.part, multipart_chunksize=sizes.part, use_threads=False)
        client.upload_file(str(local.path), bucket, key, Config=how)
        answer = client.head_object(Bucket=bucket, Key=key)
    etag = answer["ETag"].strip('"')
    if etag != local.etag:  # storage that encrypts has ETags of its own: the bytes say what is there
        digest = hashlib.sha256()
        for block in client.get_object(Bucket=bucket, Key=key)["Body"].iter_chunks(BLOCK):
            digest.update(block)
        if digest.hexdigest() != local.sha256:
            raise UserError(
                f"object s3://{bucket}/{key}: found other bytes than were sent; allowed is storage that keeps them. "
                "Type the same command again."
            )
    return etag


def _compare(wanted: Mapping[str, Any], found: Mapping[str, Any], bucket: Bucket) -> None:
    """Raise UserError where the bucket does not list what was sent."""
    wrong = sorted(key for key in wanted.keys() | found.keys() if wanted.get(key) != found.get(key))
    if wrong:
        raise UserError(
            f"bucket {bucket.name}: found {len(wrong)} objects that are not as they were sent, such as {wrong[0]!r}; "
            "allowed is a prefix that nothing else writes below. Type the same command again."
        )


def _write_index(source: Path, location: Location, sent: Iterable[tuple[Local, str]]) -> None:
    """Write the local folder: for each split the index, and the files that a loader reads beside the audio."""
    sent = list(sent)
    location.index.parent.mkdir(parents=True, exist_ok=True)
    with whole_directory(location.index) as aside:
        for split in sorted(path.name for path in source.iterdir() if path.is_dir()):
            of_split = [(local, etag) for local, etag in sent if local.split == split]
            folder, place = aside / split, location.split(split)
            folder.mkdir()
            for local, _ in of_split:
                if local.name in SMALL or local.name.endswith(SMALL_ENDINGS):
                    (folder / local.name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(local.path, folder / local.name)
            bucket, prefix = bucket_and_prefix(place.uri)
            objects = [StoredObject(local.name, local.size, etag, local.sha256)._asdict() for local, etag in of_split]
            write_json(
                folder / INDEX,  # a format's own index of this name is in the bucket
                {
                    **{"bucket": bucket, "prefix": prefix, "objects": objects, "region": location.region},
                    **{"path_style": location.path_style, "format": source.name},
                },
            )
