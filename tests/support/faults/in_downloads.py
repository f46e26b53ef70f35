"""Faults of a download, by real yt-dlp from a server on loopback: of the network, of the store, of its processes."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.download_program import Download, in_order, watched
from tests.support.faults.project import MARK, PATIENCE, Project
from tests.support.faults.registry import Outcome, fault
from tests.support.faults.shim import Shim, fails, kills
from tests.support.loopback_tube import Fault, Tube, made_ids, make_recordings

CLIPS = 4
BOT = "Sign in to confirm you\u2019re not a bot"
LATER = "its row says why; the next call fetches it"
STOPS = "it stops, says so, and the same command goes on"


@contextmanager
def download(project: Project, **options: object) -> Iterator[Download]:
    """Yield a download of a few segments that is prepared, in an empty folder."""
    pool = project.folder / "recordings"
    if not project.recordings:
        pool.mkdir()
        project.recordings = make_recordings(pool)
    with Tube(project.recordings) as tube:
        made = Download(project.root / "download", tube, in_order(made_ids(CLIPS, seed=4)), options=dict(options))
        tube.recordings = dict.fromkeys(made.ids, "m4a")
        done = made.prepare(more=marked(project))
        assert done.status == 0, done.output
        yield made


def marked(project: Project, shim: Shim | None = None) -> dict[str, str]:
    """Return what is in the environment of a download's programs."""
    return {MARK: project.mark, **(shim.environment(project.log) if shim else {})}


def afterwards(project: Project, made: Download, text: str) -> Outcome:
    """Return the outcome once the same command has run without a fault: all is there, in full, and nothing else."""
    project.wait_until_gone()
    kept = made.fetched()  # which compares each with its record
    made.tube.faults = {}
    (done,) = made.fetch("afterwards", marked(project))
    assert done.status == 0, done.output[-1000:]
    fetched = {video for video, row in made.rows().items() if row.status == "fetched"}
    debris = list((made.store.root / "work").iterdir())
    return Outcome(text, lost=len(set(made.ids) - fetched) + len(kept - fetched), half=len(debris))


def of_the_network(name: str, place: str, what: Fault, says: str, short: bool = False, **options: object) -> None:
    """Enter a fault that meets the second segment."""

    @fault(f"download: {name}", "fetch", LATER, says, short)
    def _(project: Project) -> Outcome:
        with download(project, **options) as made:
            made.tube.faults[place, made.ids[1]] = what
            (done,) = made.fetch("first", marked(project))
            assert done.status == 0, done.output[-1000:]
            rows = made.rows()
            assert rows[made.ids[1]].status in ("failed", "stopped"), rows[made.ids[1]]
            said = [row.reason for row in rows.values() if row.reason]
            return afterwards(project, made, "\n".join([*said, made.count().output]))


AGAIN = r"To try the 1 that failed again, type the same command with --forcerun fetch_clips"
of_the_network("the connection is reset", "media", Fault.reset(9000), AGAIN, short=True)
of_the_network("a file is cut", "media", Fault.truncated(0.15), AGAIN)
of_the_network("it ends before its announced length", "media", Fault.short(9000), AGAIN)
of_the_network("garbage that says it is audio", "media", Fault.garbage(50_000), AGAIN)
of_the_network("a page in place of audio", "media", Fault.html(), AGAIN)
of_the_network("a server that sends next to nothing", "media", Fault.trickle(50), AGAIN, limit_seconds=8)
of_the_network("redirected for ever", "media", Fault.redirect_loop(), AGAIN)
of_the_network("the server answers 500", "watch", Fault.status(500), AGAIN)
of_the_network(
    "asked to prove to be no bot",
    "watch",
    Fault.unplayable("LOGIN_REQUIRED", BOT),
    r"bot check.*cookies.*type the same command",
)


@fault("download: a file name that leads elsewhere", "fetch", "nothing is written outside the store")
def _(project: Project) -> Outcome:
    with download(project) as made:
        made.tube.faults = {("media", video): Fault.hostile_name("../../../x.sh") for video in made.ids}
        (done,) = made.fetch("first", marked(project))
        assert done.status == 0, done.output[-1000:]
        outside = [path for path in (project.folder, project.root) if (path / "x.sh").exists()]
        found = afterwards(project, made, "")
        return Outcome("", found.lost, found.half + len(outside))


