"""Frees the disk of what the workflow can make again: formats and their copies, and with options the corpus and clips.

    feedrate free                               # says what each data set in results/ takes, and removes nothing
    feedrate free --dataset demo                # removes its formats, and their copies on disks and in RAM
    feedrate free --dataset demo --corpus       # its corpus too; it is decoded again from the clips

Measurements, tables and reports stay. A later call makes again only what it needs for results that are missing.
"""

import argparse
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlparse

from scripts.common.errors import UserError, nearest
from scripts.common.files import read_json
from scripts.plan.planning import at_work

RESULTS = Path("results")
DATA, CORPUS, CLIPS = "formats and copies", "corpus", "clips"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the program's options."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--dataset", help="the data set whose files are removed (default: none, only the list)")
    options.add_argument("--corpus", action="store_true", help="its corpus too, which is then decoded again")
    options.add_argument(
        "--clips", action="store_true", help="what was downloaded or made too: a download may take days"
    )
    return options


def datasets() -> list[str]:
    """Return the data sets that have a folder below results/."""
    found = {path.name for stage in ("formats", "placed", "corpus", "clips") for path in (RESULTS / stage).glob("*")}
    return sorted(name for name in found if (RESULTS / "runs" / name).is_dir() or (RESULTS / "corpus" / name).is_dir())


def places(dataset: str) -> dict[str, list[Path]]:
    """Return the folders that can be removed of a data set, by what they hold."""
    formats = [path for path in (RESULTS / "formats" / dataset).glob("*") if path.is_dir() and path.name != "part"]
    formats += [path for path in (RESULTS / "formats" / dataset / "part").glob("*") if path.is_dir()]
    shards = [RESULTS / "corpus" / dataset / "shards"]
    store = [RESULTS / "clips" / dataset / "store"]
    found = {DATA: [*formats, *copies(dataset)], CORPUS: shards, CLIPS: store}
    return {what: [path for path in paths if path.is_dir()] for what, paths in found.items()}


def copies(dataset: str) -> Iterator[Path]:
    """Yield the folders of a data set's copies on this machine, as their records name them."""
    for record in sorted((RESULTS / "placed" / dataset).glob("*/**/*.json")):
        uri = urlparse(read_json(record).get("uri") or "")
        path = Path(unquote(uri.path))
        if uri.scheme == "file" and dataset in path.parts and any(part.startswith("feedrate-") for part in path.parts):
            yield path


def size_of(paths: list[Path]) -> int:
    """Return the bytes that files below these folders take; of files with several names among them once."""
    seen: dict[tuple[int, int], int] = {}
    for path in paths:
        for folder, _, names in os.walk(path):
            for name in names:
                found = os.lstat(os.path.join(folder, name))
                seen[found.st_dev, found.st_ino] = found.st_blocks * 512
    return sum(seen.values())


def main(arguments: argparse.Namespace) -> None:
    """Remove the files of a data set, or list what can be removed."""
    known = datasets()
    if arguments.dataset is None:
        for name in known:
            sizes = {what: size_of(paths) / 1e9 for what, paths in places(name).items()}
            print(f"{name}: " + ", ".join(f"{what} {size:,.1f} GB" for what, size in sizes.items()))
        print("To remove a data set's formats and copies, type: feedrate free --dataset NAME")
        return
    if arguments.dataset not in known:
        raise UserError(
            f"--dataset: found {arguments.dataset!r}, allowed are {', '.join(known) or 'none: results/ holds none'}."
            f"{nearest(arguments.dataset, known)} Name one of them."
        )
    if others := at_work():
        raise UserError(others)
    wanted = [DATA, *([CORPUS] if arguments.corpus else []), *([CLIPS] if arguments.clips else [])]
    found = places(arguments.dataset)
    paths = [path for what in wanted for path in found[what]]
    before = shutil.disk_usage(RESULTS).free
    for path in paths:
        shutil.rmtree(path)
    freed = shutil.disk_usage(RESULTS).free - before
    what = " and ".join(wanted)
    print(f"{arguments.dataset}: removed {what}, {len(paths)} folders; {freed / 1e9:,.1f} GB more are free")
