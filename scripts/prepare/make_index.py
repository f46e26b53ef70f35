"""Makes the index of a data set: a JSON file with the keys in a bucket, or the paths below a folder, by ending.

    feedrate index --folder /mnt/audio --endings .wav .flac --out index.json
    feedrate index --bucket clips --prefix speech/ --out index.json

Credentials are taken from the environment, or from a file. The list is written as it comes, page by page, in any
length. The source `indexed` reads it.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import whole_file
from scripts.machine.bucket_client import bucket_named, client_of, listed

ENDINGS = (".wav", ".flac", ".mp3", ".m4a", ".ogg", ".opus", ".aac")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the program's options."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = options.add_mutually_exclusive_group(required=True)
    where.add_argument("--bucket", help="the bucket that holds the objects")
    where.add_argument("--folder", type=Path, help="the folder that holds the files")
    options.add_argument("--endpoint", help="of the bucket, such as https://storage.example (default: Amazon's)")
    options.add_argument("--region", default="us-east-1", help="of the bucket (default: us-east-1)")
    options.add_argument("--credentials", type=Path, help="file of credentials (default: the environment's)")
    options.add_argument("--profile", default="default", help="the part of that file (default: default)")
    options.add_argument("--prefix", default="", help="only what begins so")
    options.add_argument("--endings", nargs="+", default=ENDINGS, help=f"only these (default: {' '.join(ENDINGS)})")
    options.add_argument("--out", required=True, type=Path, help="JSON file to write")
    return options


def main(args: argparse.Namespace) -> None:
    """Read the command line and write the index."""
    keys = _below(args.folder) if args.folder else _in_bucket(args)
    count = write_index(args.out, chosen(keys, args.prefix, args.endings))
    print(f"{args.out}: {count:,} keys", file=sys.stderr)


def chosen(keys: Iterable[str], prefix: str, endings: Iterable[str]) -> Iterator[str]:
    """Yield the keys that begin with `prefix` and have one of the endings, in capital letters too."""
    small = tuple(ending.lower() for ending in endings)
    for key in keys:
        if key.startswith(prefix) and key.lower().endswith(small):
            yield key


def write_index(path: Path, keys: Iterable[str]) -> int:
    """Write the keys as they come, and return how many; raises UserError, and writes nothing, for none."""
    count = 0
    with whole_file(path) as file:
        file.write('{"files": [')
        for key in keys:
            file.write(f"{',' if count else ''}\n{json.dumps(key, ensure_ascii=False)}")
            count += 1
        file.write("\n]}\n")
        if not count:
            raise UserError(
                "found no key of this prefix and these endings; allowed are some. See --prefix and --endings."
            )
    return count


def _in_bucket(args: argparse.Namespace) -> Iterator[str]:
    """Yield the keys of a bucket."""
    with client_of(bucket_named(vars(args))) as client:
        for found in listed(client, args.bucket, args.prefix):
            yield found.key


def _below(folder: Path) -> Iterator[str]:
    """Yield the paths below a folder, relative to it, folder by folder; hidden ones and those no text can name not."""
    if not folder.is_dir():
        raise UserError(f"--folder: found {str(folder)!r}, which is not a folder. Type the path of one that exists.")
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = os.path.relpath(os.path.join(parent, name), folder)
            try:
                path.encode()
            except UnicodeEncodeError:
                print(f"warning: {path!a} is left out: its name is not valid UTF-8", file=sys.stderr)
                continue
            if not name.startswith("."):
                yield path
