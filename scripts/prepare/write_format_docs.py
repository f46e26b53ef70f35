"""Writes docs/formats.md: the layout of each format on disk, from what the formats say of themselves.

python -m scripts.prepare.write_format_docs
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from scripts.common import plugins
from scripts.common.errors import run_main
from scripts.common.files import PROJECT, whole_file
from scripts.common.sample import audio

PAGE = PROJECT / "docs" / "formats.md"
EXAMPLES = {  # whose bytes the page names: of the first kind that a format is for
    "audio": ("An item of 10 s at 16 kHz takes {:,} bytes", audio(160_000)),
    "image": (
        "An image of 224 x 224 takes {:,} bytes as pixels",
        plugins.load("kinds", "image").Kind((224, 224)).sample,
    ),
}
_HEAD = """# The layout of each format

Generated from `scripts/formats/*.py` by `python -m scripts.prepare.write_format_docs`; how to add a format is in
[extending.md](extending.md#a-format-one-file).

A written format is `results/formats/DS/FORMAT/`, with a folder for each split: `train` and `validation`. Items are
numbered from 0 in the order of the manifest ([data.md](data.md)), `n` of them in a split; `samples` is the fixed
length of a delivered item, and `frames` the natural length of one. Values are little-endian. Where a format's files
hold audio only, three arrays are beside them (`scripts/common/labels.py`): `item.npy` int64 (n,), the index in the
manifest; `target.npy` int64 (n,), the first class; and `labels.npy` float32 (n, classes), multi-hot. An `.npy` file
is NumPy's format 1.0: a header of 128 bytes (4,096 where the file is one array of all items, so that the data begins
on a page), then the array in C order.
"""


def lines() -> Iterator[str]:
    """Yield the page's parts: the head, and for each format its layout, its bytes and who needs what."""
    yield _HEAD
    for name in plugins.names("formats"):
        module = plugins.load("formats", name)
        example, sample = EXAMPLES[plugins.kinds(module)[0]]
        about = (module.__doc__ or "").strip()
        yield f"\n## {name}\n\n{about}\n\n"
        yield f"- {example.format(module.BYTES_PER_ITEM(sample))}, headers and padding of the library not counted.\n"
        yield f"- Written with: {', '.join(getattr(module, 'REQUIRES', ())) or 'Python alone'}.\n"
        if module.READERS:
            yield "- The number of files depends on how many workers read them.\n"


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=PAGE, type=Path, help="file to write")
    with whole_file(parser.parse_args().out) as file:
        file.writelines(lines())


if __name__ == "__main__":
    run_main(main)
