"""Fetches one segment of one video by yt-dlp: the whole audio and a local cut, or only the part that is needed."""

import errno
import os
import re
import shutil
import urllib.parse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.sources._audioset import faults
from scripts.sources._audioset.client import open_client, secrets_of
from scripts.sources._audioset.cut import Cut, NotUsable, cut_segment
from scripts.sources._audioset.faults import GONE, LATER, STOP, Fault
from scripts.sources._audioset.ranged import NoRanges, RangedFile

if TYPE_CHECKING:
    import yt_dlp

PAGE_BYTES = 1 << 16  # of what came instead of audio, looked at
FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))
INDEXED = ("m4a", "mp4", "webm", "mkv", "mka")  # files that say where in them a time lies


class Fetcher:
    """Fetches segments, one at a time, into a work folder."""

    def __init__(self, options: Mapping[str, Any], work: Path, cache: Path) -> None:
        self.options = options
        self.work = work / "video"
        self.secrets = secrets_of(options)
        self.client = open_client(options, self.work, cache)

    def __call__(self, *request: Any) -> Cut | Fault:
        """Return what `fetch` does; what nobody has foreseen costs this segment, not the shard."""
        try:
            return self.fetch(*request)
        except Exception as error:
            return Fault(LATER, "error", faults.one_line(f"{type(error).__name__}, {error}", self.secrets))

    def fetch(self, address: str, start: float, stop: float, name: str) -> Cut | Fault:
        """Return the segment from `start` to `stop` seconds of what `address` leads to, or why there is none."""
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        try:
            return self._fetch(address, start, stop, self.work.parent / name)
        except NotUsable as unusable:
            if str(unusable).endswith(FULL):  # FFmpeg's errors are no OSError
                return faults.full_disk()
            kind, _, detail = faults.one_line(str(unusable), self.secrets).partition(": ")
            return self._page_downloaded() or Fault(GONE if unusable.gone else LATER, kind, detail or "see the kind")
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except Exception as error:  # yt-dlp's extractors raise whatever their parsing meets
            fault = faults.understand(error, self.secrets)
            if fault.kind == "yt-dlp" and "Unsupported URL" in fault.detail:
                return self._page(address) or Fault(LATER, "not audio", "a page came instead of audio")
            if fault.kind == "yt-dlp" and self.client.params["logger"].last_warning:
                warning = faults.one_line(self.client.params["logger"].last_warning, self.secrets)
                return fault._replace(detail=f"{fault.detail} ({warning})"[: faults.LONGEST_REASON])
            return fault
        finally:
            shutil.rmtree(self.work, ignore_errors=True)

    def _fetch(self, address: str, start: float, stop: float, stem: Path) -> Cut:
        self.client.params["logger"].last_warning = ""
        information = self.client.extract_info(address, download=False)
        if information.get("_type", "video") != "video":
            raise NotUsable("not one video: the address leads to a list of them")
        if self._in_part(information, stop):
            try:
                file = self._open_ranged(information)
                return cut_segment(file, start, stop, stem, information.get("duration"))
            except NoRanges:
                pass  # then all of it
        self.client.process_info(information)
        downloaded = next(iter(self.work.iterdir()), None)
        if downloaded is None:
            raise NotUsable("nothing came: no file was downloaded")
        return cut_segment(downloaded, start, stop, stem, information.get("duration"))

    def _in_part(self, information: Mapping[str, Any], stop: float) -> bool:
        """Return whether to read the segment out of the middle of the file on the server."""
        plain = information.get("protocol") in ("http", "https") and information.get("ext") in INDEXED
        if not plain or self.options["cut"] == "whole":
            return False
        seconds = information.get("duration") or 0
        return self.options["cut"] == "sections" or max(seconds, stop) > 60 * self.options["whole_minutes"]

    def _open_ranged(self, information: Mapping[str, Any]) -> RangedFile:
        from yt_dlp.networking import Request

        def read_range(first: int, last: int) -> tuple[bytes, int]:
            headers = {**information.get("http_headers", {}), "Range": f"bytes={first}-{last}"}
            with self.client.urlopen(Request(information["url"], headers=headers)) as response:
                found = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", response.headers.get("Content-Range") or "")
                if response.status != 206 or not found or int(found[1]) != first:
                    raise NoRanges
                return response.read(), int(found[2])

        return RangedFile(read_range)

    def _page_downloaded(self) -> Fault | None:
        """Return the fault of a page that wants to see a human, where one was downloaded as audio, else None."""
        for path in self.work.iterdir():
            with open(path, "rb") as file:
                return _page_fault(file.read(PAGE_BYTES))
        return None

    def _page(self, address: str) -> Fault | None:
        """Return the fault of a page that wants to see a human, where that is what `address` leads to, else None."""
        if "youtube.com" in urllib.parse.urlsplit(address).netloc:
            return None  # yt-dlp understands YouTube's pages itself
        try:
            with self.client.urlopen(address) as response:
                page = response.read(PAGE_BYTES)
        except Exception:  # what `fetch` has seen is the better reason
            return None
        return _page_fault(page)


def _page_fault(page: bytes) -> Fault | None:
    """Return the fault of a page that wants to see a human, where `page` is the begin of one, else None."""
    if b"<" in page[:512] and (found := faults.PAGE.search(page.decode("utf-8", "replace"))):
        return Fault(STOP, "bot check", f"a page with the words {found[0]!r} came instead of audio")
    return None


def reachable(client: "yt_dlp.YoutubeDL", address: str, secrets: Iterable[str]) -> str:
    """Return an empty text where the server of `address` answers, whatever it says, else what is in the way."""
    from yt_dlp.networking import HEADRequest
    from yt_dlp.networking.exceptions import HTTPError

    parts = urllib.parse.urlsplit(address)
    try:
        client.urlopen(HEADRequest(f"{parts.scheme}://{parts.netloc}/")).close()
    except HTTPError:
        return ""
    except Exception as error:  # of a proxy, of TLS, of the network
        return faults.one_line(str(error), secrets)
    return ""
