"""Makes the README's picture: the first screen of a report, as a browser shows it.

python -m bench.report_picture --report report/index.html --out docs/report.png
"""

import argparse
import io
from pathlib import Path

from PIL import Image

from tests.support.browser import Visit, launched

WIDTH, HEIGHT = 1280, 980
COLOURS = 64  # enough for text and bars, and a third of the bytes


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", type=Path, default=Path("report/index.html"))
    parser.add_argument("--out", type=Path, default=Path("docs/report.png"))
    arguments = parser.parse_args()
    with launched() as browser:
        visit = Visit(browser, arguments.report.resolve(), width=WIDTH, color_scheme="light")
        shot = visit.page.screenshot(clip={"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT})
        visit.close()
    image = Image.open(io.BytesIO(shot)).convert("RGB").quantize(COLOURS)
    image.save(arguments.out, optimize=True)
    print(f"{arguments.out}: {arguments.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
