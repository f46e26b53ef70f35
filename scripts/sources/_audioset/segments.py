"""AudioSet's lists: which segments there are, what is wrong with a list, and which of them are wanted.

Format of the lists: https://research.google.com/audioset/download.html
"""

import csv
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from scripts.common.errors import UserError, nearest
from scripts.common.files import read_json, whole_file, write_json
from scripts.sources._audioset import faults, preflight
from scripts.sources._audioset.client import secrets_of

if TYPE_CHECKING:
    import yt_dlp

LISTS = "https://storage.googleapis.com/us_audioset/youtube_corpus/v1/csv/"
# Segments of each published list; as its second line says, and the data set's home page.
PUBLISHED = {"eval": 20_371, "balanced_train": 22_160, "unbalanced_train": 2_041_789}
CLASSES = 527
COLUMNS = ("YTID", "start_seconds", "end_seconds", "positive_labels")
CLASS_COLUMNS = ("index", "mid", "display_name")
ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
COUNT = re.compile(r"num_segs=(\d+)")
HEAD = (r"#.*", rf"#.*{COUNT.pattern}.*", r"#\s*" + r"\s*,\s*".join(COLUMNS))  # the first three lines
ASK_AGAIN = (
    "If it lies in the store, delete it: the same command downloads it again. Correct a file of your own, or name "
    "another in the config."
)


class Segment(NamedTuple):
    """A piece of a video."""

    id: str  # of the video
    start_seconds: float
    stop_seconds: float
    labels: tuple[str, ...]  # display names of classes, the first is the target

    @property
    def name(self) -> str:
        """The segment's file name in the store."""
        return f"{self.id}_{round(self.start_seconds * 1000)}"


