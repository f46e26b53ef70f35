"""Where a placed format is: what a tier returns, what the plan and the records name, and what a loader gets."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

PATH = "path"  # how a location is read that has a folder of files; any other is read by its URI's scheme


@dataclass(frozen=True)
class Location:
    """One placed format, or one split of it."""

    uri: str  # such as file:///mnt/nvme/demo/npy or tar:///mnt/nvme/demo/npy
    path: Path | None = None  # the local folder of the format's files; None where there is none to open
    held_in: Path | None = None  # the local file or folder that holds the bytes, and so what is evicted from the cache
    in_memory: bool = False  # its bytes take up RAM: no read of them reaches a device
    not_evicted: str = ""  # why no read of it is sure to reach a device: it is on another machine, or cached below
    split_name: str = "{split}"  # what a split of it is called, such as {split}.tar
    # Of objects in a bucket, s3://BUCKET/KEY:
    index: Path | None = None  # the local folder of what was placed: index.json and the label arrays of each split
    service: Mapping[str, Any] | None = None  # what serves it while a program needs it (scripts/common/serving.py)
    endpoint: str | None = None  # such as http://127.0.0.1:8333; None: unknown, since nothing serves it yet
    region: str | None = None
    path_style: bool | None = None  # the bucket is the first part of an object's path, not of the host's name

    @property
    def local(self) -> Path | None:
        """What a copy leaves on this machine: its bytes, or the index of those elsewhere; None for nothing."""
        return self.held_in or self.index

    @property
    def read_by(self) -> str:
        """What a loader must have in its READS to read it: ``path``, or the scheme of its URI."""
        return PATH if self.path else self.uri.partition("://")[0]

    def unreadable(self, reads: Collection[str]) -> str | None:
        """Return why a loader with these READS cannot read it, or None."""
        if self.read_by in reads:
            return None
        return f"it reads {' or '.join(reads)}, and data on this tier is read by {self.read_by}"

    def never(self, cache: str) -> str | None:
        """Return why no epoch over it has this state of the page cache (`cold` or `limited`), or None."""
        if self.in_memory:
            return f"files in RAM are never {cache}"
        if self.held_in is None or self.not_evicted:
            return f"it is never {cache}: {self.not_evicted or 'no local file holds it'}"
        return None

    def split(self, name: str) -> "Location":
        """Return where one split of a placed format is."""
        below = self.split_name.replace("{split}", name)
        path, held_in, index = (part / below if part else None for part in (self.path, self.held_in, self.index))
        return replace(self, uri=f"{self.uri}/{below}", path=path, held_in=held_in, index=index)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it, without what is None; `from_json` reads it back."""
        known = {name: value for name, value in asdict(self).items() if value is not None}
        return {name: str(value) if isinstance(value, Path) else value for name, value in known.items()}


def from_json(value: Mapping[str, Any]) -> Location:
    """Return the location that `as_json` wrote."""
    paths = {name: Path(value[name]) for name in ("path", "held_in", "index") if value.get(name) is not None}
    return Location(**{**value, **paths})
