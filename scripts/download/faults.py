"""What an error of yt-dlp means: the video is gone, it failed for now, or the whole download had better stop."""

import email.utils
import errno
import re
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

GONE, LATER, STOP = "gone", "later", "stop"
LONGEST_REASON = 200


class Fault(NamedTuple):
    """One error, understood."""

    verdict: str  # GONE, LATER or STOP
    kind: str  # a word or two, by which faults are counted
    detail: str  # one line, without secrets
    retry_after: float | None = None  # seconds that the server asks to wait
    throttled: bool = False  # the server asks everybody to slow down

    @property
    def reason(self) -> str:
        """``kind: detail``."""
        return f"{self.kind}: {self.detail}"


# Texts of YouTube as yt-dlp passes them on (yt_dlp/extractor/youtube/_video.py), the first that matches decides.
# Quotes are compared as ' and letters without case.
TEXTS = (
    (
        STOP,
        "bot check",
        r"not a bot|captcha|unusual traffic|automated (requests|queries)|are you a robot|are you human",
    ),
    (STOP, "rate limit", r"try again later|rate-limited by youtube"),
    (GONE, "age", r"confirm your age|age.?restricted|inappropriate for some users"),
    (GONE, "country", r"in your country|from your (country|location)|geo.?restrict|in your (region|location)"),
    (GONE, "copyright", r"copyright|blocked it"),
    (GONE, "private", r"private video|video is private|is private"),
    (GONE, "members only", r"members.only|join this channel|requires payment|music premium|premium members|to rent"),
    (GONE, "removed", r"removed|terminated|no longer available|has been deleted|does not exist|account .* closed"),
    (GONE, "not broadcast", r"live event|premieres? (in|will)|this live stream recording is not available"),
    (GONE, "unavailable", r"video (is )?(unavailable|not available)|isn't available anymore|incomplete youtube id"),
)
GONE_KINDS = (*dict.fromkeys(kind for verdict, kind, _ in TEXTS if verdict == GONE), "not found", "too short")
PAGE = re.compile(rf"(?i){TEXTS[0][2]}")  # what a page says that wants to see a human

DOWNLOADING = re.compile(r"unable to download video data|Got error")
BROKEN_OFF = re.compile(r"bytes read, \d+ more expected|did not get any data blocks|downloaded file is empty", re.I)
NETWORK = re.compile(r"timed out|connection (broken|reset|refused|aborted)|name resolution|unreachable", re.I)


def understand(error: BaseException, secrets: Iterable[str] = ()) -> Fault:
    """Return what `error`, raised by yt-dlp, means."""
    chain = list(_chain(error))
    text = one_line(str(error), secrets)
    for part in chain:
        if isinstance(part, OSError) and part.errno in (errno.ENOSPC, errno.EDQUOT):
            return full_disk()
    if "No space left on device" in text or "Disk quota exceeded" in text:
        return full_disk()
    plain = text.replace("\u2019", "'").lower()
    for verdict, kind, pattern in TEXTS:
        if re.search(pattern, plain):
            return Fault(verdict, kind, text)
    return _network_fault(chain, text)


def full_disk() -> Fault:
    """Return the fault of a disk without room."""
    return Fault(STOP, "disk full", "no space is left where the store lies")


def _network_fault(chain: list[BaseException], text: str) -> Fault:
    """Return what an error that YouTube's texts do not explain means, by its HTTP status and type.

    Where the audio itself breaks off, yt-dlp leaves a text alone; a status there does not say that the video is gone.
    """
    from yt_dlp.networking.exceptions import HTTPError, TransportError
    from yt_dlp.utils import GeoRestrictedError

    if any(isinstance(part, GeoRestrictedError) for part in chain):
        return Fault(GONE, "country", text)
    status, wait = None, None
    for part in chain:
        if isinstance(part, HTTPError) and status is None:
            status, wait = part.status, retry_after(part.response.headers.get("Retry-After"))
    if status is None and (found := re.search(r"HTTP Error (\d{3})", text)):
        status = int(found[1])
    if status is not None:
        if status in (404, 410) and not DOWNLOADING.search(text):
            return Fault(GONE, "not found", f"HTTP status {status}")
        detail = "a redirect loop" if "redirect loop" in text else f"HTTP status {status}"
        return Fault(LATER, "http", detail, wait, throttled=status == 429)
    if BROKEN_OFF.search(text):
        return Fault(LATER, "broken off", text)
    if NETWORK.search(text) or any(isinstance(part, TransportError | OSError) for part in chain):
        return Fault(LATER, "network", text)
    return Fault(LATER, "yt-dlp", text)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield `error` and what it was raised from, as Python and as yt-dlp link them."""
    waiting, seen = [error], set()
    while waiting:
        part = waiting.pop(0)
        if isinstance(part, BaseException) and id(part) not in seen:
            seen.add(id(part))
            yield part
            information = getattr(part, "exc_info", None)
            linked = information[1] if isinstance(information, tuple) and len(information) > 1 else None
            waiting += [linked, getattr(part, "cause", None), part.__cause__, part.__context__]


def retry_after(value: str | None, now: float | None = None) -> float | None:
    """Return the seconds that a Retry-After header asks for (RFC 9110, 10.2.3: a number or a date), or None."""
    if not value:
        return None
    if value.strip().isdecimal():
        return float(value.strip()[:9])
    try:
        date = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, date.timestamp() - (time.time() if now is None else now))


def one_line(text: str, secrets: Iterable[str] = ()) -> str:
    """Return an error text of yt-dlp as one short line, without its advice for the command line and any secret."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    for secret in secrets:
        text = text.replace(secret, "***")
    text = text.replace("\r", " ").strip()
    text = re.sub(r"^(ERROR:\s*)?(\[[\w:+-]+\] ([\w-]+: )?)?", "", text.strip(), count=1)
    text = re.sub(
        r"(;|\.)? *(please report this issue on|See  ?https?://|Use --|Also see|\(caused by).*",
        "",
        text,
        flags=re.DOTALL,
    )
    text = " ".join(text.split())
    return text[: LONGEST_REASON - 3] + "..." if len(text) > LONGEST_REASON else text
