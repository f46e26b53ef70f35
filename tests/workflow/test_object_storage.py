"""Object storage through the whole workflow: one line of config, no secret in what is written, no server left."""

import csv
from pathlib import Path
from unittest import mock

import pytest

from scripts.common import facts
from scripts.machine.signing import KEY, SECRET, TOKEN
from tests.support.object_faults import BUCKET, faulty
from tests.support.workflow_copy import ProjectCopy, folders, rules_of

PLANTED = {KEY: "planted-key-id", SECRET: "planted/secret+key", TOKEN: "planted-token"}


def rows_of(project, name):
    with open(project.root / "results" / "tables" / "demo" / f"{name}.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_one_line_of_config_measures_objects_that_are_far_away():
    with folders() as (disk, ram), faulty(disk / "objects") as server, mock.patch.dict("os.environ", PLANTED):
        far = {"kind": "s3", "endpoint": server.endpoint, "bucket": BUCKET, "latency_ms": 2}
        storage = {"far": far, "disk": {"path": "results/placed"}}
        loaders = [{"name": "s3_boto3", "fetchers": [0, 5]}, "npy"]
        project = ProjectCopy(disk / "project", ram, storage=storage, loaders=loaders)
        project.configure(sweep={**project.config["sweep"], "cache": ["warm", "cold"]})
        output = project.snakemake("--cores", "2")
        ranked = {
            (row["loader"], row["tier"], row["cache"], row["options"]): row for row in rows_of(project, "ranking")
        }
        for fetchers in (0, 5):
            row = ranked["s3_boto3", "far", "warm", f'{{"fetchers": {fetchers}}}']
            assert row["status"] == "ok" and row["bound"] in ("storage", "in_memory"), row
        found = facts.sessions(project.root, "demo")[-1]
        [result] = [one for one in found.results if one.startswith("far/") and one.endswith("fetchers_0")]
        record = found.record(result, found.rounds(result)[0])
        assert record["emulated"]["name"] == "latency 2 ms"
        row = ranked["s3_boto3", "far", "warm", '{"fetchers": 0}']
        assert float(row["requests_per_epoch"]) == pytest.approx(record["items"], rel=0.2), "a GET an item"
        expected = record["items"] * record["item_bytes"]
        assert float(row["answer_bytes_per_epoch"]) == pytest.approx(expected, rel=0.2)
        skipped = {(row["loader"], row["tier"]): row["reason"] for row in rows_of(project, "skipped")}
        assert skipped["npy", "far"] == "it reads path, and data on this tier is read by s3"
        assert skipped["s3_boto3", "disk"] == "it reads s3, and data on this tier is read by path"
        assert skipped["s3_boto3", "far"].startswith("it is never cold: the data is in object storage")
        [tier] = [row for row in rows_of(project, "tiers") if row["tier"] == "far"]
        assert tier["kind"] == "objects" and float(tier["random_items_per_second"]) > 0
        gets = [row for row in rows_of(project, "bounds") if row["tier"] == "far"]
        assert {row["readers"] for row in gets} == {"1", "5", "20", "64"}
        assert project.planned() == [], "all is there"

        assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(project.root) in read(path)]
        for value in PLANTED.values():
            assert value not in output
            written = [
                path for part in ("results", "report", ".snakemake") for path in (project.root / part).rglob("*")
            ]
            assert not [path for path in written if path.is_file() and value.encode() in path.read_bytes()]
        changed = {**storage, "far": {**storage["far"], "latency_ms": 3}}
        project.configure(storage=changed)
        assert rules_of(project.planned())["place_on_far"] == 1, "other emulation is another place"


def read(path):
    """Return the command line of a process that may have ended."""
    try:
        return path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
