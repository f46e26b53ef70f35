"""The examples of docs/extending.md, run as they stand there: in a copy of the project, through its own suites."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.loader_cases import write_format
from tests.support.made_corpus import make_corpus
from tests.support.made_runs import Made, make_results
from tests.support.programs import PROJECT
from tests.support.workflow_copy import LEFT_OUT, ONE_ROUND, folders, warm_snakemake

EXAMPLE = re.compile(r"<!-- file: (?P<path>\S+) -->\n```python\n(?P<text>.*?)```", re.DOTALL)
INSERTED = re.compile(r"<!-- above: (?P<path>\S+): (?P<mark>[^\n]+) -->\n```text\n(?P<text>.*?)```", re.DOTALL)
PAGE = (PROJECT / "docs" / "extending.md").read_text(encoding="utf-8")
EXAMPLES = {match["path"]: match["text"] for match in EXAMPLE.finditer(PAGE)}
KIND = PROJECT / "tests" / "data" / "text.py"  # the page names it


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A copy of the project with the page's files in their places."""
    copied = shutil.copytree(PROJECT, tmp_path_factory.mktemp("project") / "feedrate", ignore=LEFT_OUT)
    for path, text in EXAMPLES.items():
        (copied / path).write_text(text)
    shutil.copy(KIND, copied / "scripts" / "kinds")
    for match in INSERTED.finditer(PAGE):
        file = copied / match["path"]
        before, found, after = file.read_text().partition(match["mark"])
        assert found, match["mark"]
        file.write_text(before + match["text"] + found + after)
    return copied


def run(project: Path, *command: str) -> str:
    if command[0] == "snakemake":
        said = project / ".said"
        status = warm_snakemake().run_module(*command[:1], project, *command[1:], environment=os.environ, written=said)
        output = said.read_text(errors="replace")
    else:
        done = subprocess.run([sys.executable, "-m", *command], cwd=project, capture_output=True, text=True)
        status, output = done.returncode, done.stdout + done.stderr
    assert status == 0, output[-6000:]
    return output


def test_they_pass_the_contract_suites(project):
    """The suites find the new files by themselves."""
    least = {
        ("loaders/test_loaders.py", "wave_module"): 4,
        ("loaders/test_programs.py", "wave_module"): 2,
        ("formats/test_formats.py", "raw_int16"): 4,
        ("tiers/test_tiers.py", "tar"): 1,
    }
    suites = sorted({f"tests/{suite}" for suite, _ in least})
    chosen = "wave_module or raw_int16 or (contract and tar)"
    output = run(project, "pytest", "-v", "-p", "no:cacheprovider", *suites, "-k", chosen)
    passed = re.findall(r"tests/(\S+\.py)::\S*\[(\S*)\] PASSED", output)
    for (suite, name), count in least.items():
        assert sum(found == suite and name in case for found, case in passed) >= count, (suite, name)


COLUMN = """
import sys
from pathlib import Path
from tests.support.made_runs import Made, make_results
from tests.support.report_pages import report_of, section
tables, _, html = report_of(Path(sys.argv[1]), [Made("a", "ram", [100.0, 101.0, 102.0]), Made("b", "ram", [None])])
assert [run["load_average"] for run in tables["runs"]] == [0.3, 0.3, 0.3, None], tables["runs"]
assert [row["load_average"] for row in tables["ranking"]] == [0.3, None], tables["ranking"]
words = section(html, "ranking")
assert " Load " in words and words.count(" 0.3 ") == 1, words
"""


def test_one_line_is_a_column_of_the_tables_the_report_and_the_page(project, tmp_path):
    (project / "column.py").write_text(COLUMN)
    run(project, "column", str(tmp_path / "made"))
    run(project, "scripts.tables.write_docs")
    page = (project / "docs" / "tables.md").read_text()
    assert "| `load_average` | number | `record: before.load_1m` | load average before the run |" in page
    assert "| `load_average` | number | `median: load_average` |" in page


def test_ruff_has_nothing_to_say_of_them(project):
    """As `make test` asks it."""
    run(project, "ruff", "check", "--no-cache", *EXAMPLES)
    run(project, "ruff", "format", "--no-cache", "--diff", *EXAMPLES)


