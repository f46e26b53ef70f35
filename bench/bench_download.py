"""Times the download without limits against a server on loopback, next to a plain `yt-dlp` command per clip.

Goal: at least 3 times the clips per second, with the same number of jobs. Both ask the same server for the same videos
and both end with a ten-second clip in a file: the command by `--download-sections`, or, which is quicker and does less,
by downloading the whole audio and cutting nothing. The ratio is to the quicker of the two.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.loopback_tube import CLASS_LIST, Tube, made_ids, made_list, make_recordings
from tests.support.programs import PROJECT, program_line

START = 5.0
METHODS = {
    "yt-dlp, sections": ("--download-sections", f"*{START}-{START + 10}"),
    "yt-dlp, whole": (),
}


def quiet_environment() -> dict[str, str]:
    """Return an environment in which yt-dlp finds the test's extractor and no proxy."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join([str(PROJECT / "tests" / "support"), str(PROJECT)]),
    }


def plain(tube: Tube, ids: list[str], jobs: int, options: tuple[str, ...], out: Path) -> float:
    """Return the clips per second of one `yt-dlp` command per clip."""

    def run(video: str) -> None:
        command = [sys.executable, "-m", "yt_dlp", "--ignore-config", "--quiet", "--no-warnings", "-f", "bestaudio"]
        command += ["-o", str(out / f"{video}.%(ext)s"), *options, "--", tube.watch_url % {"id": video}]
        subprocess.run(command, env=quiet_environment(), check=True)

    began = time.perf_counter()
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(run, ids))
    seconds = time.perf_counter() - began
    assert len(list(out.iterdir())) == len(ids), "clips are missing"
    return len(ids) / seconds


def ours(tube: Tube, ids: list[str], jobs: int, out: Path) -> float:
    """Return the clips per second of `fetch_clips.py`, one process a job, from its start to its end."""
    (out / "list.csv").write_bytes(made_list(ids, start=START))
    unlimited = dict.fromkeys(("requests_per_hour", "least_pause_seconds", "most_pause_seconds"), 0)
    options = {"list": str(out / "list.csv"), "class_labels": str(CLASS_LIST), "url": tube.watch_url, **unlimited}
    common = ["--source", "audioset", "--options", json.dumps(options), "--shards", str(jobs)]
    common += ["--store", str(out / "store")]
    environment = quiet_environment()
    prepare = [*program_line("prepare_clips"), *common, "--out", str(out / "prepared")]
    subprocess.run(prepare, env=environment, check=True, stdout=subprocess.DEVNULL)
    began = time.perf_counter()
    fetch = [*program_line("fetch_clips"), *common, "--prepared", str(out / "prepared")]
    programs = [
        subprocess.Popen(
            [*fetch, "--shard", str(shard), "--ledger", str(out / f"ledger-{shard}.csv")],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for shard in range(jobs)
    ]
    assert [program.wait() for program in programs] == [0] * jobs
    seconds = time.perf_counter() - began
    fetched = sum((out / f"ledger-{shard}.csv").read_text().count(",fetched,") for shard in range(jobs))
    assert fetched == len(ids), f"{fetched} of {len(ids)} clips came"
    return len(ids) / seconds


def main() -> None:
    """Print clips per second of each way, several rounds of all side by side, and the ratio of the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=200, help="of our download, in a round")
    parser.add_argument("--plain-clips", type=int, default=12, help="of each plain way, in a round")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    speeds: dict[str, list[float]] = {}
    folder = Path(tempfile.mkdtemp(prefix="feedrate-bench-", dir="/var/tmp"))
    try:
        (folder / "recordings").mkdir()
        with Tube(make_recordings(folder / "recordings")) as tube:
            for number in range(arguments.rounds):
                ids = made_ids(arguments.clips, seed=number)
                for way, options in METHODS.items():
                    (folder / f"{number} {way}").mkdir()
                    some = ids[: arguments.plain_clips]
                    speed = plain(tube, some, arguments.jobs, options, folder / f"{number} {way}")
                    speeds.setdefault(way, []).append(speed)
                (folder / f"{number} ours").mkdir()
                speeds.setdefault("feedrate", []).append(ours(tube, ids, arguments.jobs, folder / f"{number} ours"))
    finally:
        shutil.rmtree(folder)
    for way, found in speeds.items():
        rounds = ", ".join(f"{speed:.2f}" for speed in found)
        print(f"{way}: {statistics.median(found):.2f} clips/s (rounds: {rounds}), {arguments.jobs} jobs")
    medians = {way: statistics.median(found) for way, found in speeds.items()}
    ratio = medians.pop("feedrate") / max(medians.values())
    print(json.dumps({"bench": "download, vs yt-dlp per clip", "ratio": ratio, "goal": 3}))


if __name__ == "__main__":
    main()
