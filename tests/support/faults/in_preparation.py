"""Faults of fetching a folder, of the corpus, of formats and of what is placed on a tier."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from scripts.common.corpus import Corpus
from tests.support import small_disks
from tests.support.faults import project as stages
from tests.support.faults.project import CORPUS, FORMAT, LEDGER, SHARD, STAGES, Done, Project, remove
from tests.support.faults.registry import Outcome, fault
from tests.support.faults.shim import NotHere, Shim, fails, kills
from tests.support.small_disks import CannotMount, remount

FULL = r"No space left on device.*[Ff]ree some space"
QUOTA = r"Disk quota exceeded.*([Ff]ree some space|quota)"
BROKEN_DISK = r"Input/output error.*dmesg"
READ_ONLY = r"[Rr]ead-only.*(Mount it|another path)"
WHOLE_AGAIN = "nothing half is taken for whole; the same command makes it"
STOPS = "it stops, says so, and the same command goes on"


def told(project: Project, stage: str, shim: Shim | None, ends: int | None = 2) -> Outcome:
    """Return the outcome of a stage whose program meets a fault and ends with a status."""
    found = project.faulty(stage, shim)
    assert ends is None or found.status == ends, f"it ended with status {found.status}: {found.output[-300:]}"
    return Outcome(found.output, found.lost, found.half)


def plain(name: str, stage: str, program: str, shim: Shim, says: str | None, short: bool = False) -> None:
    """Enter a fault of one call of the C library in one stage's program."""
    killed = shim.do == "kill"

    @fault(name, stage, WHOLE_AGAIN if killed else STOPS, says, short)
    def _(project: Project) -> Outcome:
        return told(project, program, shim, -9 if killed else 2)


plain("ledger: killed between write and rename", "fetch", "fetch", kills("rename", "ledger-0000.csv"), None)
plain("ledger: disk full", "fetch", "fetch", fails("write", "ledger-0000.csv", "ENOSPC"), FULL)
plain("clips.json: quota exceeded", "fetch", "count", fails("write", "clips.json", "EDQUOT"), QUOTA)
plain("ledger cannot be read", "corpus", "corpus", fails("read", "ledger-0000.csv", "EIO"), BROKEN_DISK)
plain("shard: killed between write and rename", "corpus", "corpus", kills("rename", "shards/0000", 0), None)
plain("shard: disk full", "corpus", "corpus", fails("write", ".0000.partial", "ENOSPC", 9), FULL)
plain("shard: quota exceeded", "corpus", "corpus", fails("write", ".0000.partial", "EDQUOT", 9), QUOTA)
plain("recording cannot be read", "corpus", "corpus", fails("read", "audio/a/04.wav", "EIO"), BROKEN_DISK, short=True)
plain("manifest: killed between write and rename", "corpus", "index", kills("rename", "manifest.csv"), None)
plain("format: killed while writing", "formats", "formats", kills("write", ".memmap.partial", 3), None)
plain("format: killed between write and rename", "formats", "formats", kills("rename", "demo/memmap"), None, short=True)
plain("format: killed before its record", "formats", "formats", kills("rename", "memmap.json"), None)
plain("format: disk full", "formats", "formats", fails("write", ".memmap.partial", "ENOSPC", 3), FULL)
plain("format: quota exceeded", "formats", "formats", fails("write", ".memmap.partial", "EDQUOT", 3), QUOTA)
plain("format: the flush fails", "formats", "formats", fails("sync", ".memmap.partial", "EIO"), BROKEN_DISK)
plain(
    "format: an item cannot be read", "formats", "formats", fails("read", "shards/0000/000007.wav", "EIO"), BROKEN_DISK
)
plain(
    "format: too many open files",
    "formats",
    "formats",
    fails("open", "shards/0000/000007.wav", "EMFILE"),
    r"open files.*ulimit -n",
)
plain("copy: killed between write and rename", "placed", "placed", kills("rename", "demo/memmap"), None)
plain("copy: killed before its record", "placed", "placed", kills("rename", "memmap.json"), None)
plain("copy: quota exceeded", "placed", "placed", fails("write", ".memmap.partial", "EDQUOT"), QUOTA)
plain("copy: the source cannot be read", "placed", "placed", fails("read", "formats/demo/memmap", "EIO"), BROKEN_DISK)
plain("copy: the flush fails", "placed", "placed", fails("sync", ".memmap.partial", "EIO"), BROKEN_DISK)


@fault("a decoding worker is killed once", "corpus", "its recordings are decoded again: no item is lost", short=True)
def _(project: Project) -> Outcome:
    return told(project, "corpus", kills("write", "work/000007", once=True), 0)


