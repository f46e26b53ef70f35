"""The download as Snakemake runs it: nothing is asked for twice, whatever is changed, deleted, killed or forced."""

import csv
import json
import os
import re
import signal
import socket
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml

from scripts.plan.experiment import Plan
from scripts.prepare import index_corpus
from scripts.sources._audioset.segments import Segment, choose
from tests.support import loopback_tube
from tests.support.loopback_tube import CLASS_LIST, Fault, Tube, made_ids, made_list
from tests.support.workflow_copy import PATIENCE, PROJECT, ProjectCopy, folders, rules_of

recordings = loopback_tube.recordings

CLIPS = 150  # two shards
IDS = made_ids(CLIPS, seed=5)
WANTED = "results/corpus/audioset/corpus.json"  # all that the download is for
RESULT = "results/numpy_memmap.json"
BOT = "Sign in to confirm you\u2019re not a bot"


@pytest.fixture(scope="module")
def places():
    with folders() as found:
        yield found


@pytest.fixture(autouse=True)
def plain_network(monkeypatch):
    """yt-dlp finds the test's extractor, and no proxy stands before loopback."""
    monkeypatch.setenv("PYTHONPATH", str(PROJECT / "tests" / "support"))
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


def options_of(tube: Tube, folder: Path, **options) -> dict:
    """Return the entry of a data set that comes from `tube`, without limits."""
    path = folder / "list.csv"
    path.write_bytes(made_list(IDS, start=2.0))
    unlimited = dict.fromkeys(("requests_per_hour", "least_pause_seconds", "most_pause_seconds"), 0)
    return {
        **{"source": "audioset", "list": str(path), "class_labels": str(CLASS_LIST), "url": tube.watch_url},
        **{"back_off_seconds": 0.05, **unlimited, **options},
    }


def copy_of(places, name: str, tube: Tube, **options) -> ProjectCopy:
    """Return a project whose data set `audioset` comes from `tube`, and which has no tier in RAM."""
    disk, ram = places
    project = ProjectCopy(disk / name, ram, storage={"disk": {"path": "results/placed"}})
    datasets = {**project.config["datasets"], "audioset": options_of(tube, project.root, **options)}
    project.configure(dataset="audioset", datasets=datasets)
    return project


def set_options(project: ProjectCopy, **options) -> None:
    """Change options of the data set `audioset` in the config."""
    datasets = dict(project.config["datasets"])
    datasets["audioset"] = {**datasets["audioset"], **options}
    project.configure(datasets=datasets)


def ledger_rows(project: ProjectCopy) -> list[dict[str, str]]:
    """Return the rows of all ledgers of the data set."""
    rows = []
    for path in sorted((project.root / "results" / "clips" / "audioset").glob("ledger-*.csv")):
        with open(path, encoding="utf-8", newline="") as file:
            rows += csv.DictReader(file)
    return rows


def watched(tube: Tube) -> int:
    """Return how many videos were asked for so far."""
    return sum(request.kind == "watch" for request in tube.requests)


def asked_twice(tube: Tube) -> dict[str, int]:
    """Return the videos that were asked for more than once."""
    counts = Counter(request.id for request in tube.requests if request.kind == "watch")
    return {video: count for video, count in counts.items() if count > 1}


