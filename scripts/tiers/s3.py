"""Objects in a bucket: S3, or what speaks its protocol, here or far away.

Credentials are taken from the environment only. The local folder of a copy holds its index and the label arrays; the
bytes are the storage's. No epoch over it is cold: its caches are not this machine's.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scripts.common.errors import UserError
from scripts.common.files import tree_size
from scripts.common.location import Location
from scripts.common.serving import PROCESSES, TRAFFIC, reached, serving as served
from scripts.machine.copies import room_for
from scripts.machine.pacing import Emulated

VERSION = 1
EMULATED = ("latency_ms", "stream_mbps", "total_mbps")
NOT_EVICTED = "the data is in object storage, whose caches cannot be emptied from here"
BUCKET = "feedrate"  # of a server that feedrate starts
_RATE = {"type": "number", "minimum": 0, "default": 0}
_PRICE = {"type": ["number", "null"], "minimum": 0, "default": None}

OPTIONS = {
    "serve": {
        "enum": ["none", "seaweedfs"],
        "default": "none",
        "description": "what feedrate starts on this machine; none: storage of your own",
    },
    "endpoint": {
        "type": ["string", "null"],
        "default": None,
        "description": "such as https://storage.example; null: Amazon's, or the server that feedrate starts",
    },
    "bucket": {
        "type": ["string", "null"],
        "pattern": "^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$",
        "default": None,
        "description": "its name, 3 to 63 lower-case letters, digits, dots and hyphens; null: that of serve's own",
    },
    "prefix": {
        "type": ["string", "null"],
        "pattern": r"^([A-Za-z0-9_!.*'()-]+(/[A-Za-z0-9_!.*'()-]+)*)?$",
        "default": None,
        "description": "what the keys begin with: letters, digits and !_.*'()-, in parts between slashes",
    },
    "region": {
        "type": "string",
        "minLength": 1,
        "default": "us-east-1",
        "description": "which requests are signed for",
    },
    "path_style": {
        "type": ["boolean", "null"],
        "default": None,
        "description": "the bucket is in the path, not in the host's name; null: wherever there is an endpoint",
    },
    "latency_ms": {**_RATE, "maximum": 60000, "description": "emulated: wait before each answer"},
    "stream_mbps": {**_RATE, "description": "emulated: 10^6 bytes a second of one connection; 0: as many as there are"},
    "total_mbps": {**_RATE, "description": "emulated: 10^6 bytes a second of all connections; 0: as many as there are"},
    "folder": {
        "type": "string",
        "format": "path",
        "minLength": 1,
        "default": "results/objects",
        "description": "local folder of the indexes, and of the data of a server that feedrate starts",
    },
    "max_gigabytes_out": {
        "type": ["number", "null"],
        "exclusiveMinimum": 0,
        "default": None,
        "description": "10^9 bytes that a session may read from storage of your own; the plan that needs more stops",
    },
    "price_per_1000_gets": {**_PRICE, "description": "what your storage charges for 1,000 GETs; null: only counted"},
    "price_per_gigabyte": {**_PRICE, "description": "what your storage charges for 10^9 bytes out; null: only counted"},
}


def check(options: dict[str, Any]) -> None:
    """Raise UserError for options that contradict one another, or that hold what must not be in a config."""
    options = _all(options)
    serve, endpoint, bucket = options["serve"], options["endpoint"], options["bucket"]
    url = urlsplit(endpoint or "http://localhost")
    if "@" in url.netloc:
        raise UserError(
            "endpoint: found a user's name or password in it; allowed is https://HOST[:PORT]. Credentials are taken "
            "from the environment: export AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )
    if url.scheme not in ("http", "https") or not url.netloc or url.path.strip("/") or url.query:
        raise UserError(
            f"endpoint: found {endpoint!r}, allowed is http:// or https:// with a host, and a port where it is "
            "not the usual one. Write for example endpoint: https://storage.example:9000."
        )
    if serve != "none" and endpoint:
        raise UserError(
            f"endpoint: found {endpoint!r} with serve: {serve}, which listens on a port of its own; allowed is one of "
            "the two. Remove endpoint, or write serve: none."
        )
    if serve == "none" and not bucket:
        raise UserError(
            "bucket: found nothing for storage of your own; allowed is the name of a bucket that exists. Write "
            "{kind: s3, endpoint: https://storage.example, bucket: NAME}, or try {kind: s3, serve: seaweedfs}."
        )
    if serve == "none" and _emulated(options) and not (endpoint or "").startswith("http://"):
        raise UserError(
            f"latency_ms, stream_mbps, total_mbps: found {_words(options)} for {endpoint or 'https'}; allowed "
            "is http://, where a proxy can emulate them. Leave them out: remote storage has a latency of its own."
        )


def location(options: dict[str, Any], copy: str) -> Location:
    """Return where the copy of this name is: objects of a bucket, and the local folder of their index."""
    options = _all(options)
    folder, prefix = _folder(options), options["prefix"]
    if prefix is None:
        prefix = "" if options["serve"] == "none" else _name(options)
    bucket = options["bucket"] or BUCKET
    return Location(
        uri="/".join(["s3:/", *filter(None, (bucket, prefix, copy))]),
        not_evicted=NOT_EVICTED,
        index=folder / "index" / copy,
        service={"kind": "s3", "options": options, "folder": str(folder)},
        region=options["region"],
        path_style=_path_style(options),
    )


def place(options: dict[str, Any], source: Path, location: Location) -> None:
    """Send the folder `source` to the location, where it is missing there; nothing is emulated meanwhile.

    Raises UserError where the storage cannot be reached, refuses, or has other bytes than were sent.
    """
    from scripts.tiers._objects.upload import upload

    options, plain = _all(options), _plain(location)
    with ExitStack() as stack:
        stack.enter_context(served([plain]))
        found = reached(plain)
        if options["serve"] != "none":
            stack.enter_context(room_for(_folder(options), tree_size(source)[0]))
            _make_bucket(found)
        upload(source, found)


def profile(
    options: dict[str, Any], item_bytes: Sequence[int], readers: Sequence[int], seconds: float
) -> dict[str, Any]:
    """Return what the storage is and gives to raw GETs of objects of an item's size (`get_ceiling.measure_gets`).

    Raises UserError where the storage cannot be reached or refuses.
    """
    from scripts.machine.get_ceiling import IN_FLIGHT, congestion_control, measure_gets

    options = _all(options)
    where = location(options, "feedrate-profile")
    with served([where]):
        found = reached(where)
        if options["serve"] != "none":
            _make_bucket(found)
        gets = measure_gets(found, item_bytes, {*IN_FLIGHT, *readers}, seconds)
    return {
        "kind": "objects",
        "filesystem": "s3",
        "device": _served_by(options),
        "emulated": emulated(options),
        "congestion_control": congestion_control(),
        "fio": gets,
        "reason": None,
        "warnings": [],
    }


def emulated(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what is emulated of a network, None of none: `name`, `source`, and the options that say it."""
    options = _all(options)
    if not _emulated(options):
        return None
    return {"name": _words(options), **{key: options[key] for key in EMULATED}, "source": "set in config.yaml"}


