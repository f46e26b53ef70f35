"""The page for Snakemake's report: the same text and tables, static pictures, and below what a browser shows there.

Snakemake shows an HTML file as a data address in an iframe. Chromium blocks such addresses above 2 MiB, and the pane
stays blank (`url::kMaxURLChars`).
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from markupsafe import Markup

LIMIT = 1_400_000  # bytes of the page: base64 makes 1.87 MB of them, and the address has to stay below 2.097 MB
KEPT = "ranking.csv"  # the file to download that overrides the pictures
FILE_LIMIT = 100_000  # characters of the address of a file to download; larger ones are in the full report alone
_LETTER = re.compile(r'(<use [^>]*)transform="translate\((\S+) 0\)"')  # of a text: each has a place of its own
_ROUNDED = re.compile(r' (?:d|x|y)="[^"]*"|translate\([^)]*\)')  # not scale(): its digits count


def lightened(
    parts: Mapping[str, Any], pictures: Mapping[str, str], page: Callable[[Mapping[str, Any], bool], str]
) -> str:
    """Return the page that `page(parts, too_large)` makes of as many of the parts as fit below LIMIT.

    `parts` are the template's variables, `pictures` SVG files as text. Text and tables come first, then the file KEPT,
    then pictures in the order that they are given, then the other files, small ones first. Each that does not fit is
    left out, and the page says so. Where the tables alone are too large, it is a page that names the full report.
    """
    charts = {name: {**chart, "csv": ""} for name, chart in parts["charts"].items()}
    left_out = [_left_out(file, parts["light_of"]) for file in parts["downloads"]]
    bare = {**parts, "charts": charts, "figures": {}, "downloads": left_out}
    room = LIMIT - len(page(bare, False).encode())
    if room < 0:
        return page(bare, True)
    drawn = {name: chart["csv"] for name, chart in parts["charts"].items() if chart["rows"]}
    files = {file["name"]: file["address"] for file in parts["downloads"] if file["address"]}
    small = {("csv", name): address for name, address in drawn.items()}
    small |= {("file", name): address for name, address in files.items() if name != KEPT}
    small = {key: address for key, address in small.items() if len(address) <= FILE_LIMIT}
    held = {}
    for key, address in [
        (("file", KEPT), files[KEPT]),
        *((("picture", name), picture_address(pictures[name])) for name in drawn),
        *sorted(small.items(), key=lambda one: len(one[1])),
    ]:
        needed = len(address.encode()) + 300  # the element around it
        if needed <= room:
            held[key] = address
            room -= needed
    for name, chart in charts.items():
        chart["csv"] = held.get(("csv", name), "")
    bare["figures"] = {name: held["picture", name] for name in drawn if ("picture", name) in held}
    bare["downloads"] = [
        file if ("file", file["name"]) in held else _left_out(file, parts["light_of"]) for file in parts["downloads"]
    ]
    return page(bare, False)


def _left_out(file: Mapping[str, Any], full: str) -> dict[str, Any]:
    """Return a file to download without its content."""
    if not file["address"]:
        return dict(file)
    return {**file, "address": None, "about": f"{file['about']}; it is in {full}"}


def picture_address(svg: str) -> Markup:
    """Return an SVG file of Matplotlib as a data address for a double-quoted attribute, two thirds of its base64.

    Coordinates are rounded to a tenth of a point. Its texts are paths, so that spaces between tags say nothing.
    """
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = _ROUNDED.sub(lambda found: re.sub(r"\.0\b", "", re.sub(r"(\.\d)\d+", r"\1", found[0])), svg)
    svg = _LETTER.sub(r'\1x="\2"', svg)
    svg = re.sub(r"\s+", " ", re.sub(r">\s+<", "><", svg))
    svg = svg.replace("xlink:href=", "href=").replace("DejaVuSans-", "d")  # of each of a thousand letters
    svg = svg.replace("'", "&apos;").replace('"', "'")
    svg = svg.replace("%", "%25").replace("#", "%23").replace("&", "&amp;")
    return Markup(f"data:image/svg+xml;charset=utf-8,{svg}")
