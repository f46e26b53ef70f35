"""yt-dlp's way to read the watch pages of `loopback_tube`, which fails as its YouTube extractor does."""

from yt_dlp.extractor.common import InfoExtractor
from yt_dlp.extractor.youtube._base import YoutubeBaseInfoExtractor
from yt_dlp.utils import remove_end


class LoopbackTubeIE(InfoExtractor):
    """Reads http://127.0.0.1:PORT/watch?v=ID."""

    _VALID_URL = r"http://127\.0\.0\.1:\d+/watch\?v=(?P<id>[0-9A-Za-z_-]{11})(?:&|#|$)"
    _COOKIE_HOWTO_WIKI_URL = YoutubeBaseInfoExtractor._COOKIE_HOWTO_WIKI_URL
    _youtube_login_hint = YoutubeBaseInfoExtractor._youtube_login_hint

    def _real_extract(self, url: str) -> dict:
        """Return the video's information; raises ExtractorError or GeoRestrictedError where it cannot be played."""
        video_id = self._match_id(url)
        page = self._download_json(url, video_id)
        formats = page["formats"]
        if not formats:
            self._raise_unplayable(page["playability"])
        return {
            "id": page["id"],
            "title": page["title"],
            "duration": page["duration"],
            "formats": [{**each, "vcodec": "none"} for each in formats],
        }

    def _raise_unplayable(self, playability: dict) -> None:
        """Raise as the end of `YoutubeIE._real_extract` does; a page without a reason passes there too."""
        reason = playability["reason"] or ""
        subreason = playability.get("subreason")
        if subreason:
            if subreason.startswith("The uploader has not made this video available in your country"):
                self.raise_geo_restricted(subreason, metadata_available=True)
            if subreason != reason:
                reason += f". {subreason}"
        if not reason:
            return
        if "sign in" in reason.lower():
            reason = remove_end(reason, "This helps protect our community. Learn more")
            reason = f"{remove_end(reason.strip(), '.')}. {self._youtube_login_hint}"
        elif "This content isn't available, try again later" in reason:
            reason = f"{remove_end(reason.strip(), '.')}. The current session has been rate-limited by YouTube"
        self.raise_no_formats(reason, expected=True)