@contextmanager
def storage(project: Project, mount: AbstractContextManager[None], name: str) -> Iterator[Path]:
    """Yield a tier's folder on a file system of its own, for as long as the fault lasts."""
    try:
        with mount:
            yield project.folder / name
    except CannotMount as reason:
        raise NotHere(str(reason)) from None


def placed_on(project: Project, tier: Path) -> Done:
    """Copy the format to a tier at this folder."""
    return project.run(stages.placed(project, options={"path": str(tier)}))


def copied(project: Project, tier: Path) -> Outcome:
    """Return what is lost in a copy, or half."""
    copies = list(tier.glob(f"*/demo/{FORMAT}"))
    right = project.right["placed"][1]
    lost = len(right - stages.right_in(copies[0], Corpus(project.root / CORPUS))) if copies else len(right)
    return Outcome("", lost, len(list(tier.glob("*/demo/*"))) - len(copies))


def on_a_tier(project: Project, tier: Path, spoil: Callable[[], None], repair: Callable[[], None]) -> Outcome:
    """Return the outcome of copying to a tier that is spoilt, and then repaired."""
    spoil()
    done = placed_on(project, tier)
    assert done.status == 2, done.output[-500:]
    half = len(list(tier.glob("*/demo/*")))
    repair()
    again = placed_on(project, tier)
    assert again.status == 0, again.output[-500:]
    found = copied(project, tier)
    return Outcome(done.output, found.lost, half + found.half)


def filled(tier: Path, left: int) -> Path:
    """Fill a file system up to so many bytes and return the file that does."""
    filling = tier / "filling"
    with open(filling, "wb") as file, suppress(OSError):
        file.write(bytes(max(0, shutil.disk_usage(tier).free - left)))
    return filling


@fault("copy: a full file system in RAM", "placed", STOPS, r"needs [0-9,]+ bytes.*Free some space", short=True)
def _(project: Project) -> Outcome:
    tier = project.folder / "ram"
    with storage(project, small_disks.in_ram(tier, "1m"), "ram"):
        return on_a_tier(project, tier, lambda: filled(tier, 20_000) and None, (tier / "filling").unlink)


@fault("copy: a full disk (ext4 on a loop device)", "placed", STOPS, r"needs [0-9,]+ bytes.*Free some space")
def _(project: Project) -> Outcome:
    tier = project.folder / "disk"
    with storage(project, small_disks.on_a_disk(tier, 4), "disk"):
        return on_a_tier(project, tier, lambda: filled(tier, 40_000) and None, (tier / "filling").unlink)


@fault("copy: a disk that fills up beside it", "placed", STOPS, r"it ran full.*Free some space")
def _(project: Project) -> Outcome:
    return told(project, "placed", fails("write", ".memmap.partial", "ENOSPC", 1))


@fault("copy: the tier is mounted read-only", "placed", STOPS, r"mounted read-only; allowed is.*Set another path")
def _(project: Project) -> Outcome:
    tier = project.folder / "disk"
    with storage(project, small_disks.on_a_disk(tier, 4), "disk"):
        return on_a_tier(project, tier, lambda: remount(tier, "ro"), lambda: remount(tier, "rw"))


@fault("format: the results are mounted read-only", "formats", STOPS, READ_ONLY)
def _(project: Project) -> Outcome:
    place = project.root / "results" / "formats" / "demo"
    shutil.rmtree(place)
    with storage(project, small_disks.on_a_disk(place, 4), "formats"):
        remount(place, "ro")
        done = project.run(stages.formats(project))
        assert done.status == 2, done.output[-500:]
        remount(place, "rw")
        again = project.again("formats")
        return Outcome(done.output, again.lost, again.half)


@fault(
    "format: a bit flips while it is written",
    "formats",
    "what is written is read back",
    r"does not give back the corpus",
)
def _(project: Project) -> Outcome:
    return told(project, "formats", Shim("write", "train/audio.npy", "flip", after=1), 2)


HOSTILE = {
    "empty.wav": b"",
    "garbage.mp3": bytes(range(256)) * 64,
    "cut.flac": b"fLaC" + b"\0" * 30,
    "one_hertz.wav": b"RIFF\xa4\x0f\0\0WAVEfmt \x10\0\0\0\1\0\1\0\1\0\0\0\2\0\0\0\2\0\x10\0data\x80\x0f\0\0"
    + bytes(0xF80),
    "page.ogg": b"<!DOCTYPE html><title>Sorry</title>",
    "script.sh.wav": b"#!/bin/sh\nexit 1\n",
}


