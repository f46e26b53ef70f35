"""Recordings that a JSON index names, in a bucket or below a folder: data sets of others, as they have them.

The index is a list of keys, or an object that has them as `files`; keys are relative to the bucket or the folder.
`feedrate index` makes one. Objects are brought into the store once; files stay where they are.
"""

import hashlib
import json
import os
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from scripts.common import plugins
from scripts.common.errors import UserError
from scripts.common.files import whole_file
from scripts.common.ledger import LedgerRow, SourceRequest
from scripts.sources._names import SHARDS, absolute, escape, is_ours, is_utf8

VERSION = 1
BLOCK = 1 << 20
DOWNLOADS = True
FETCH_OPTIONS = ("credentials", "profile")
KINDS = plugins.every_kind()  # files are files
OPTIONS = {
    "index": {"type": "string", "minLength": 1, "description": "JSON file: a list of keys, or {files: [...]}"},
    "folder": {
        "type": ["string", "null"],
        "minLength": 1,
        "default": None,
        "description": "the folder that keys are relative to; null: they are keys of `bucket`",
    },
    "bucket": {"type": ["string", "null"], "default": None, "description": "the bucket that holds the objects"},
    "endpoint": {
        "type": ["string", "null"],
        "pattern": "^https?://[^/@]+/?$",
        "default": None,
        "description": "such as https://storage.example; null: Amazon's",
    },
    "region": {"type": "string", "minLength": 1, "default": "us-east-1", "description": "that requests are signed for"},
    "credentials": {
        "type": ["string", "null"],
        "minLength": 1,
        "default": None,
        "description": "file of credentials, Amazon's form or JSON; null: those in the environment",
    },
    "profile": {"type": "string", "minLength": 1, "default": "default", "description": "the part of that file"},
    "shards": SHARDS,
}


def check(options: Mapping[str, Any]) -> None:
    """Raise UserError where the index, the folder or the credentials are absent, or it is not said where keys are."""
    if bool(options["folder"]) == bool(options["bucket"]):
        raise UserError(
            f"bucket: found {options['bucket']!r} with folder: {options['folder']!r}; allowed is one of the two, which "
            "the keys of the index are relative to. Write bucket: NAME, or folder: /path/to/audio."
        )
    for option in ("index", "credentials"):
        path = options[option]
        if path and not absolute(path).is_file():
            raise UserError(f"{option}: found {path!r}, which is not a file. Type the path of one that exists.")
    if options["folder"] and not absolute(options["folder"]).is_dir():
        raise UserError(
            f"folder: found {options['folder']!r}, which is not a folder. Type the one that keys are relative to."
        )


def inputs(options: Mapping[str, Any]) -> list[str]:
    """Return the index: a change of it makes the clips be looked for again."""
    return [str(absolute(options["index"]))]


def shards(options: Mapping[str, Any]) -> int:
    """Return the number of shards that the user asked for."""
    return options["shards"]


def fetch(request: SourceRequest) -> Iterator[LedgerRow]:
    """Yield a row per key of this shard. The label is the name of the folder that is the key's last but one part."""
    options = request.options
    check(options)
    keys = keys_of(absolute(options["index"]))
    ours = [key for key in keys if is_ours(_id(key), request)]
    with nullcontext(_beside(absolute(options["folder"]))) if options["folder"] else _objects(request) as get:
        for key in ours:
            yield _row(key, get)


def keys_of(index: Path) -> list[str]:
    """Return the keys that an index names, each once, in its order. Raises UserError for one of another form."""
    try:
        found = json.loads(index.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise UserError(f"index: found {str(index)!r}, which is not JSON in UTF-8 ({error}). Make it again.") from None
    keys = found.get("files") if isinstance(found, dict) else found
    if not isinstance(keys, list):
        kind = (
            f"an object with {', '.join(map(repr, list(found)[:5]))}" if isinstance(found, dict) else repr(found)[:60]
        )
        raise UserError(
            f"index: found {kind} in {str(index)!r}; allowed is a list of keys, or an object that has it as files. "
            "Make one: feedrate index --help"
        )
    wrong = next((number for number, key in enumerate(keys) if not isinstance(key, str) or not key), None)
    if wrong is not None:
        raise UserError(
            f"index: found {keys[wrong]!r} as entry {wrong} of {str(index)!r}; allowed is text, the key of an object "
            "or the path of a file. Make it again."
        )
    return list(dict.fromkeys(keys))


def _row(key: str, get: Callable[[str], dict[str, Any]]) -> LedgerRow:
    """Return the ledger row of one key; `get` brings what it names."""
    if not is_utf8(key):
        return LedgerRow(_id(key), "failed", "the key is not valid UTF-8")
    found = get(key)
    if "reason" in found:
        return LedgerRow(_id(key), **found)
    label = posixpath.basename(posixpath.dirname(key)) or "index"
    return LedgerRow(_id(key), "fetched", cut=True, labels=[label], **found)


def _id(key: str) -> str:
    """Return the id of a key: text that can be written, whatever the index holds."""
    return escape(key).encode("utf-8", "backslashreplace").decode()


def _beside(folder: Path) -> Callable[[str], dict[str, Any]]:
    """Return what finds a key below a local folder, which nothing is copied from."""

    def get(key: str) -> dict[str, Any]:
        path = os.path.normpath(os.path.join(folder, key))
        if not path.startswith(f"{folder}{os.sep}"):
            return {"status": "failed", "reason": "the key leads out of the folder"}
        if not os.path.isfile(path):
            return {"status": "unavailable", "reason": "the index names it, the folder does not hold it"}
        return {"path": path}

    return get


@contextmanager
def _objects(request: SourceRequest) -> Iterator[Callable[[str], dict[str, Any]]]:
    """Have what brings an object into the store, if it is not there, and returns its path, size and hash."""
    from botocore.exceptions import ClientError

    from scripts.machine.bucket_client import bucket_named, client_of, code_of

    options = request.options
    where = [options.get(name) or "" for name in ("endpoint", "region", "bucket")]

    def get(key: str) -> dict[str, Any]:
        digest = hashlib.sha256("/".join((*where, key)).encode()).hexdigest()
        ending = re.search(r"\.\w{1,8}$", key)
        relative = f"{digest[:2]}/{digest[:40]}{ending[0] if ending else ''}"
        path = request.store / relative
        if not path.is_file():
            try:
                body = client.get_object(Bucket=options["bucket"], Key=key)["Body"]
            except ClientError as error:
                if code_of(error) not in ("NoSuchKey", "404"):
                    raise
                return {"status": "unavailable", "reason": "the index names it, the bucket does not hold it"}
            with whole_file(path, "wb") as file:
                for block in body.iter_chunks(BLOCK):
                    file.write(block)
        with open(path, "rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        return {"path": relative, "bytes": path.stat().st_size, "sha256": content}

    with client_of(bucket_named(options)) as client:
        yield get
