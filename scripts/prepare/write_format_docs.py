"""Writes docs/formats.md, the layout of each format on disk, and the tables of docs/loaders.md, from the plug-ins.

python -m scripts.prepare.write_format_docs
"""

from collections.abc import Iterator
from types import ModuleType

from scripts.common import plugins
from scripts.common.errors import run_main
from scripts.common.files import PROJECT, whole_file
from scripts.common.location import PATH
from scripts.common.sample import audio

PAGE = PROJECT / "docs" / "formats.md"
LOADERS = PROJECT / "docs" / "loaders.md"
END = "<!-- end -->"  # of a generated table
EXAMPLES = {  # whose bytes the page names: of the first kind that a format is for
    "audio": ("10 s of audio", audio(160_000)),
    "image": ("224 x 224 pixels", plugins.load("kinds", "image").Kind((224, 224)).sample),
    "crops": ("a piece: 3 s of stereo at 48 kHz", plugins.load("kinds", "crops").Kind(48_000, 3, 0, channels=2).sample),
}
_HEAD = """\
# What each format writes

Generated from `scripts/formats/*.py` by `python -m scripts.prepare.write_format_docs`. To add a format, see
[extending.md](extending.md#a-format-one-file).

A format is the folder `results/formats/DATASET/FORMAT/`, with a folder for each split: `train` and `validation`. Below,
*the folder* is that of a split.

- Item i is item i of the split, in the order of the manifest ([data.md](data.md)); there are n of them.
- An item *as it is delivered* is, of audio, float32 (1, samples), padded with zeros or cut to the fixed length.
  *Stored values* are those of the corpus, of audio int16; `frames` is the natural length.
- Names and types are given for audio. Other data has `image` or `array` in place of `audio`, with its type and shape.
- Formats have three label arrays beside the data, but for `tensordict`, `webdataset` and those of Hugging Face and
  Lhotse, which hold labels themselves. `item.npy`, int64 (n,), is the
  index in the manifest; `target.npy`, int64 (n,), is the first class. `labels.npy`, float32 (n, classes), is multi-hot.
- Values are little-endian.

Bytes are without headers and padding; of encoded images they are those of the pixels. With `shards: yes` the number
of files grows with the workers that read them.

| format | what it is | bytes of an item | shards | written with |
|---|---|---|---|---|
"""


def lines() -> Iterator[str]:
    """Yield the parts of the page of formats: the head, a table of sizes, and the layout of each format."""
    yield _HEAD
    formats = {name: plugins.load("formats", name) for name in plugins.names("formats")}
    for name, module in formats.items():
        example, sample = EXAMPLES[plugins.kinds(module)[0]]
        size = f"{module.BYTES_PER_ITEM(sample):,} ({example})"
        shards = "yes" if module.READERS else "no"
        required = ", ".join(getattr(module, "REQUIRES", ()))
        yield f"| [`{name}`](#{name}) | {plugins.describe(module)} | {size} | {shards} | {required} |\n"
    for name, module in formats.items():
        _, _, layout = (module.__doc__ or "").strip().partition("\n\n")
        yield f"\n## {name}\n\n{layout}\n"


def loaders() -> str:
    """Return the page of loaders with its tables renewed."""
    modules = {name: plugins.load("loaders", name) for name in plugins.names("loaders")}
    groups: dict[str, list[str]] = {"files": [], "images": [], "objects": []}
    for name, module in sorted(modules.items(), key=lambda entry: (entry[1].FORMAT, entry[0])):
        row = f"| `{name}` | {module.FORMAT} | {plugins.describe(module)} | {_options(module)} |\n"
        groups[_group(module)].append(row)
    head = "| loader | format | what it is | options |\n|---|---|---|---|\n"
    page = LOADERS.read_text(encoding="utf-8")
    for name, rows in groups.items():
        before, _, rest = page.partition(f"<!-- loaders of {name} -->\n")
        page = f"{before}<!-- loaders of {name} -->\n{head}{''.join(rows)}{rest[rest.index(END) :]}"
    return page


def _group(module: ModuleType) -> str:
    if PATH not in getattr(module, "READS", (PATH,)):
        return "objects"
    return "images" if plugins.kinds(module) == ("image",) else "files"


def _options(module: ModuleType) -> str:
    """Return a loader's own settings, of each the default and then what else is allowed."""
    found = []
    for name, part in getattr(module, "OPTIONS", {}).items():
        others = [value for value in part.get("enum", ()) if value != part["default"]]
        found.append(f"{name}: {', '.join(map(str, [part['default'], *others]))}")
    return "; ".join(found)


def main() -> None:
    """Write both pages."""
    for page, text in ((PAGE, "".join(lines())), (LOADERS, loaders())):
        with whole_file(page) as file:
            file.write(text)


if __name__ == "__main__":
    run_main(main)
