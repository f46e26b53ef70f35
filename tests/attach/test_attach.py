"""Real trainings under attach: what it finds, and that it breaks nothing."""

import ast
import json
import os
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import jsonschema
import pytest

from tests.support.programs import PROJECT
from tests.support.workflow_copy import heed_interrupts

ATTACH = PROJECT / "scripts/attach/feedrate_attach.py"
TRAININGS = Path(__file__).parent / "trainings"
SCHEMA = json.loads((PROJECT / "docs/attach.schema.json").read_text())


def command(*arguments: str, options: tuple[str, ...] = ("--budget", "3"), ranks: int = 1) -> list[str]:
    """A training under attach; the first of `arguments` is the script."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    return [sys.executable, *launcher, str(ATTACH), *options, *arguments]


def attach(folder: Path, name: str, *arguments: str, **how) -> tuple[subprocess.CompletedProcess, dict]:
    """The finished program and attach.json of a training in tests/attach/trainings."""
    done = subprocess.run(
        command(str(TRAININGS / name), *arguments, **how),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
    )
    file = folder / "attach.json"
    found = json.loads(file.read_text()) if file.is_file() else {}
    if found:
        jsonschema.validate(found, SCHEMA)
    return done, found


@pytest.mark.parametrize(
    ("name", "dataset"),
    [
        ("plain.py", "Items"),
        ("with_lightning.py", "Items"),
        ("with_transformers.py", "Items"),
        ("with_accelerate.py", "Items"),
        ("with_speechbrain.py", "Named"),
        ("with_lhotse.py", "Cuts"),
        ("images.py", "Images"),
        ("stream.py", "Stream"),
        ("two_loaders.py", None),
        ("thread.py", "Items"),
        ("other_loader.py", None),
    ],
)
def test_a_training_that_waits_four_fifths_is_input_bound(tmp_path, name, dataset):
    done, found = attach(tmp_path, name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert found["verdict"] == "INPUT-BOUND", done.stdout
    assert found["au"]["by"] == "rounds" and found["au"]["percent"] < 60, done.stdout + done.stderr
    if dataset:
        assert found["loader"]["dataset"] == dataset
    if found["lines"]:
        assert any("fault" in row["code"] or "ITEM" in row["code"] for row in found["lines"]["lines"][:2])
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("*.partial"))


def test_workers_that_are_not_forked(tmp_path):
    done, found = attach(tmp_path, "started_anew.py", "spawn")  # and a worker by each other method at the end
    assert done.returncode == 0 and found["verdict"] == "INPUT-BOUND", done.stdout + done.stderr
    assert {row["method"] for row in found["starts"]} == {"fork", "forkserver", "spawn"}
    assert all(row["seconds"] > 0 and row["error"] is None for row in found["starts"])


def test_two_ranks_with_one_that_is_slow(tmp_path):
    done, found = attach(tmp_path, "ranks.py", ranks=2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert found["world"] == 2 and found["verdict"] == "INPUT-BOUND", done.stdout
    waits = {row["rank"]: row["wait_ms"] for row in found["ranks"]}
    assert waits[1] > 4 * waits[0]
    assert "rank 1 waits the longest" in done.stdout


def test_passive_changes_no_loss(tmp_path):
    without = subprocess.run(
        [sys.executable, str(TRAININGS / "plain.py"), "2", "240", "2"], capture_output=True, text=True, check=True
    )
    done, found = attach(tmp_path, "plain.py", "2", "240", "2", options=("--passive", "--items"))
    losses = [line for line in done.stdout.splitlines() if line.startswith("loss")]
    assert losses == [line for line in without.stdout.splitlines() if line.startswith("loss")] and len(losses) == 60
    assert [float.fromhex(line.split()[1]) for line in losses] == found["losses"]
    assert "trained to the end" in done.stdout
    assert found["au"]["by"] == "waits" and found["au"]["low"] is None
    assert found["items"]["number"] == found["items"]["distinct"] == 240


def test_a_script_that_ends_before_the_watch(tmp_path):
    done, found = attach(tmp_path, "plain.py", "1", "160", "0")
    assert done.returncode == 0 and "trained to the end" in done.stdout
    assert found["au"]["by"] == "waits" and found["verdict"] == "INPUT-BOUND"


def test_one_batch_is_too_few(tmp_path):
    done, found = attach(tmp_path, "plain.py", "1", "8", "0")
    assert done.returncode == 0 and found["verdict"] == "NOT-SEEN"
    assert "found 1 batch of a DataLoader in this process, needed are 3" in done.stdout


def test_a_script_that_raises_keeps_its_status(tmp_path):
    done, found = attach(tmp_path, "raises.py")
    assert done.returncode == 1 and "ValueError: planted" in done.stderr
    assert found["batches"] == 31


def test_a_script_without_a_loader_keeps_its_status(tmp_path):
    done, found = attach(tmp_path, "no_loader.py")
    assert done.returncode == 7 and found["verdict"] == "NOT-SEEN"


def test_a_loop_that_catches_everything_is_ended(tmp_path):
    done, found = attach(tmp_path, "holds.py")
    assert done.returncode == 0 and found["au"]["by"] == "rounds"


def test_a_batch_of_an_unknown_type(tmp_path):
    done, found = attach(tmp_path, "unknown_batch.py")
    assert done.returncode == 0 and found["verdict"] == "INPUT-BOUND", done.stdout + done.stderr
    assert found["batch"]["items"] is None and found["batch"]["type"] == "Strange"
    assert "saw no optimizer step" in done.stdout


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_reports_and_a_second_one_ends_at_once(tmp_path, times):
    words = command(str(TRAININGS / "plain.py"), options=("--budget", "500"))
    running = subprocess.Popen(
        words,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=heed_interrupts,
    )
    try:
        said = [running.stdout.readline() for _ in range(30)]  # losses: it trains
        assert said[-1].startswith("loss")
        for _ in range(times):
            running.send_signal(signal.SIGINT)
        rest, _ = running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
    assert running.returncode in ((130,) if times == 1 else (130, -signal.SIGINT))
    if times == 1:
        assert "INPUT-BOUND" in rest and (tmp_path / "attach.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nowhere.py",), "found no file 'nowhere.py'"),
        (("--out", "nowhere/attach.json", str(TRAININGS / "plain.py")), "found no folder"),
    ],
)
def test_bad_input_is_said(tmp_path, arguments, says):
    done = subprocess.run(command(options=arguments), cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr


def test_the_command_runs_the_same_program(tmp_path):
    words = [sys.executable, "-m", "scripts.feedrate", "attach", "--passive", str(TRAININGS / "no_loader.py")]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == 7 and "NOTHING MEASURED" in done.stdout


def test_the_file_is_python_3_9():
    ast.parse(ATTACH.read_text(encoding="utf-8"), feature_version=(3, 9))


def test_the_versions_of_the_page_are_those_that_are_tested():
    page = (PROJECT / "docs/attach.md").read_text()
    for name in ("torch", "lightning", "transformers", "accelerate", "speechbrain", "lhotse", "torchvision"):
        assert f"{name} {metadata.version(name)}" in page