def test_nothing_is_asked_for_twice(places, recordings):
    """Not after Ctrl-C, another limit, a ledger deleted, changed code or --forceall."""
    with Tube(recordings) as tube:
        project = copy_of(places, "once", tube, limit=140)
        for video in IDS[:40]:
            tube.faults["watch", video] = Fault.slow(0.1)
        first = project.start(WANTED)
        while watched(tube) < 30:
            assert first.poll() is None, first.communicate()[0][-3000:]
            time.sleep(0.02)
        os.killpg(first.pid, signal.SIGINT)
        first.communicate(timeout=PATIENCE)
        assert first.returncode != 0
        tube.faults.clear()
        interrupted = asked_twice(tube)
        assert interrupted == {}

        project.snakemake(WANTED)
        rows = ledger_rows(project)
        assert len(rows) == len({row["id"] for row in rows}) == 140
        assert {row["status"] for row in rows} == {"fetched"}
        under_way = asked_twice(tube)  # two jobs were interrupted, each within one video
        assert len(under_way) <= 2 and set(under_way.values()) <= {2}
        tube.clear()
        assert project.planned(WANTED) == [], "a call that should find nothing to do"

        set_options(project, limit=100)
        project.snakemake(WANTED)
        counts = json.loads((project.root / "results" / "clips" / "audioset" / "clips.json").read_text())
        assert (counts["asked"], counts["fetched"]) == (100, 100)
        set_options(project, limit=140)
        (project.root / "results" / "clips" / "audioset" / "ledger-0000.csv").unlink(missing_ok=True)
        source = project.root / "scripts" / "sources" / "audioset.py"
        source.write_text(source.read_text() + "# changed\n")
        project.snakemake(WANTED)
        project.snakemake(WANTED, "--forceall")
        project.snakemake("--delete-all-output", WANTED)
        assert ledger_rows(project) == []
        project.snakemake(WANTED)
        assert sorted(row["id"] for row in ledger_rows(project)) == sorted(row["id"] for row in rows)
        assert [request for request in tube.requests if request.kind != "root"] == [], "asked for what was there"

        set_options(project, requests_per_hour=5000, timeout_seconds=20, cookies=str(CLASS_LIST))
        jobs = rules_of(project.planned(WANTED))
        assert jobs == {}, "how clips are fetched decides nothing about which"
        set_options(project, requests_per_hour=0, cookies="", limit="all")
        project.snakemake(WANTED)
        assert watched(tube) == CLIPS - 140, "a larger limit asks for what it adds"


def test_a_bot_check_stops_all_shards_and_the_same_command_goes_on(places, recordings):
    with Tube(recordings) as tube:
        project = copy_of(places, "bot", tube)
        tube.faults["watch", IDS[50]] = Fault.unplayable("LOGIN_REQUIRED", BOT)
        stopped = project.call(WANTED)
        assert stopped.status != 0
        assert "bot check" in stopped.output and "requests_per_hour" in stopped.output, "what to do is not said"
        failed = set(re.findall(r"Error in rule (\w+)", stopped.output))
        assert failed == {"count_clips"}, "one error for the whole download"
        assert not (project.root / "results" / "corpus" / "audioset" / "manifest.csv").exists()
        asked = [request for request in tube.requests if request.kind == "watch"]
        [seen] = [number for number, request in enumerate(asked) if request.id == IDS[50]]
        beside = len(asked) - seen - 1  # what the other job asked for until it was told
        assert beside < 30, "requests after the bot check"
        assert len(asked) < CLIPS - 50
        rows = ledger_rows(project)
        assert len(rows) == CLIPS
        assert {row["status"] for row in rows} == {"fetched", "stopped"}

        tube.faults.clear()
        project.snakemake(WANTED)
        assert {row["status"] for row in ledger_rows(project)} == {"fetched"}
        assert set(asked_twice(tube)) == {IDS[50]}
        assert project.planned(WANTED) == [], "a call that should find nothing to do"


