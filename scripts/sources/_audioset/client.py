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
from unittest import mock

from scripts.common.errors import UserError

if TYPE_CHECKING:
    import yt_dlp

SECRET_OPTIONS = "FEEDRATE_YT_DLP_OPTIONS"  # environment variable: options that hold secrets
PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy")
SHORTEST_SECRET = 6  # shorter values, such as a cookie's 1, are words that texts need
SECRET_WORDS = re.compile(
    r"^-[pu2]|^--(passw|usern|twof|video-p|ap-p|ap-u|client-certificate-p)"
    r"|(?i:authorization|cookie:|token=|visitor_data=|data_sync_id=|://[^/\s]*@)"
)
SECRET_KEYS = (  # the same, whatever the spelling
    *("username", "password", "videopassword", "twofactor", "ap_username", "ap_password"),
    "client_certificate_password",
)
SECRET_FOUND = (
    "yt_dlp: found an option that holds a secret; allowed are options that everybody may read: results "
    f"record the config. Put it into the environment: export {SECRET_OPTIONS}='--option value'"
)
# What the download itself decides, beside the parameters of `open_client`; an option that changes it is refused.
OURS = (
    *("paths", "download_ranges", "postprocessors", "skip_download", "simulate"),
    *("match_filter", "min_filesize", "max_filesize", "daterange", "playlist_items", "age_limit", "min_views"),
    *("max_views", "max_downloads", "download_archive", "external_downloader"),
    *("ignoreerrors", "listformats", "forceprint", "print_to_file", "cookiefile", "cookiesfrombrowser"),
)


def check_options(options: Mapping[str, Any]) -> None:
    """Raise UserError for secrets in the config, which would be recorded, and for files that are not there."""
    for word in options["yt_dlp"]:
        if SECRET_WORDS.search(word):
            raise UserError(SECRET_FOUND)
    for key in ("proxy", "url", "lists_url"):
        if "@" in re.sub(r"^[\w+.-]*://", "", options[key]).split("/")[0]:
            hint = "export HTTPS_PROXY=..." if key == "proxy" else "a cookies file"
            raise UserError(
                f"{key}: found an address with a user name or password; allowed is one without, since the "
                f"config is recorded. Use instead: {hint}"
            )
    for key in ("cookies", "netrc"):
        path = Path(os.path.expanduser(options[key]))
        if options[key] and not (path.is_file() and os.access(path, os.R_OK)):
            raise UserError(
                f"{key}: found {options[key]!r}, which cannot be read; allowed is the path of a file. "
                "Correct it, or leave the option out."
            )


