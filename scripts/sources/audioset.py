"""AudioSet's segments from YouTube by yt-dlp: paced, resumable, and kept in the codec in which they came."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from scripts.common.errors import UserError, nearest
from scripts.common.ledger import LedgerRow, SourceRequest
from scripts.sources._audioset import preflight
from scripts.sources._audioset.client import check_options, open_client, secrets_of
from scripts.sources._audioset.faults import GONE_KINDS
from scripts.sources._audioset.pace import Pace
from scripts.sources._audioset.segments import (
    LISTS,
    PUBLISHED,
    check_classes,
    choose,
    find_lists,
    read_classes,
    read_segments,
    read_selection,
    read_shard,
    write_shards,
)
from scripts.sources._audioset.shard import ShardDownload, is_settled
from scripts.sources._audioset.store import Store
from scripts.sources._audioset.worker import Worker

VERSION = 1
YOUTUBE = "https://www.youtube.com/watch?v=%(id)s"

KINDS = ("audio",)
NUMBER_OR_ALL = {"type": ["integer", "string"], "minimum": 1, "pattern": "^all$", "default": "all"}
OPTIONS = {
    "list": {
        "type": "string",
        "default": "eval",
        "description": "eval, balanced_train, unbalanced_train, or the path of a CSV file of the same form.",
    },
    "limit": {
        **NUMBER_OR_ALL,
        "description": "How many segments, a stable choice: a larger limit keeps those of a smaller one.",
    },
    "classes": {
        "type": "array",
        "uniqueItems": True,
        "items": {"type": "string"},
        "default": [],
        "description": "Display names or mids; segments with any of them are taken. Empty: all.",
    },
    "seed": {"type": "integer", "minimum": 0, "default": 0, "description": "Another seed chooses other segments."},
    "min_clips": {
        **NUMBER_OR_ALL,
        "description": "The benchmark starts once so many clips are there; all: once every segment was tried.",
    },
    "requests_per_hour": {
        "type": "number",
        "minimum": 0,
        "default": 300,
        "description": "Videos requested in any hour, by all jobs together; 0: no limit, for a server of your own.",
    },
    "least_pause_seconds": {
        "type": "number",
        "minimum": 0,
        "default": 0.5,
        "description": "Shortest pause between two requests; pauses are random, and stretched to keep "
        "requests_per_hour.",
    },
    "most_pause_seconds": {"type": "number", "minimum": 0, "default": 2, "description": "Longest such pause."},
    "attempts": {
        "type": "integer",
        "minimum": 1,
        "default": 3,
        "description": "How often a call tries a segment that fails for now.",
    },
    "back_off_seconds": {
        "type": "number",
        "minimum": 0,
        "default": 60,
        "description": "Wait before a failed segment is tried again; doubled each time, or as the server says.",
    },
    "stop_after": {
        "type": "integer",
        "minimum": 1,
        "default": 20,
        "description": "Failures in a row that stop the download.",
    },
    "timeout_seconds": {
        "type": "number",
        "exclusiveMinimum": 0,
        "default": 30,
        "description": "How long a server may be silent.",
    },
    "limit_seconds": {
        "type": "number",
        "exclusiveMinimum": 0,
        "default": 600,
        "description": "How long one video may take in all.",
    },
    "cut": {
        "enum": ["auto", "whole", "sections"],
        "type": "string",
        "default": "auto",
        "description": "whole: download all of the audio and cut here; sections: read the part alone; "
        "auto: by whole_minutes.",
    },
    "whole_minutes": {
        "type": "number",
        "minimum": 0,
        "default": 10,
        "description": "Videos up to this length are downloaded as a whole.",
    },
    "ask_again": {
        "type": "array",
        "uniqueItems": True,
        "items": {"enum": list(GONE_KINDS)},
        "default": [],
        "description": "Kinds of gone segments to try once more, such as country behind another proxy.",
    },
    "url": {
        "type": "string",
        "minLength": 1,
        "default": YOUTUBE,
        "description": "Where a video is; %(id)s stands for its id. For a mirror or an internal copy.",
    },
    "holds": {
        "enum": ["videos", "segments"],
        "type": "string",
        "default": "videos",
        "description": "What url leads to: whole videos, or segments that are cut already.",
    },
    "cookies": {"type": "string", "default": "", "description": "Path of a cookies file in Netscape's format."},
    "netrc": {"type": "string", "default": "", "description": "Path of a netrc file."},
    "proxy": {
        "type": "string",
        "default": "",
        "description": "Address without a password; with one, set HTTPS_PROXY instead.",
    },
    "yt_dlp": {
        "type": "array",
        "items": {"type": "string"},
        "default": [],
        "description": "More options of the command yt-dlp; those with secrets in FEEDRATE_YT_DLP_OPTIONS instead.",
    },
    "class_labels": {"type": "string", "default": "", "description": "Path of class_labels_indices.csv."},
    "lists_url": {"type": "string", "minLength": 1, "default": LISTS, "description": "Where the lists are."},
    "store": {
        "type": "string",
        "default": "",
        "description": "Folder for the audio; two data sets may share one. Left out: results/clips/NAME/store.",
    },
}

# Those that say how segments are fetched and not which: to change them makes nothing again.
FETCH_OPTIONS = (
    *("requests_per_hour", "least_pause_seconds", "most_pause_seconds", "attempts", "back_off_seconds", "stop_after"),
    *("timeout_seconds", "limit_seconds", "cut", "whole_minutes", "cookies", "netrc", "proxy", "yt_dlp", "lists_url"),
)
ENV = "download"
DOWNLOADS = True  # jobs count against Snakemake's resource `downloads`
SEGMENTS_PER_SHARD = 256  # an hour of a guest's requests
MOST_SHARDS = 1000
BYTES_PER_ROW = 55  # of a list: to know about how many shards without reading it


def check(options: Mapping[str, Any]) -> None:
    """Raise UserError for a list that is not there, an address without an id, or a secret."""
    for key in ("list", "class_labels"):
        given = options[key]
        if given and not (key == "list" and given in PUBLISHED) and not Path(os.path.expanduser(given)).is_file():
            allowed = f"{', '.join(PUBLISHED)} or the path" if key == "list" else "the path"
            raise UserError(
                f"{key}: found {given!r}, which is not a file; allowed is {allowed} of a CSV file."
                f"{nearest(given, PUBLISHED) if key == 'list' else ''} Correct it."
            )
    check_options(options)
    if options["min_clips"] != "all" and options["limit"] != "all" and options["min_clips"] > options["limit"]:
        raise UserError(
            f"min_clips: found {options['min_clips']}; allowed is at most limit, {options['limit']}. Lower it."
        )
    plain = options["url"].replace("%(id)s", "").replace("%%", "")
    if not options["url"].startswith(("http://", "https://")) or "%(id)s" not in options["url"] or "%" in plain:
        raise UserError(
            f"url: found {options['url']!r}; allowed is an http address with %(id)s in it, and %% for a plain %. "
            "Try: https://mirror.example/audio/%(id)s.m4a"
        )
    if options["most_pause_seconds"] < options["least_pause_seconds"]:
        raise UserError(
            f"most_pause_seconds: found {options['most_pause_seconds']}; allowed is at least least_pause_seconds, "
            f"{options['least_pause_seconds']}. Raise it."
        )


def shards(options: Mapping[str, Any]) -> int:
    """Return the number of shards: of some 256 segments each, or larger so that there are never more than 1,000."""
    return max(1, min(MOST_SHARDS, -(-_listed(options) // SEGMENTS_PER_SHARD)))


def expected(options: Mapping[str, Any]) -> int:
    """Return about how many segments will be asked for at least; fewer will be there, since videos disappear."""
    enough = options["min_clips"]
    return _listed(options) if enough == "all" else min(_listed(options), enough)


def hours(options: Mapping[str, Any]) -> float:
    """Return how many hours the requests for `expected` segments take at the configured pace."""
    return preflight.hours(expected(options), options)


def _listed(options: Mapping[str, Any]) -> int:
    """Return about how many segments of the list may be asked for."""
    if options["list"] in PUBLISHED:
        rows = PUBLISHED[options["list"]]
    else:
        rows = os.stat(os.path.expanduser(options["list"])).st_size // BYTES_PER_ROW
    return rows if options["limit"] == "all" else min(rows, options["limit"])


def inputs(options: Mapping[str, Any]) -> list[str]:
    """Return the user's own lists."""
    own = (options["class_labels"], "" if options["list"] in PUBLISHED else options["list"])
    return [os.path.expanduser(path) for path in own if path]