def test_the_benchmark_starts_from_a_partial_set_and_names_it(places, recordings):
    with Tube(recordings) as tube:
        project = copy_of(places, "partial", tube, min_clips=40)
        tube.faults["watch", IDS[7]] = Fault.unplayable("ERROR", "Private video")
        project.configure(loaders=["numpy_memmap"])
        project.snakemake()
        counts = json.loads((project.root / "results" / "clips" / "audioset" / "clips.json").read_text())
        assert counts["asked"] == CLIPS
        assert 40 <= counts["fetched"] < 100
        assert counts["waiting"] == CLIPS - counts["fetched"] - counts["unavailable"]
        page = (project.root / "report" / "index.html").read_text()
        corpus = json.loads((project.root / "results" / "corpus" / "audioset" / "corpus.json").read_text())
        assert f"{counts['fetched']} of {CLIPS}" in page, "the report does not name the set"
        assert "a partial set" in page and corpus["ids_hash"] in page
        rejected = (project.root / "results" / "corpus" / "audioset" / "rejected.csv").read_text()
        assert "not tried" not in rejected, "clips that nobody asked for are not rejected"
        assert project.planned() == [], "a call that should find nothing to do"
        fetched = counts["fetched"]

        set_options(project, min_clips="all")
        project.snakemake(WANTED)
        counts = json.loads((project.root / "results" / "clips" / "audioset" / "clips.json").read_text())
        assert (counts["fetched"], counts["unavailable"], counts["waiting"]) == (CLIPS - 1, 1, 0)
        assert "render_report" in rules_of(project.planned())
        assert counts["fetched"] > fetched
        assert asked_twice(tube) == {}


def test_what_is_shipped_says_at_once_that_youtube_cannot_be_reached(places):
    """The config as it is, but for the addresses: a port at which nobody listens is a machine without network."""
    disk, ram = places
    project = ProjectCopy(disk / "offline", ram)
    config = yaml.safe_load((PROJECT / "config.yaml").read_text())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{taken.getsockname()[1]}"
        entry = {**config["datasets"]["audioset_eval"], "lists_url": f"{closed}/", "url": f"{closed}/%(id)s"}
        project.configure(dataset=config["dataset"], datasets={**config["datasets"], "audioset_eval": entry})
        done = project.call(RESULT)
    assert config["dataset"] == "audioset_eval"
    assert done.status != 0
    assert "make demo" in done.output and "Traceback" not in done.output, done.output[-3000:]
    assert set(re.findall(r"Error in rule (\w+)", done.output)) == {"prepare_clips"}


def test_a_second_workflow_on_the_same_store_says_so_and_stops(places, recordings):
    with Tube(recordings) as tube:
        project = copy_of(places, "second", tube, limit=60, timeout_seconds=PATIENCE)
        released = threading.Event()
        for video in IDS:
            tube.faults["watch", video] = Fault.held(released)
        first = project.start(WANTED)
        while not watched(tube):
            assert first.poll() is None, first.communicate()[0][-3000:]
            time.sleep(0.02)
        other = copy_of(places, "elsewhere", tube, limit=60)
        set_options(other, store=str(project.root / "results" / "clips" / "audioset" / "store"))
        done = other.call(WANTED)
        assert done.status != 0
        assert "another call of feedrate is downloading" in done.output, done.output[-2000:]
        released.set()
        output, _ = first.communicate(timeout=PATIENCE)
        assert first.returncode == 0, output[-3000:]
        assert asked_twice(tube) == {}

        other.snakemake(WANTED)
        assert asked_twice(tube) == {}, "two projects share a store"


def test_the_plan_of_the_largest_list_reads_no_list(places, recordings):
    """2,041,789 segments: neither the published list nor one of the user's own is opened when the plan is made."""
    with Tube(recordings) as tube:
        project = copy_of(places, "large", tube, list="unbalanced_train")
        assert Plan(project.config).shards == 1000
        made = project.root / "made.csv"
        with open(made, "wb") as file:
            file.truncate(2_041_789 * 60)  # a hole: to read it as a list would fail
        set_options(project, list=str(made))
        jobs = rules_of(project.planned(WANTED))
        assert jobs["fetch_clips"] == 1000 and jobs["prepare_clips"] == 1
        assert tube.requests == []


@pytest.mark.parametrize("seed", [0, 1])
def test_a_choice_says_nothing_about_the_split(seed):
    """Both are made by a hash of seed and id: a part of the set has a fair share of validation clips."""
    segments = [Segment(video, 0.0, 10.0, ("x",)) for video in made_ids(5000)]
    for limit in (500, 1000):
        chosen = choose(segments, set(), limit, seed)
        validation = sum(index_corpus.split_of(segment.id, 0.1, seed) == "validation" for segment in chosen)
        assert 0.05 * limit < validation < 0.15 * limit