def open_client(options: Mapping[str, Any], work: Path, cache: Path) -> "yt_dlp.YoutubeDL":
    """Return yt-dlp, set to download the best audio as it is to `work` / audio.EXT. Raises UserError for options."""
    import yt_dlp

    parameters = {
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
    parameters = {**_own_options(options, parameters), **parameters}
    try:
        if options["cookies"]:
            # In memory: yt-dlp writes the file again when it ends, and jobs would do so at the same time.
            parameters["cookiefile"] = io.StringIO(Path(os.path.expanduser(options["cookies"])).read_text("utf-8"))
        client = yt_dlp.YoutubeDL(parameters)
        with contextlib.redirect_stderr(io.StringIO()):  # yt-dlp shows lines that it cannot read
            client.cookiejar  # noqa: B018, read now
    except (yt_dlp.cookies.CookieLoadError, yt_dlp.utils.DownloadError, UnicodeDecodeError):
        raise UserError(
            f"cookies: found {options['cookies']!r}, which yt-dlp cannot read; allowed is a file in "
            "Netscape's format. Export it again from the browser."
        ) from None
    return client


class Log:
    """Takes what yt-dlp says; the last warning is kept, since it often tells why the error behind it came."""

    def __init__(self) -> None:
        self.last_warning = ""

    def debug(self, message: str) -> None:
        """Pass over a message, and an error, which is raised too."""

    error = debug

    def warning(self, message: str) -> None:
        """Keep a warning."""
        self.last_warning = message


def _own_options(options: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the user's command-line options for yt-dlp set, in the config and in the environment.

    Raises UserError for secrets in the config, and for options that would change `parameters` or `OURS`.
    """
    if set(_parsed(options["yt_dlp"])) & set(SECRET_KEYS):
        raise UserError(SECRET_FOUND)
    changed = _parsed([*options["yt_dlp"], *_secret_words()])
    if ours := sorted(key for key in changed if key in parameters or key in OURS or key.startswith("write")):
        raise UserError(
            f"yt_dlp: found options that set {', '.join(ours)}; these are the download's own, or options of "
            "the data set (cookies, netrc, proxy, timeout_seconds). Remove them."
        )
    return changed


def _secret_words() -> list[str]:
    """Return the options in the environment. Raises UserError where a quotation mark is missing."""
    try:
        return shlex.split(os.environ.get(SECRET_OPTIONS, ""))
    except ValueError as error:
        raise UserError(
            f"{SECRET_OPTIONS}: found a text that a shell cannot split ({error}); allowed are options as in a shell. "
            f"Try: export {SECRET_OPTIONS}='--option value'"
        ) from None


def _parsed(words: list[str]) -> dict[str, Any]:
    """Return the parameters of yt-dlp that differ from its defaults."""
    import yt_dlp

    if not words:
        return {}
    try:
        with contextlib.redirect_stdout(io.StringIO()), mock.patch("getpass.getpass", _no_password):
            default = yt_dlp.parse_options(["--ignore-config"])
            given = yt_dlp.parse_options(["--ignore-config", *words])
    except (optparse.OptParseError, SystemExit) as error:
        said = [re.sub(r"^\S+: error: ", "", line) for line in str(error).split("\n") if line.strip()][-1:]
        if os.environ.get(SECRET_OPTIONS):
            said = [f"not shown, since {SECRET_OPTIONS} is set"]
        elif isinstance(error, SystemExit):
            said = ["one that only prints something"]
        raise UserError(
            f"yt_dlp: found options that yt-dlp refuses ({''.join(said)}); allowed are those of the command yt-dlp. "
            "See yt-dlp --help."
        ) from None
    if given.urls:
        raise UserError(
            "yt_dlp: found a word that is neither an option nor its value; allowed are options. See yt-dlp --help."
        )
    before = {key: _text(value) for key, value in default.ydl_opts.items()}
    return {key: value for key, value in given.ydl_opts.items() if _text(value) != before.get(key)}


def _no_password(*_: Any) -> str:
    """Refuse what yt-dlp would ask for at the terminal: jobs run without one."""
    raise optparse.OptParseError("a user name without a password")


def _text(value: Any) -> str:
    """Return what tells a value from another; of functions, the name."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def secrets_of(options: Mapping[str, Any]) -> list[str]:
    """Return every value that no text may show: of cookies, netrc, proxies and the options in the environment."""
    found: set[str] = set()
    if options["cookies"]:
        for line in Path(os.path.expanduser(options["cookies"])).read_text("utf-8", "replace").splitlines():
            found.add(line.split("\t")[-1])
    if options["netrc"]:
        with contextlib.suppress(netrc.NetrcParseError):
            hosts = netrc.netrc(os.path.expanduser(options["netrc"])).hosts
            found |= {part for entry in hosts.values() for part in entry if part}
    for name in PROXIES:
        address = os.environ.get(name, "")
        parts = urllib.parse.urlsplit(address if "://" in address else f"//{address}")
        found |= {urllib.parse.unquote(part) for part in (parts.username, parts.password) if part}
        found |= {part for part in (parts.username, parts.password) if part}
    found |= {
        part
        for word in _secret_words()
        for value in [word.partition("=")[2] if word.startswith("--") else re.sub(r"^-\w", "", word)]
        for part in (value, *re.split(r"[=:+,;]", value), *re.split(r"[=:+,;\s]", value))
    }
    return sorted((secret for secret in found if len(secret) >= SHORTEST_SECRET), key=len, reverse=True)