def of_the_store(name: str, shim: Shim, says: str | None) -> None:
    """Enter a fault of writing what comes."""

    @fault(
        f"download: {name}",
        "fetch",
        STOPS if says else "nothing half is taken for whole; the same command goes on",
        says,
    )
    def _(project: Project) -> Outcome:
        with download(project) as made:
            (done,) = made.fetch("first", marked(project, shim))
            assert project.log.exists(), f"the fault was not met: {done.output[-500:]}"
            assert done.status in (0, 2 if says else -9), (done.status, done.output[-1000:])
            said = [row.reason for row in made.rows().values() if row.reason] if done.status == 0 else []
            counted = made.count().output if done.status == 0 else ""
            return afterwards(project, made, "\n".join([*said, counted, done.output]))


of_the_store("the store's disk is full", fails("write", "store/work", "ENOSPC"), r"full.*[Mm]ake room")
of_the_store(
    "the store's quota is exceeded",
    fails("write", "store/work", "EDQUOT"),
    r"(full|quota).*([Mm]ake room|type the same command)",
)
of_the_store(
    "the store's disk fails", fails("write", "store/work", "EIO"), r"Input/output error.*dmesg|--forcerun fetch_clips"
)
of_the_store("killed before a record's rename", kills("rename", "store/segments", once=True), None)
of_the_store("killed before the ledger's rename", kills("rename", "ledger-0000.csv"), None)


@fault(
    "download: killed while it downloads, with its workers",
    "fetch",
    "the same command goes on; nothing is asked for twice",
)
def _(project: Project) -> Outcome:
    return killed(project, lambda process: os.killpg(process.pid, signal.SIGKILL))


@fault(
    "download: the job alone is killed", "fetch", "its workers end by themselves; the same command goes on", short=True
)
def _(project: Project) -> Outcome:
    return killed(project, lambda process: process.kill())


def killed(project: Project, kill) -> Outcome:
    """Return the outcome of a kill while the third segment is on its way."""
    released = threading.Event()
    with download(project) as made:
        made.tube.faults["media", made.ids[2]] = Fault.held(released)
        process = made.begin_fetch("first", more=marked(project))
        end = time.monotonic() + PATIENCE
        while not made.tube.count(made.ids[2], "media"):
            assert process.poll() is None and time.monotonic() < end, process.communicate()[0]
            time.sleep(0.02)
        kill(process)
        process.communicate()
        released.set()
        fetched = made.fetched()
        made.tube.clear()
        found = afterwards(project, made, "")
        return Outcome("", found.lost, found.half, wrong=len(set(watched(made.tube)) & fetched))


@fault("download: the clock is set back by an hour", "fetch", "it goes on within the pace that was asked for")
def _(project: Project) -> Outcome:
    pause = 1.5
    with download(project, least_pause_seconds=pause, most_pause_seconds=pause + 0.1) as made:
        begun = time.monotonic()
        (done,) = made.fetch("first", marked(project, Shim("clock", do="back", after=30, seconds=3600)))
        assert done.status == 0 and project.log.exists(), done.output[-1000:]
        assert time.monotonic() - begun < PATIENCE / 2
        times = sorted(asked.seconds for asked in made.tube.requests if asked.kind == "watch")
        hasty = times[-1] - times[0] < (CLIPS - 2) * pause  # a pause less than asked for: the first may arrive late
        found = afterwards(project, made, "")
        return Outcome("", found.lost, found.half, wrong=hasty)


@fault(
    "download: two calls on one store",
    "fetch",
    "the second says so and disturbs nothing",
    r"another call of feedrate is downloading.*type the same command",
)
def _(project: Project) -> Outcome:
    released = threading.Event()
    with download(project) as made:
        made.tube.faults["watch", made.ids[1]] = Fault.held(released)
        first = made.begin_fetch("first", more=marked(project))
        end = time.monotonic() + PATIENCE
        while not made.tube.count(made.ids[1], "watch"):
            assert first.poll() is None and time.monotonic() < end
            time.sleep(0.02)
        (second,) = made.fetch("second", marked(project))
        assert second.status == 2 and first.poll() is None, second.output[-1000:]
        released.set()
        assert Download.wait(first).status == 0
        twice = sum(count > 1 for count in watched(made.tube).values())
        found = afterwards(project, made, second.output)
        return Outcome(second.output, found.lost, found.half, wrong=twice)
