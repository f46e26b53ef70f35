"""The page for Snakemake's report: the same text and tables, static pictures, and below what a browser shows there.

Snakemake shows an HTML file as a data address in an iframe. Chromium blocks such addresses above 2 MiB, and the pane
stays blank (`url::kMaxURLChars`).
"""

import re
from collections.abc import Callable, Iterable, Mapping
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
    files = [_left_out(file, parts["light_of"]) for file in parts["downloads"]]
    bare = {**parts, "charts": charts, "figures": {}, "downloads": files}
    room = LIMIT - len(page(bare, False).encode())
    if room < 0:
        return page(bare, True)
    named = {file["name"]: file["address"] for file in parts["downloads"]}
    kept, room = _fitting([(("file", KEPT), named[KEPT])], room)
    drawn = {name: chart for name, chart in parts["charts"].items() if chart["rows"]}
    shown, room = _fitting(((name, picture_address(pictures[name])) for name in drawn), room)
    offered = {("csv", name): chart["csv"] for name, chart in drawn.items()}
    offered |= {("file", file["name"]): file["address"] for file in parts["downloads"] if file["address"]}
    small = ((key, address) for key, address in offered.items() if len(address) <= FILE_LIMIT)
    others = sorted((one for one in small if one[0] not in kept), key=lambda one: len(one[1]))
    held = kept | _fitting(others, room)[0]
    for name, chart in charts.items():
        chart["csv"] = held.get(("csv", name), "")
    bare["downloads"] = [
        whole if ("file", whole["name"]) in held else left
        for whole, left in zip(parts["downloads"], files, strict=True)
    ]
    return page({**bare, "figures": shown}, False)


def _fitting(addresses: Iterable[tuple[Any, str]], room: int) -> tuple[dict[Any, str], int]:
    """Return those addresses that fit into some bytes, one after the other, and the bytes that are left."""
    found = {}
    for key, address in addresses:
        needed = len(address.encode()) + 300  # the element around it
        if needed <= room:
            found[key] = address
            room -= needed
    return found, room


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