def prepare(request: SourceRequest) -> None:
    """Look at what the download needs, get the lists, and write to `request.prepared` a list for each shard.

    Says how long it will take. Raises UserError for whatever is missing or wrong, before a video was asked for.
    """
    from scripts.sources._audioset.videos import reachable

    options, store = request.options, _store(request)
    check(options)
    with store.at_work(request.call) as work, open_client(options, work, store.root / "cache") as client:
        print(preflight.check_programs(client, options["url"]), flush=True)
        list_path, classes_path = find_lists(options, store.root / "lists", client)
        names = read_classes(classes_path)
        listed = read_segments(list_path, names, PUBLISHED.get(options["list"]))
        chosen = choose(listed, check_classes(options["classes"], names), options["limit"], options["seed"])
        waiting = [segment for segment in chosen if not is_settled(store.read(segment.name), options)]
        room = preflight.check_room(
            store.root, sum(segment.stop_seconds - segment.start_seconds for segment in waiting)
        )
        if waiting:
            where = "YouTube" if options["url"] == YOUTUBE else options["url"]
            preflight.check_server(reachable(client, options["url"], secrets_of(options)), where)
    write_shards(chosen, request.shards, request.prepared)
    if options["limit"] != "all" and len(chosen) < options["limit"]:
        print(f"limit is {options['limit']:,}: the list has {len(chosen):,} such segments.")
    print(
        f"{len(chosen):,} segments, {len(chosen) - len(waiting):,} of them settled; {len(waiting):,} to fetch, "
        f"{preflight.duration(len(waiting), options)}; {room}.\n"
        "Ctrl-C stops at any time; the same command goes on, and downloads nothing twice."
    )


def fetch(request: SourceRequest) -> Iterator[LedgerRow]:
    """Yield a row per segment of the shard as it is settled; what an earlier call has settled is not asked for."""
    from scripts.sources._audioset.videos import Fetcher

    options, store, call = request.options, _store(request), request.call
    with store.at_work(call) as work:
        pace = Pace(
            store.root / "pace.json",
            options["requests_per_hour"],
            (options["least_pause_seconds"], options["most_pause_seconds"]),
        )
        worker = Worker(Fetcher, dict(options), work, store.root / "cache")
        download = ShardDownload(options, request.shard, store, pace, worker, call, read_selection(request.prepared))
        try:
            for row in download.rows(read_shard(request.prepared, request.shard)):
                here = store.root == request.store or not row.path
                yield row if here else replace(row, path=str(store.root / row.path))
            download.note()
            print(download.summary())
        finally:
            worker.close()


def count(request: SourceRequest) -> int:
    """Return the number of segments of the shard."""
    return len(read_shard(request.prepared, request.shard))


def _store(request: SourceRequest) -> Store:
    folder = request.options["store"]
    return Store(Path(os.path.expanduser(folder)).absolute() if folder else request.store)