def find_lists(options: Mapping[str, Any], folder: Path, client: "yt_dlp.YoutubeDL") -> tuple[Path, Path]:
    """Return the paths of the list of segments and of the table of classes: the user's own, or copies in `folder`.

    What `folder` does not hold is downloaded. Raises UserError where that fails.
    """
    own = "" if options["list"] in PUBLISHED else options["list"]
    wanted = ((own, f"{options['list']}_segments.csv"), (options["class_labels"], "class_labels_indices.csv"))
    paths = []
    for given, name in wanted:
        path = Path(os.path.expanduser(given)) if given else folder / name
        if not given and not path.exists():
            address = options["lists_url"] + name
            print(f"{address} ...", flush=True)
            try:
                with client.urlopen(address) as response, whole_file(path, "wb") as file:
                    shutil.copyfileobj(response, file)
            except Exception as error:  # of a proxy, of TLS, of the network
                preflight.check_server(faults.understand(error, secrets_of(options)).reason, address)
        paths.append(path)
    return paths[0], paths[1]


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """Yield the open CSV file. Raises UserError for what the block finds that is none."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        try:
            yield file
        except (csv.Error, UnicodeDecodeError) as error:
            raise UserError(f"{path}: cannot be read as CSV ({error}). {ASK_AGAIN}") from None


def read_classes(path: Path) -> dict[str, str]:
    """Return {mid: display name} of the 527 classes. Raises UserError for a file that is not that table, whole."""
    names: dict[str, str] = {}
    with _opened(path) as file:
        rows = csv.reader(file, strict=True)
        header = next(rows, [])
        for number, row in enumerate(rows):
            if tuple(header) != CLASS_COLUMNS or len(row) != 3 or row[0] != str(number) or not row[1].startswith("/"):
                raise UserError(
                    f"{path}: row {number + 1}: found {_shown(row)} below {_shown(header)}; needed are index {number}, "
                    f"mid and name below {', '.join(CLASS_COLUMNS)}. {ASK_AGAIN}"
                )
            names[row[1]] = row[2]
    if len(names) != CLASSES:
        raise UserError(
            f"{path}: found {len(names)} classes; AudioSet has {CLASSES}. Perhaps only part of the file "
            f"arrived. {ASK_AGAIN}"
        )
    return names


def read_segments(path: Path, names: Mapping[str, str], expected: int | None) -> Iterator[Segment]:
    """Yield the segments of a list in its order, labels by their display `names`.

    Raises UserError, at the latest in the end, for a list that is of another form, breaks off, names a video twice or
    has not the `expected` number of segments (None: the number in its own second line).
    """
    seen: set[str] = set()
    with _opened(path) as file:
        announced = _read_head(path, [next(file, "") for _ in range(3)])
        rows = csv.reader(file, skipinitialspace=True, strict=True)
        for number, row in enumerate(rows, 4):
            segment = _segment(path, number, row, names)
            if segment.id in seen:
                raise UserError(
                    f"{path}: line {number}: found the video {segment.id} a second time; allowed is one "
                    "segment of each. Remove one."
                )
            seen.add(segment.id)
            yield segment
    for count, says in ((announced, "its second line says"), (expected, "the published list has")):
        if count is not None and len(seen) != count:
            raise UserError(
                f"{path}: found {len(seen):,} segments, and {says} {count:,}. Perhaps only part of the file "
                f"arrived. {ASK_AGAIN}"
            )


def _read_head(path: Path, lines: list[str]) -> int:
    """Return the number of segments that the three comment lines announce. Raises UserError for other lines."""
    for number, (line, form) in enumerate(zip(lines, HEAD, strict=True), 1):
        if not re.fullmatch(form, line.rstrip()):
            page = re.match(r"(?i)\s*<(!doctype|html)", "".join(lines))
            found = "a HTML page" if page else f"{line.rstrip()[:80]!r} as line {number}"
            raise UserError(
                f"{path}: found {found}; needed are three comment lines at the beginning, the second with num_segs=, "
                f"the third `# {', '.join(COLUMNS)}`. {ASK_AGAIN}"
            )
    return int(COUNT.search(lines[1])[1])


def _segment(path: Path, number: int, row: list[str], names: Mapping[str, str]) -> Segment:
    """Return the segment of one row. Raises UserError for a row of another form."""
    try:
        video, start, stop, mids = row
        begin, end = float(start), float(stop)
        labels = tuple(names[mid] for mid in mids.split(","))
        if not ID.fullmatch(video) or not 0 <= begin < end < 1e6:
            raise ValueError
    except (ValueError, KeyError):
        raise UserError(
            f"{path}: line {number}: found {_shown(row)}; needed are {', '.join(COLUMNS)}, the last the mids "
            f"of known classes. {ASK_AGAIN}"
        ) from None
    return Segment(video, begin, end, labels)


def _shown(row: Iterable[str]) -> str:
    return repr(", ".join(row)[:80])


def check_classes(wanted: Iterable[str], names: Mapping[str, str]) -> set[str]:
    """Return the display names of the `wanted` classes, given by name or mid. Raises UserError for an unknown one."""
    known = set(names.values())
    found = set()
    for name in wanted:
        if name not in known and name not in names:
            raise UserError(
                f"classes: found {name!r}; allowed are the display names and mids of "
                f"class_labels_indices.csv.{nearest(name, known)} Change it."
            )
        found.add(names.get(name, name))
    return found


def choose(segments: Iterable[Segment], classes: set[str], limit: int | str, seed: int) -> list[Segment]:
    """Return the segments with one of the `classes` (none: all), in an order that `seed` decides, `limit` (or all).

    The order is that of a hash of seed and id, so that a larger limit adds to a smaller one, and the segments that are
    fetched first are a fair sample of all. The corpus splits by a hash too: the words before the id make it another.
    Raises UserError where there are none.
    """
    import xxhash

    wanted = (segment for segment in segments if not classes or classes.intersection(segment.labels))
    ordered = sorted(wanted, key=lambda segment: xxhash.xxh3_64_intdigest(f"choice {seed}: {segment.id}".encode()))
    if not ordered:
        raise UserError(f"classes: found {sorted(classes)}, which no segment of the list has. Name others.")
    return ordered if limit == "all" else ordered[:limit]


class Selection(NamedTuple):
    """What all shards together are."""

    name: str  # a hash of it
    segments: int


def write_shards(segments: list[Segment], shards: int, folder: Path) -> None:
    """Write one CSV a shard, 0000.csv and so on, of as equal numbers of segments as can be, and selection.json."""
    import xxhash

    digest = xxhash.xxh3_64(f"{shards}\n".encode())
    for shard in range(shards):
        first, end = (len(segments) * number // shards for number in (shard, shard + 1))
        with whole_file(folder / f"{shard:04d}.csv") as file:
            table = csv.writer(file)
            for segment in segments[first:end]:
                labels = json.dumps(segment.labels, ensure_ascii=False)
                table.writerow((segment.id, repr(segment.start_seconds), repr(segment.stop_seconds), labels))
                digest.update(f"{segment.name}\n".encode())
    write_json(folder / "selection.json", Selection(digest.hexdigest(), len(segments))._asdict())


def read_selection(folder: Path) -> Selection:
    """Return what `write_shards` has written about all shards. Raises UserError where that is damaged."""
    try:
        return Selection(**read_json(folder / "selection.json"))
    except (FileNotFoundError, TypeError, ValueError):
        raise UserError(
            f"{folder}: found no selection.json, or a damaged one; needed is the folder that prepare_clips wrote. "
            "Type the same command with --forcerun prepare_clips at its end."
        ) from None


def read_shard(folder: Path, shard: int) -> list[Segment]:
    """Return the segments of one shard."""
    with open(folder / f"{shard:04d}.csv", encoding="utf-8", newline="") as file:
        return [
            Segment(video, float(start), float(stop), tuple(json.loads(labels)))
            for video, start, stop, labels in csv.reader(file)
        ]
