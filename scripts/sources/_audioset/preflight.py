"""What must be there before the first request: programs that work, room on the disk, and a server that answers."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.common.errors import UserError
from scripts.sources._audioset.pace import HOUR, in_words, stretched

if TYPE_CHECKING:
    import yt_dlp

OLDEST_YT_DLP = "2025.11.12"  # the first that solves YouTube's challenges by a JavaScript runtime
BYTES_PER_SECOND = 20_000  # 160 kbit/s, YouTube's best audio
WORK_BYTES = 1 << 30  # whole recordings under way
ELSEWHERE = (
    "To try feedrate without a download: make demo. For audio of your own, set its path in config.yaml and type: "
    "snakemake --config dataset=my_folder"
)
_CONDA = "; with --use-conda raise the versions in envs/download.yaml"


def check_programs(client: "yt_dlp.YoutubeDL", address: str) -> str:
    """Return what was found, in words.

    Raises UserError where yt-dlp is too old, FFmpeg lacks a decoder, or, for YouTube, no JavaScript runtime works.
    """
    import av
    from yt_dlp.globals import supported_js_runtimes
    from yt_dlp.version import __version__

    if tuple(map(int, __version__.split(".")[:3])) < tuple(map(int, OLDEST_YT_DLP.split("."))):
        raise UserError(
            f"yt-dlp: found version {__version__}; needed is {OLDEST_YT_DLP} or newer. "
            f"Try: pip install --upgrade yt-dlp yt-dlp-ejs{_CONDA}"
        )
    absent = [codec for codec in ("opus", "aac", "vorbis") if codec not in av.codecs_available]
    if absent:
        raise UserError(
            f"FFmpeg (in av {av.__version__}): found no decoder for {', '.join(absent)}. Try: pip install av{_CONDA}"
        )
    ffmpeg = ".".join(map(str, av.library_versions["libavcodec"]))
    found = f"yt-dlp {__version__}, FFmpeg's libavcodec {ffmpeg}"
    if "youtube.com" not in address:
        return found
    try:
        import yt_dlp_ejs  # noqa: F401
    except ImportError:
        raise UserError(f"yt-dlp-ejs: not found; YouTube needs it. Try: pip install yt-dlp-ejs{_CONDA}") from None
    seen = []
    for name, settings in client.params["js_runtimes"].items():
        known = supported_js_runtimes.value.get(name)
        runtime = known and known(path=(settings or {}).get("path")).info
        if runtime and runtime.supported:
            return f"{found}, {name} {runtime.version}"
        seen.append(f"{name} {runtime.version}, too old" if runtime else f"no {name}")
    raise UserError(
        f"JavaScript runtime: found {' and '.join(seen) or 'none'}; YouTube needs one that yt-dlp supports. "
        f"Try: pip install --upgrade deno{_CONDA}"
    )


def check_room(folder: Path, seconds: float) -> str:
    """Return what `seconds` of audio take up, in words. Raises UserError where there is no room for it."""
    needed = int(seconds * BYTES_PER_SECOND) + WORK_BYTES
    free = shutil.disk_usage(folder).free
    words = (
        f"about {needed / 1e9:.1f} GB of disk ({WORK_BYTES / 1e9:.1f} while they come), {free / 1e9:.1f} GB are free"
    )
    if free < needed:
        raise UserError(
            f"{folder}: needed are {words}. In config.yaml set `store` to a folder on a larger disk, or lower `limit`."
        )
    return words


def check_server(problem: str, what: str) -> None:
    """Raise UserError that says how to go on without the server of `what`, where there is a `problem` with it."""
    if problem:
        raise UserError(f"{what} cannot be reached ({problem}). Needed is a connection to it, or a proxy. {ELSEWHERE}")


def duration(segments: int, options: Mapping[str, Any]) -> str:
    """Return in words how long `segments` requests take at the limit."""
    each = _seconds_each(options)
    if each == 0:
        return "no limit on requests is set"
    hourly = f"{HOUR / each:,.{0 if each <= HOUR else 1}f}"
    return f"at most {hourly} requests an hour: about {in_words(hours(segments, options))}"


def hours(segments: int, options: Mapping[str, Any]) -> float:
    """Return how many hours `segments` requests take at the limit."""
    return segments * _seconds_each(options) / HOUR


def _seconds_each(options: Mapping[str, Any]) -> float:
    pauses = (options["least_pause_seconds"], options["most_pause_seconds"])
    return sum(stretched(pauses, options["requests_per_hour"])) / 2
