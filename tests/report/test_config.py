"""What a report says of the code and the config that its numbers were made with."""

import json
import shutil

import pytest
import yaml

from scripts.common.versions import CODE, commit
from scripts.plan.experiment import Plan
from scripts.report import render_report
from scripts.report.config import code_text, config_text
from tests.support.made_runs import Made, session_of
from tests.support.programs import PROJECT
from tests.support.report_pages import links, rendered, report_of, section
from tests.support.repository import committed, git

SHIPPED = yaml.safe_load((PROJECT / "config.yaml").read_text())


@pytest.fixture
def project(tmp_path):
    """A repository that holds something of all that decides on a number, and a config."""
    for name in (*CODE, "config.yaml"):
        path = tmp_path / "project" / (name if "." in name else f"{name}/file")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("as it was committed\n")
    committed(tmp_path / "project")
    return tmp_path / "project"


def test_the_commit_is_that_which_is_checked_out(project, monkeypatch):
    head = git(project, "rev-parse", "HEAD")
    assert commit(project) == head[:12]
    (project / "config.yaml").write_text("dataset: mine\n")
    (project / "results").mkdir()
    (project / "results" / "run.json").write_text("{}")
    assert commit(project) == head[:12], "a config is no code: the report shows it whole"
    monkeypatch.setenv("GIT_DIR", str(project / "elsewhere"))
    assert commit(project) == head[:12], "as called from a hook of another repository"


@pytest.mark.parametrize("changed", ["scripts/file", "scripts/loaders/mine.py", "workflow/file", "requirements.lock"])
def test_code_that_was_changed_is_said_to_be(project, changed):
    (project / changed).parent.mkdir(exist_ok=True)
    (project / changed).write_text("otherwise\n")
    assert commit(project) == git(project, "rev-parse", "HEAD")[:12] + "-dirty"


def test_no_commit_is_made_up(project, monkeypatch):
    inside = project / "scripts" / "copy"
    inside.mkdir()
    assert commit(inside) is None, "the repository around it is not its own"
    git(inside, "init")
    assert commit(inside) is None, "nothing is committed there yet"
    monkeypatch.setenv("PATH", "")
    assert commit(project) is None, "no git"
    monkeypatch.undo()
    shutil.rmtree(project / ".git")
    assert commit(project) is None


def test_the_config_in_a_report_asks_for_the_same_runs():
    """With the preset and the command line in it, though it names neither any more."""
    plan = Plan(SHIPPED, {"dataset": "demo", "preset": "publishable", "measure": {"repeats": 2}})
    again = Plan(yaml.safe_load(config_text(plan.as_json()["config"])))
    assert again.config["preset"] == "none"
    chosen = plan.config["datasets"][plan.dataset]
    assert again.config == plan.config | {"preset": "none", "datasets": {plan.dataset: chosen}}
    said = dict.fromkeys(("config", "given", "presets"))
    assert {**again.as_json(), **said} == {**plan.as_json(), **said}
    assert "# preset: publishable\n" in config_text(plan.as_json()["config"])


def test_what_stands_behind_an_address_is_no_secret_to_show():
    url = "https://mirror.example/a%20b/%(id)s.m4a?key=hunter2&item=%(id)s&expires=12;sig=abc"
    shown = yaml.safe_load(config_text({"datasets": {"x": {"url": url, "yt_dlp": ["--add-header", "a=b", url]}}}))
    hidden = "https://mirror.example/a%20b/%(id)s.m4a?key=…&item=%(id)s&expires=…;sig=…"
    assert shown["datasets"]["x"] == {"url": hidden, "yt_dlp": ["--add-header", "a=b", hidden]}
    youtube = "https://www.youtube.com/watch?v=%(id)s"
    assert youtube in config_text({"datasets": {"x": {"url": youtube}}})


def test_a_report_has_both_and_none_of_the_other_data_sets(tmp_path):
    tables, _, html = report_of(tmp_path, [Made("a", "ram", [1.0, 2.0])])
    assert tables["host"]["commits"] == [{"runs": 2, "commit": "0123456789ab"}]
    assert tables["dataset"]["config"]["datasets"] == {"demo": {"source": "synthetic"}}
    words = section(html, "method")
    assert "feedrate, commit 0123456789ab" in words and "several commits" not in words
    assert "dataset: demo" in words and "other" not in words[words.index("dataset: demo") :]
    assert links(html)["config.yaml"].startswith("data:application/yaml;base64,")


def test_a_page_names_the_commit_that_made_it(tmp_path, monkeypatch):
    """A page that no raised REPORT has made again is seen to be older than the code."""
    monkeypatch.setattr(render_report, "commit", lambda: "fedcba987654-dirty")
    assert "this page, commit fedcba987654-dirty" in section(
        report_of(tmp_path, [Made("a", "ram", [1.0])])[2], "method"
    )


def test_runs_of_several_commits_are_told_apart(tmp_path):
    """Also those of records that were made before records named a commit."""
    made = [Made("a", "ram", [1.0, 2.0]), Made("b", "ram", [1.0, 2.0])]
    report_of(tmp_path, made)
    common = next(session_of(tmp_path).folder.glob("ram/b/*/result.json"))
    said = json.loads(common.read_text())
    del said["commit"]
    common.write_text(json.dumps(said))
    first = common.with_name("0.json")
    first.write_text(json.dumps(json.loads(first.read_text()) | {"commit": "ba9876543210-dirty"}))
    tables, _, html = rendered(tmp_path, tmp_path / "results" / "runs" / "demo" / "plan.json")
    assert [(one["commit"], one["runs"]) for one in tables["host"]["commits"]] == [
        ("0123456789ab", 2),
        ("ba9876543210-dirty", 1),
        (None, 1),
    ]
    expected = "0123456789ab (2 runs), ba9876543210-dirty (1 run), not known (1 run)"
    assert code_text(tables["host"]["commits"]) == expected
    assert f"{expected} ( runs of several commits" in section(html, "method")
