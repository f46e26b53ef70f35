"""yt-dlp as it is used here: its options, the user's own, and the secrets that no text may show."""

import contextlib
import io
import netrc
import optparse
import os
import re
import shlex
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from errors import UserError

if TYPE_CHECKING:
    import yt_dlp

SECRET_OPTIONS = "FEEDRATE_YT_DLP_OPTIONS"  # environment variable: options that hold secrets
PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy")
SHORTEST_SECRET = 6  # shorter values, such as a cookie's 1, are words that texts need
SECRET_WORDS = re.compile(
    r"--?(p|u|password|username|video-password|twofactor|2|ap-password|ap-username|client-certificate-password)(=|$)"
    r"|authorization|cookie:|po_token=|visitor_data=|token=|://[^/@\s]*:[^/@\s]*@",
    re.IGNORECASE,
)
# What the download itself decides; an option of the user's that changes it is refused.
OURS = (
    "format",
    "outtmpl",
    "paths",
    "download_ranges",
    "postprocessors",
    "cookiefile",
    "usenetrc",
    "netrc_location",
    "proxy",
    "logger",
    "quiet",
    "retries",
    "extractor_retries",
    "skip_download",
    "simulate",
)


def check_options(options: Mapping[str, Any]) -> None:
    """Raise UserError for secrets in the config, which would be recorded, and for files that are not there."""
    for word in options["yt_dlp"]:
        if SECRET_WORDS.search(word):
            raise UserError(
                "yt_dlp: found an option that holds a secret; allowed are those that may be read by everybody, since "
                f"the config is recorded. Put it into the environment: export {SECRET_OPTIONS}='--option value'"
            )
    for key in ("proxy", "url", "lists_url"):
        if "@" in urllib.parse.urlsplit(options[key]).netloc:
            hint = "export HTTPS_PROXY=..." if key == "proxy" else "a cookies file"
            raise UserError(
                f"{key}: found an address with a user name or password; allowed is one without, since the "
                f"config is recorded. Use instead: {hint}"
            )
    for key in ("cookies", "netrc"):
        path = Path(os.path.expanduser(options[key]))
        if options[key] and not os.access(path, os.R_OK):
            raise UserError(
                f"{key}: found {options[key]!r}, which cannot be read; allowed is the path of a file. "
                "Correct it, or leave the option out."
            )


def open_client(options: Mapping[str, Any], work: Path, cache: Path) -> "yt_dlp.YoutubeDL":
    """Return yt-dlp, set to download the best audio as it is to `work` / audio.EXT. Raises UserError for options."""
    import yt_dlp

    parameters = {
        **_own_options(options),
        "format": "bestaudio/best",
        "outtmpl": {
            "default": str(work / "audio.%(ext)s").replace("%(ext)s", "\0").replace("%", "%%").replace("\0", "%(ext)s")
        },
        "noplaylist": True,
        "quiet": True,
        "noprogress": True,
        "logger": Log(),
        "retries": 0,  # each attempt is one request of ours, and waits as such
        "extractor_retries": 0,
        "fragment_retries": 2,
        "file_access_retries": 0,
        "socket_timeout": options["timeout_seconds"],
        "continuedl": False,
        "nopart": True,
        "overwrites": True,
        "updatetime": False,
        "fixup": "never",
        "cachedir": str(cache),
        "proxy": options["proxy"] or None,
        "usenetrc": bool(options["netrc"]),
        "netrc_location": os.path.expanduser(options["netrc"]) or None,
    }
    if options["cookies"]:
        # In memory: yt-dlp writes the file anew when it ends, and jobs would do so at the same time.
        parameters["cookiefile"] = io.StringIO(Path(os.path.expanduser(options["cookies"])).read_text("utf-8"))
    try:
        return yt_dlp.YoutubeDL(parameters)
    except (yt_dlp.cookies.CookieLoadError, yt_dlp.utils.DownloadError):
        raise UserError(
            f"cookies: found {options['cookies']!r}, which yt-dlp cannot read; allowed is a file in "
            "Netscape's format. Export it anew from the browser."
        ) from None


class Log:
    """Takes what yt-dlp says; the last warning is kept, since it often tells why the error behind it came."""

    def __init__(self) -> None:
        self.last_warning = ""

    def debug(self, message: str) -> None:
        """Pass over a message."""

    def warning(self, message: str) -> None:
        """Keep a warning."""
        self.last_warning = message

    def error(self, message: str) -> None:
        """Pass over an error: it is raised, too."""


def _own_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the user's command-line options for yt-dlp set, in the config and in the environment."""
    words = [*options["yt_dlp"], *shlex.split(os.environ.get(SECRET_OPTIONS, ""))]
    changed = _parsed(words)
    if ours := sorted(set(changed) & set(OURS)):
        raise UserError(
            f"yt_dlp: found options that set {', '.join(ours)}; these are the download's own, or options of "
            "the data set (cookies, netrc, proxy). Remove them."
        )
    return changed


def _parsed(words: list[str]) -> dict[str, Any]:
    """Return the parameters of yt-dlp that differ from its defaults."""
    import yt_dlp

    if not words:
        return {}
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            default = yt_dlp.parse_options(["--ignore-config"])
            given = yt_dlp.parse_options(["--ignore-config", *words])
    except (optparse.OptParseError, SystemExit) as error:
        said = str(error).strip().splitlines()[-1].removeprefix("-: error: ")
        if os.environ.get(SECRET_OPTIONS):
            said = f"not shown, since {SECRET_OPTIONS} is set"
        raise UserError(f"yt_dlp: found options that yt-dlp refuses ({said}). See yt-dlp --help.") from None
    if given.urls:
        raise UserError("yt_dlp: found a word that is neither an option nor its value. See yt-dlp --help.")
    before = default.ydl_opts
    return {
        key: value
        for key, value in given.ydl_opts.items()
        if repr(value) != repr(before.get(key)) and not callable(value)
    }


def secrets_of(options: Mapping[str, Any]) -> list[str]:
    """Return every value that no text may show: of cookies, netrc, proxies and the options in the environment."""
    found: set[str] = set()
    if options["cookies"]:
        for line in Path(os.path.expanduser(options["cookies"])).read_text("utf-8").splitlines():
            found.add(line.split("\t")[-1])
    if options["netrc"]:
        with contextlib.suppress(netrc.NetrcParseError):
            hosts = netrc.netrc(os.path.expanduser(options["netrc"])).hosts
            found |= {part for entry in hosts.values() for part in entry if part}
    for name in PROXIES:
        parts = urllib.parse.urlsplit(os.environ.get(name, ""))
        found |= {urllib.parse.unquote(part) for part in (parts.username, parts.password) if part}
        found |= {part for part in (parts.username, parts.password) if part}
    found |= {
        part
        for word in shlex.split(os.environ.get(SECRET_OPTIONS, ""))
        if not word.startswith("--")
        for part in (word, *re.split(r"[=:+,;]", word))
    }
    return sorted((secret for secret in found if len(secret) >= SHORTEST_SECRET), key=len, reverse=True)
