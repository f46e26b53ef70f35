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
    (STOP, "bot check", r"not a bot|captcha|unusual traffic|ip is likely being blocked"),
    (STOP, "rate limit", r"isn't available, try again later|rate-limited by youtube"),
    (GONE, "age", r"confirm your age|age.?restricted|inappropriate for some users"),
    (GONE, "removed", r"has been removed|was removed|removed by|has been deleted|does not exist"),
    (GONE, "removed", r"has been terminated|has closed|account .* closed"),
    (GONE, "country", r"in your (country|region|location)|from your (country|location)|geo.?restrict"),
    (GONE, "copyright", r"copyright|blocked it"),
    (GONE, "private", r"private video|is private"),
    (GONE, "members only", r"members.only|join this channel|requires payment|music premium|premium members|to rent"),
    (GONE, "protected", r"drm protected"),
    (GONE, "removed", r"no longer available"),
    (GONE, "not broadcast", r"live event|premieres? (in|will)|this live stream recording is not available"),
    (GONE, "unavailable", r"video (is )?(unavailable|not available)|isn't available anymore|incomplete youtube id"),
)
GONE_KINDS = (
    *dict.fromkeys(kind for verdict, kind, _ in TEXTS if verdict == GONE),
    "not found",
    "no audio",
    "too short",
)
# What a page says that wants to see a human.
PAGE = re.compile(r"(?i)not a bot|captcha|unusual traffic|automated (requests|queries)|are you (a robot|human)")

ADDRESS = re.compile(r"\w+://\S+")
DOWNLOADING = re.compile(r"unable to download video data|Got error")
BROKEN_OFF = re.compile(r"bytes read, \d+ more expected|did not get any data blocks|downloaded file is empty", re.I)
NETWORK = re.compile(
    r"timed out|connection (broken|reset|refused|aborted)|name resolution|unreachable"
    r"|unable to (download|connect)|got error|http error \d{3}",
    re.IGNORECASE,
)


def understand(error: BaseException, secrets: Iterable[str] = ()) -> Fault:
    """Return what `error`, raised by yt-dlp, means; answers of servers that it holds are closed."""
    chain = list(_chain(error))
    raw = one_line(str(error))
    text = one_line(str(error), secrets)
    try:
        if any(isinstance(part, OSError) and part.errno in (errno.ENOSPC, errno.EDQUOT) for part in chain):
            return full_disk()
        if "No space left on device" in raw or "Disk quota exceeded" in raw:
            return full_disk()
        plain = ADDRESS.sub("", raw).replace("\u2019", "'")
        if not _is_of_the_network(chain, plain):
            for verdict, kind, pattern in TEXTS:
                if re.search(pattern, plain, re.IGNORECASE):
                    return Fault(verdict, kind, text)
        return _network_fault(chain, plain, text)
    finally:
        for part in chain:
            if getattr(part, "response", None) is not None:  # that of requests may be None
                part.response.close()


def _is_of_the_network(chain: list[BaseException], plain: str) -> bool:
    """Return whether the error tells how a request went, and not what YouTube says of a video."""
    from yt_dlp.networking.exceptions import RequestError

    return bool(NETWORK.search(plain)) or any(isinstance(part, RequestError) for part in chain)


def full_disk() -> Fault:
    """Return the fault of a disk without room."""
    return Fault(STOP, "disk full", "no space is left where the store lies")


def _network_fault(chain: list[BaseException], plain: str, text: str) -> Fault:
    """Return what an error that YouTube's texts do not explain means, by its HTTP status and type.

    `plain` decides; `text`, without secrets, is shown.

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
    if status is None and (found := re.search(r"HTTP Error (\d{3})", plain)):
        status = int(found[1])
    if status is not None:
        if status in (404, 410) and not DOWNLOADING.search(plain):
            return Fault(GONE, "not found", f"HTTP status {status}")
        detail = "a redirect loop" if "redirect loop" in plain else f"HTTP status {status}"
        return Fault(LATER, "http", detail, wait, throttled=status == 429)
    if BROKEN_OFF.search(plain):
        return Fault(LATER, "broken off", text)
    if NETWORK.search(plain) or any(isinstance(part, TransportError | OSError) for part in chain):
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
