"""What each stage of the preparation took, from Snakemake's measurements of shards and the records of the rest."""

from scripts.common.files import write_json
from scripts.tables import stages

PLAN = {"dataset": "demo", "formats": {"npy": {}, "wav": {}}, "tiers": {"disk": {}, "ram": {}}}
HEADINGS = "s\th:m:s\tmax_rss\tcpu_time"


def job(root, rule, shard, seconds, busy):
    path = root / "results" / "logs" / "demo" / rule / f"{shard:04d}.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{HEADINGS}\n{seconds}\t0:00:01\t146.93\t{busy}\n")


def record(root, *place, seconds, size):
    path = root.joinpath("results", *place)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"seconds": seconds, "bytes": size})


def test_shards_are_summed_and_formats_and_copies_have_a_row_each(tmp_path):
    for shard, (seconds, busy) in enumerate([(1.5, 2.5), (2.5, 4.5)]):
        job(tmp_path, "build_corpus", shard, seconds, busy)
    record(tmp_path, "formats", "demo", "npy.json", seconds=3.0, size=100)
    record(tmp_path, "formats", "demo", "part", "npy.json", seconds=1.0, size=10)
    record(tmp_path, "formats", "demo", "part", "wav.json", seconds=0.5, size=5)
    record(tmp_path, "placed", "demo", "ram", "npy.json", seconds=0.2, size=100)
    found = list(stages.rows(PLAN, tmp_path))
    assert found[0] == {"stage": "decode", "jobs": 2, "seconds": 4.0, "cpu_seconds": 7.0}
    assert [(row["stage"], row["format"], row["tier"], row["seconds"], row["bytes"]) for row in found[1:]] == [
        ("write", "npy", "", 3.0, 100),
        ("write", "wav", "", 0.5, 5),
        ("place", "npy", "ram", 0.2, 100),
    ]
    assert stages.decoding_seconds(found) == 4.0 and stages.decoding_seconds(found[1:]) is None


def test_a_job_too_short_to_be_measured_and_an_absent_stage_are_no_rows(tmp_path):
    job(tmp_path, "fetch_clips", 0, 0.1, "NA")
    assert list(stages.rows(PLAN, tmp_path)) == []
