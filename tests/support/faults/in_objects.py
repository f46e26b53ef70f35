"""Faults of object storage: the server's, an object that is gone or another, an upload that is cut short."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.common.corpus import Corpus
from scripts.common.errors import UserError
from tests.support.faults.project import CORPUS, MARK, PATIENCE, Project
from tests.support.faults.registry import Outcome, fault
from tests.support.loader_cases import Placed, write_format
from tests.support.object_epochs import epoch_of, objects_of
from tests.support.object_stores import object_store
from tests.support.programs import PROJECT

LOADER = "ring_s3"
MANY = 9999  # more than all attempts
NAMED = "the error names the object, and no item is delivered wrong"
OBJECT = r"object .*000011\.npy"


@contextmanager
def bucket(project: Project) -> Iterator[tuple[Corpus, Placed, str]]:
    """Yield the corpus, a bucket with its format, and the key of an object that the loader reads."""
    corpus = Corpus(project.root / CORPUS)
    with object_store(project.root / "objects") as store:
        placed = Placed(corpus, project.root / "written", store)
        yield corpus, placed, objects_of(placed, LOADER)[-1]


def read(corpus: Corpus, placed: Placed) -> Outcome:
    """Return the outcome of an epoch: what it says, or the items that the gate finds wrong."""
    try:
        problems = epoch_of(corpus, placed, LOADER, {})
    except UserError as error:
        return Outcome(str(error))
    return Outcome("", wrong=len(problems))


def passing(name: str, what: str, short: bool = False) -> None:
    """Enter a fault that goes away when it is asked again."""

    @fault(f"objects: {name}, once", "objects", "it is asked for again: every item comes once", short=short)
    def _(project: Project) -> Outcome:
        with bucket(project) as (corpus, placed, key):
            placed.store.plant(key, what)
            found = read(corpus, placed)
            assert not placed.store.planted(key), "the fault was not met"
            return Outcome(found.text, wrong=found.wrong, lost=bool(found.text))


def lasting(name: str, what: str, says: str) -> None:
    """Enter a fault that stays."""

    @fault(f"objects: {name}, every time", "objects", NAMED, says)
    def _(project: Project) -> Outcome:
        with bucket(project) as (corpus, placed, key):
            placed.store.plant(key, *[what] * MANY)
            return read(corpus, placed)


passing("the server answers 500", "internal")
passing("the connection is reset", "reset", short=True)
passing("an object is cut", "truncated")
passing("an answer of another length", "wrong_length")
lasting("an object is cut", "truncated", OBJECT)
lasting("access is denied", "forbidden", rf"{OBJECT}|AccessDenied")
lasting("the credentials have expired", "expired", r"[Ee]xpired|credentials")


@fault("objects: an object is gone", "objects", NAMED, OBJECT)
def _(project: Project) -> Outcome:
    with bucket(project) as (corpus, placed, key):
        placed.store.delete(key)
        return read(corpus, placed)


@fault(
    "objects: an object has changed since it was placed",
    "objects",
    NAMED,
    rf"{OBJECT}.*ETag has changed|ETag has changed",
    short=True,
)
def _(project: Project) -> Outcome:
    with bucket(project) as (corpus, placed, key):
        placed.store.replace(key)
        return read(corpus, placed)


def without(objects: list[dict]) -> list[dict]:
    """Return the objects of an index but for one item's."""
    return [one for one in objects if one["key"] != "000003.npy"]


def index(name: str, change: Callable[[str], str]) -> None:
    """Enter a local index of objects that is damaged."""

    @fault(name, "objects", "it names the index, and no item is delivered", r"index\.json.*([Dd]elete|place|again)")
    def _(project: Project) -> Outcome:
        with bucket(project) as (corpus, placed, _key):
            file = placed.location(LOADER).split("train").index / "index.json"
            file.write_text(change(file.read_text()))
            return read(corpus, placed)


index("objects: the local index is cut", lambda text: text[: len(text) // 2])
index(
    "objects: the local index lacks an object",
    lambda text: json.dumps({**json.loads(text), "objects": without(json.loads(text)["objects"])}),
)


UPLOAD = """
import json, sys
from pathlib import Path
from scripts.common.location import from_json
from scripts.tiers._objects.upload import upload
upload(Path(sys.argv[1]), from_json(json.loads(sys.argv[2])))
"""


@fault("objects: killed while it uploads", "objects", "no index; the same command goes on, and every item is there")
def _(project: Project) -> Outcome:
    corpus = Corpus(project.root / CORPUS)
    with object_store(project.root / "objects") as store:
        folder = project.root / "written" / "npy"
        write_format(corpus, "npy", folder, readers=1)
        location = store.location("npy")
        environment = {**os.environ, "PYTHONPATH": str(PROJECT), MARK: project.mark}
        command = [sys.executable, "-c", UPLOAD, str(folder), json.dumps(location.as_json())]
        process = subprocess.Popen(command, env=environment)
        end = time.monotonic() + PATIENCE
        while not sent(store.folder):
            assert process.poll() is None and time.monotonic() < end
        process.send_signal(signal.SIGKILL)
        process.wait()
        half = location.index.exists()
        placed = Placed(corpus, project.root / "written", store)
        found = read(corpus, placed)
        return Outcome(found.text, lost=bool(found.text), half=half, wrong=found.wrong)


def sent(folder: Path) -> list[Path]:
    """Return some of the files that the store has."""
    return [path for path in (folder / "data").rglob("*") if path.is_file() and path.stat().st_size > 1000][:1]