def prices(options: Mapping[str, Any]) -> dict[str, float | None] | None:
    """Return the limit and the prices of storage of the user's own; None of a server that feedrate starts."""
    options = _all(options)
    if options["serve"] != "none":
        return None
    return {key: options[key] for key in ("max_gigabytes_out", "price_per_1000_gets", "price_per_gigabyte")}


@contextmanager
def serving(options: Mapping[str, Any], folder: Path) -> Iterator[dict[str, Any]]:
    """Start what serves the tier, in a folder that stays; the block gets what to fill into a location.

    `processes` are those that it has started, `traffic` the counters of the proxy, where there is one. Credentials of
    a server that feedrate starts are made up, unless the environment has some. Raises UserError where storage of the
    user's own has none, and where a server does not start.
    """
    import psutil

    from scripts.machine.signing import credentials, made_up
    from scripts.tiers._objects import servers

    before = {one.pid for one in psutil.Process().children(recursive=True)}
    emulation = _emulated(options)
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        if options["serve"] == "none":
            credentials(own=True)
            endpoint = options["endpoint"] or f"https://s3.{options['region']}.amazonaws.com"
        else:
            stack.enter_context(made_up())
            endpoint = stack.enter_context(servers.seaweedfs(folder))
        endpoint = stack.enter_context(servers.delayed(endpoint, emulation, folder))
        started = {one.pid for one in psutil.Process().children(recursive=True)} - before
        traffic = {TRAFFIC: str((folder / servers.TRAFFIC).absolute())} if emulation else {}
        yield {"endpoint": endpoint.rstrip("/"), PROCESSES: sorted(started), **traffic}


def _make_bucket(location: Location) -> None:
    """Make the bucket of a server that feedrate has started."""
    from scripts.machine.bucket_client import client_of, make_bucket
    from scripts.machine.objects import bucket_of

    bucket = bucket_of(location)
    with client_of(bucket) as client:
        make_bucket(client, bucket.name)


def _all(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with the defaults of those that are not named, as the config has them."""
    return {**{name: fragment.get("default") for name, fragment in OPTIONS.items()}, **options}


def _plain(location: Location) -> Location:
    """Return the location as it is served where nothing is emulated."""
    service = {**location.service, "options": {**location.service["options"], **dict.fromkeys(EMULATED, 0)}}
    return replace(location, service=service)


def _emulated(options: Mapping[str, Any]) -> Emulated:
    return Emulated(**{key: options[key] for key in EMULATED})


def _path_style(options: Mapping[str, Any]) -> bool:
    found = options["path_style"]
    return bool(options["endpoint"] or options["serve"] != "none") if found is None else found


def _words(options: Mapping[str, Any]) -> str:
    """Return what is emulated, such as ``latency 20 ms, stream 90 MB/s``."""
    units = {"latency_ms": "latency {:g} ms", "stream_mbps": "stream {:g} MB/s", "total_mbps": "total {:g} MB/s"}
    return ", ".join(text.format(options[key]) for key, text in units.items() if options[key])


def _name(options: Mapping[str, Any]) -> str:
    """Return what a server's place is called: other emulation is another place, so that tiers do not meet."""
    return re.sub(r"[^\w.]+", "-", " ".join(filter(None, (options["serve"], _words(options).replace("MB/s", "MBps")))))


def _folder(options: Mapping[str, Any]) -> Path:
    """Return the tier's local folder."""
    if options["serve"] != "none" and options["prefix"] is None:
        return Path(options["folder"], _name(options))
    host = urlsplit(options["endpoint"] or "//amazon").netloc
    parts = (options["serve"], host, options["bucket"] or BUCKET, options["prefix"] or "")
    return Path(options["folder"], re.sub(r"[^\w.]+", "-", " ".join(filter(None, parts))))


def _served_by(options: Mapping[str, Any]) -> str:
    """Return what serves the objects, for people."""
    if options["serve"] == "seaweedfs":
        return "SeaweedFS on loopback"
    return options["endpoint"] or f"Amazon S3, {options['region']}"