def test_the_workflow_runs_them(project):
    """A config that names the source, the loaders, tiers of two kinds and the task: two loaders' results."""
    config = project / "config.yaml"
    text = re.sub(r"(?m)^dataset: .*$", "dataset: my_beeps", config.read_text())
    text = text.replace("datasets:\n", "datasets:\n  my_beeps: {source: beeps, clips: 20}\n", 1)
    text = text.replace("loaders:\n", "loaders:\n  - wave_module\n  - {name: tar_npy, file: tar_npy.py}\n", 1)
    tiers = f"  nvme: {{path: {project.parent / 'nvme'}}}\n  packed: {{kind: tar, path: results/packed}}\n"
    text = text.replace("storage:\n", f"storage:\n{tiers}", 1)
    config.write_text(text)
    arguments = [
        "--config",
        f"measure={json.dumps({**ONE_ROUND, 'seconds': 0.05, 'profile_seconds': 0.2})}",
        "sweep={workers: [0], task: [read, spectrum]}",
    ]
    run(project, "snakemake", "results/wave_module.json", "results/tar_npy.json", "--quiet", "all", *arguments)
    found = {
        name: json.loads((project / "results" / f"{name}.json").read_text()) for name in ("wave_module", "tar_npy")
    }
    for name, tiers in (("wave_module", {"nvme", "ram", "disk"}), ("tar_npy", {"packed"})):
        assert {run["tier"] for run in found[name] if run["status"] != "skipped"} == tiers
        assert {run["status"] for run in found[name]} <= {"ok", "skipped"}
        assert {run["task"] for run in found[name] if run["status"] == "ok"} == {"read", "spectrum"}
    planned = json.loads((project / "results" / "runs" / "my_beeps" / "plan.json").read_text())["skipped"]
    reasons = {(entry["loader"], entry["tier"]): entry["reason"] for entry in planned}
    for tier in ("nvme", "ram", "disk"):
        assert reasons["tar_npy", tier] == "it reads tar, and data on this tier is read by path"
    assert reasons["wave_module", "packed"] == "it reads path, and data on this tier is read by tar"
    [record] = (project / "results" / "placed" / "my_beeps" / "packed").glob("*.json")
    assert json.loads(record.read_text())["uri"].startswith("tar:///")


def test_a_kind_of_data_is_measured_by_what_reads_decoded_data(project, tmp_path):
    """A text that is too short is left out by name; the others are proven, by two loaders of two formats."""
    for number in range(40):
        (tmp_path / f"{number}.txt").write_text(f"{number} " * (100 if number else 1))
    config = {
        "dataset": "my_texts",
        "datasets": {"my_texts": {"source": "folder", "kind": "text", "path": str(tmp_path), "length": 64}},
        "loaders": ["numpy_memmap", "npy", "soundfile"],
        "storage": {"ram": None},
        "sweep": {"workers": [0], "task": ["read"]},
        "measure": {**ONE_ROUND, "seconds": 0.05, "profile_seconds": 0.2},
    }
    words = [f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in config.items()]
    asked = ["results/numpy_memmap.json", "results/npy.json"]
    output = run(project, "snakemake", *asked, "--quiet", "all", "--config", *words)
    assert "of the kind text: soundfile" in output
    for name in asked:
        statuses = {run["status"] for run in json.loads((project / name).read_text())}
        assert "ok" in statuses and statuses <= {"ok", "skipped"}, "skipped: without a GPU"
    rejected = (project / "results/corpus/my_texts/rejected.csv").read_text()
    assert "too short: 2 bytes, length asks for 64" in rejected and rejected.count("\n") == 2


def test_a_chart_is_in_the_rule_and_on_the_page(project):
    """The one file is enough: drawn by the rule that draws all, from tables of made runs."""
    plan = make_results(project, [Made("a", "ram", [9.0, 8.0, 7.0])])
    run(project, "scripts.tables.make_tables", "--plan", str(plan), "--root", ".", "--out", "results/tables/demo")
    planned = run(project, "snakemake", "-n", "--config", "dataset=demo")
    assert "report/figures/demo/cpu_time.svg" in planned
    only = ["report/index.html", "--config", "dataset=demo", "--allowed-rules", "draw_figures", "render_report"]
    run(project, "snakemake", *only)
    html = (project / "report" / "index.html").read_text()
    assert 'id="figure-cpu_time"' in html and 'download="cpu_time.csv"' in html
    assert html.index('<h3 id="memory">') < html.index('id="figure-cpu_time"')


def test_a_tar_file_is_evicted_by_the_file_that_holds_the_bytes(project):
    code = """
import sys
from pathlib import Path
from scripts.common import plugins
from scripts.machine.page_cache import evict, files_of, residency
kind = plugins.load("tiers", "tar")
place = kind.location({"path": sys.argv[1]}, "demo/npy")
kind.place({}, Path(sys.argv[2]), place)
files = files_of(place.split("train").held_in)
evict(files)
print([file.name for file in files], place.read_by, place.never("cold"), residency(files).resident_bytes)
"""
    with folders() as (disk, _):
        write_format(make_corpus(disk / "corpus", items=40, seconds=2), "npy", disk / "npy", 1)
        command = [sys.executable, "-c", code, disk / "tier", disk / "npy"]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("['train.tar'] tar None 0\n", "")