@fault(
    "hostile media, links, a named pipe and a deep tree",
    "corpus",
    "each is left out by name, with its reason",
    r"24 items, \d+ rejected",
    short=True,
)
def _(project: Project) -> Outcome:
    folder = project.root / "audio" / "a"
    for name, content in HOSTILE.items():
        (folder / name).write_bytes(content)
    os.mkfifo(folder / "pipe.wav")
    (folder / "zero.wav").symlink_to("/dev/zero")
    (folder / "loop").symlink_to(folder)
    (folder / "nowhere.wav").symlink_to("gone.wav")
    deep = os.open(folder, os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("d", dir_fd=deep)
        below = os.open("d", os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = below
    os.close(deep)
    fetched = project.run(stages.fetch(project))
    assert fetched.status == 0, fetched.output[-1000:]
    built = project.run(stages.corpus(project))
    assert built.status == 0, built.output[-1000:]
    rejected = (project.root / SHARD / "rejected.csv").read_text()
    silent = [name for name in (*HOSTILE, "pipe.wav", "zero.wav", "nowhere.wav") if name not in rejected]
    subprocess.run(["rm", "-r", folder / "d"], check=False)  # deeper than shutil goes
    return Outcome(built.output, len(project.right["corpus"][1] - stages.of_shard(project)) + len(silent))


@fault("hostile file names and labels", "corpus", "every item comes through with its name and its label")
def _(project: Project) -> Outcome:
    folder = project.root / "audio"
    names = [
        "-rf.wav",
        "a'b\"c.wav",
        "new\nline.wav",
        "=1+1.wav",
        "a#b.wav",
        "\u202egpj.wav",
        "x" * 240 + ".wav",
        "$(id).wav",
    ]
    label = "<script>alert(1)<script>"
    (folder / label).mkdir()
    for name in names:
        shutil.copy(folder / "a" / "00.wav", folder / label / name)
    for command in (stages.fetch, stages.count, stages.corpus, stages.index, stages.formats):
        done = project.run(command(project))
        assert done.status == 0, done.output[-2000:]
    ids = stages.of_manifest(project)
    whole = len(stages.of_format(project))
    return Outcome("", len(project.right["index"][1]) + len(names) - min(len(ids), whole))


@fault("a name that is no UTF-8", "corpus", "it is left out with a reason that says to rename it", r"rename the file")
def _(project: Project) -> Outcome:
    shutil.copy(project.root / "audio" / "a" / "00.wav", os.fsencode(project.root / "audio" / "a") + b"/\xff.wav")
    for command in (stages.fetch, stages.corpus):
        assert project.run(command(project)).status == 0
    text = (project.root / SHARD / "rejected.csv").read_text()
    return Outcome(text, len(project.right["corpus"][1] - stages.of_shard(project)))


def spoilt(project: Project, stage: str, path: str, change: Callable[[bytes], bytes]) -> Outcome:
    """Return the outcome of a stage whose input was damaged: it says so, or makes what is right."""
    file = project.root / path
    whole = file.read_bytes()
    file.write_bytes(change(whole))
    before = STAGES[stage]
    for output in before.outputs:
        remove(project.output(output))
    done = project.run(before.command(project))
    half = project.half(stage) if done.status == 0 else sum(project.output(one).exists() for one in before.outputs[:1])
    file.write_bytes(whole)
    again = project.again(stage)
    return Outcome(done.output, again.lost, half + again.half)


DAMAGED = r"found .*(run|make it again|[Dd]elete)"
for _name, _stage, _input, _path, _change in (
    ("ledger cut in the middle of a row", "corpus", "corpus", LEDGER, lambda text: text[: len(text) // 2]),
    ("ledger of other columns", "corpus", "corpus", LEDGER, lambda text: text.replace(b"status", b"state")),
    ("items.csv cut in the middle of a row", "corpus", "index", f"{SHARD}/items.csv", lambda text: text[:-30]),
    ("corpus.json cut", "formats", "formats", f"{CORPUS}/corpus.json", lambda text: text[:40]),
    ("manifest cut in the middle of a row", "formats", "formats", f"{CORPUS}/manifest.csv", lambda text: text[:-40]),
    (
        "manifest that lacks its last rows",
        "formats",
        "formats",
        f"{CORPUS}/manifest.csv",
        lambda text: b"".join(text.splitlines(True)[:-2]),
    ),
    ("item of the corpus cut", "formats", "formats", f"{SHARD}/000003.wav", lambda text: text[:100]),
    (
        "item of the corpus with one bit flipped",
        "formats",
        "formats",
        f"{SHARD}/000003.wav",
        lambda text: text[:2000] + bytes([text[2000] ^ 1]) + text[2001:],
    ),
):

    @fault(_name, _stage, "it is refused by its name, and what to make again", DAMAGED)
    def _(project: Project, stage=_input, path=_path, change=_change) -> Outcome:
        return spoilt(project, stage, path, change)
