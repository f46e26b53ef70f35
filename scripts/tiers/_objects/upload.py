"""Sends a format's files to a bucket, and leaves an index of them and the label arrays in a local folder.

What is there already, by size and hash, is not sent again: a placing that was killed goes on where it was.
"""

import hashlib
import shutil
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from scripts.common.errors import UserError
from scripts.common.files import whole_directory, write_json
from scripts.common.location import Location
from scripts.machine.bucket_client import Listed, client_of, listed
from scripts.machine.objects import INDEX, StoredObject, bucket_and_prefix, bucket_of

AT_ONCE = 8  # uploads in flight
LARGEST = 1 << 30  # bytes that are sent by one request; more in parts
PART = 256 << 20
BLOCK = 1 << 20
SMALL = ("item.npy", "target.npy", "labels.npy")  # the label arrays, which a loader reads from the local folder
SMALL_ENDINGS = (".json", ".csv", ".txt")


class Local(NamedTuple):
    """A file that is to be an object, and what it is called and known by there."""

    path: Path
    split: str
    name: str  # below the split, the key of the index
    size: int
    sha256: str
    etag: str  # what storage that does not encrypt makes of it


def upload(source: Path, location: Location) -> None:
    """Send the files of each split, a folder of `source`, to a location that is served; write its local index, last.

    Each is verified. Objects below the location that are no files of `source` are deleted: they are of an earlier copy.
    Raises UserError where the storage refuses, or has other bytes than were sent.
    """
    from boto3.s3.transfer import TransferConfig

    bucket, how = bucket_of(location), TransferConfig(LARGEST, multipart_chunksize=PART, use_threads=False)
    _, prefix = bucket_and_prefix(location.uri)
    files = [(path, path.relative_to(source)) for path in sorted(source.glob("*/**/*")) if path.is_file()]
    with client_of(bucket, AT_ONCE) as client, ThreadPoolExecutor(AT_ONCE) as pool:
        there = {one.key: one for one in listed(client, bucket.name, f"{prefix}/")}

        def send(file: tuple[Path, Path]) -> tuple[str, Local]:
            local = _local(*file)
            key = f"{prefix}/{local.split}/{local.name}"
            if there.get(key) != Listed(key, local.size, local.etag):
                client.upload_file(str(local.path), bucket.name, key, Config=how)
            return key, local

        try:
            sent = dict(pool.map(send, files))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        for key in there.keys() - sent.keys():
            client.delete_object(Bucket=bucket.name, Key=key)
        found = {one.key: one for one in listed(client, bucket.name, f"{prefix}/")}
        wrong = sorted(found.keys() - sent.keys())
        wrong += [key for key, local in sent.items() if not _is_whole(client, bucket.name, found.get(key), local)]
    if wrong:
        raise UserError(
            f"bucket {bucket.name}: found {len(wrong)} objects with other bytes than were sent, such as {wrong[0]!r}; "
            "allowed is storage that keeps them. Let nothing else write below the prefix. Type the same command again."
        )
    _write_index(source, location, [(local, found[key].etag) for key, local in sent.items()])


def _local(path: Path, below: Path) -> Local:
    """Return what a file is known by; `below` is its path below the format, that of its split first."""
    whole, sha256, parts, size = hashlib.md5(usedforsecurity=False), hashlib.sha256(), [], 0
    single = path.stat().st_size < LARGEST
    with open(path, "rb") as file:
        while block := file.read(BLOCK if single else PART):
            size += len(block)
            whole.update(block)
            sha256.update(block)
            if not single:
                parts.append(hashlib.md5(block, usedforsecurity=False).digest())
    joined = hashlib.md5(b"".join(parts), usedforsecurity=False).hexdigest()
    etag = whole.hexdigest() if single else f"{joined}-{len(parts)}"
    return Local(path, below.parts[0], "/".join(below.parts[1:]), size, sha256.hexdigest(), etag)


def _is_whole(client: Any, bucket: str, found: Listed | None, local: Local) -> bool:
    """Return whether an object is the file: by its ETag, else by its bytes, since storage that encrypts has others."""
    if found is None or found.size != local.size or found.etag == local.etag:
        return found is not None and found.size == local.size
    digest = hashlib.sha256()
    for block in client.get_object(Bucket=bucket, Key=found.key)["Body"].iter_chunks(BLOCK):
        digest.update(block)
    return digest.hexdigest() == local.sha256


def _write_index(source: Path, location: Location, sent: Collection[tuple[Local, str]]) -> None:
    """Write the local folder: for each split the index, and the files that a loader reads beside the audio."""
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
