"""The hash of a program's code: every line that it reaches counts, wherever it stands, and no comment does."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.common import plugins
from scripts.common.code import closure, code_hash, file_hash
from tests.support.programs import PROJECT
from tests.support.workflow_rules import PLUGINS_OF, rules

PROGRAMS = sorted({(rule.name, program) for rule in rules() for program in rule.programs})


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """A copy of what a program can reach, to plant changes in."""
    root = tmp_path_factory.mktemp("code")
    for folder in ("scripts", "docs", "report/template", "workflow"):
        shutil.copytree(PROJECT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def modules_of(program: str) -> list[str]:
    """Return the program and every plug-in that it may be called for."""
    kind = PLUGINS_OF.get(program.rpartition(".")[2])
    return [program, *(f"scripts.{kind}.{name}" for name in (plugins.names(kind) if kind else ()))]


@pytest.mark.parametrize("program", sorted({program for _, program in PROGRAMS}))
def test_a_line_in_any_file_that_a_program_reaches_changes_its_hash_and_a_comment_does_not(copy, program):
    modules = modules_of(program)
    before = code_hash(*modules, project=copy)
    reached = closure(*modules, project=copy)
    assert len(reached) > len(modules) or program == "scripts.plan.write_plan"
    for path in reached:
        text = path.read_text()
        for planted, same in changes(path.suffix, text):
            path.write_text(planted)
            assert (code_hash(*modules, project=copy) == before) == same, f"{path.relative_to(copy)}: {planted[-40:]!r}"
        path.write_text(text)
    assert code_hash(*modules, project=copy) == before


def changes(suffix: str, text: str) -> list[tuple[str, bool]]:
    """Return changed texts of a file, and whether each means the same as before."""
    if suffix == ".py":
        return [(text + "\nCHANGED = True\n", False), (text + "\n\n# a comment\n", True)]
    if suffix == ".yaml":
        return [(text + "\nchanged: true\n", False), (text + "\n# a comment\n", True)]
    if suffix == ".json":
        return [(text.replace("{", '{"changed": true,', 1), False), (text + "\n", True)]
    return [(text + "\nchanged\n", False)]


def project(folder: Path, **files: str) -> Path:
    """Make a small project of these modules in `folder`."""
    for name, text in files.items():
        path = folder / "scripts" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder


def names(folder: Path, *modules: str) -> set[str]:
    return {str(path.relative_to(folder)) for path in closure(*modules, project=folder)}


def test_imports_inside_functions_and_of_several_steps_are_followed(tmp_path):
    project(tmp_path, a="def f():\n    from scripts import b\n", b="import scripts.c as other\n", c="", d="")
    assert names(tmp_path, "scripts.a") == {"scripts/a.py", "scripts/b.py", "scripts/c.py"}


def test_cycles_end(tmp_path):
    project(tmp_path, a="import scripts.b\n", b="import scripts.a\n")
    assert names(tmp_path, "scripts.a") == {"scripts/a.py", "scripts/b.py"}


def test_declared_files_count_and_modules_among_them_are_followed(tmp_path):
    project(tmp_path, a='DATA_FILES = ("templates/*", "scripts/b.py")\n', b="import scripts.c\n", c="")
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "page.html").write_text("<p>")
    before = code_hash("scripts.a", project=tmp_path)
    assert names(tmp_path, "scripts.a") == {"scripts/a.py", "scripts/b.py", "scripts/c.py", "templates/page.html"}
    (tmp_path / "templates" / "page.html").write_text("<b>")
    changed = code_hash("scripts.a", project=tmp_path)
    assert changed != before
    (tmp_path / "templates" / "more.html").write_text("")
    assert code_hash("scripts.a", project=tmp_path) != changed, "a new file of the glob"


def test_docstrings_layout_and_comments_mean_nothing_and_text_does(tmp_path):
    path = tmp_path / "a.py"

    def hashed(text: str) -> str:
        path.write_text(text)
        return file_hash(path)

    plain = hashed('"""One."""\n\n\ndef f(x):\n    """Two."""\n    return "a"\n')
    assert hashed('"""Other."""\ndef f(x):  # why\n    """More."""\n    return ("a")\n') == plain
    assert hashed('"""One."""\n\n\ndef f(x):\n    """Two."""\n    return "b"\n') != plain


def test_a_broken_file_has_a_hash_and_an_absent_module_is_an_error(tmp_path):
    project(tmp_path, a="def f(:\n")
    before = code_hash("scripts.a", project=tmp_path)
    project(tmp_path, a="def f(;\n")
    assert code_hash("scripts.a", project=tmp_path) != before
    with pytest.raises(FileNotFoundError, match=r"scripts\.none: no such module"):
        closure("scripts.none", project=tmp_path)


def test_what_was_read_is_kept_for_the_next_call_and_a_change_is_seen(tmp_path):
    """Of the bytes: the same hash with what was kept, without it, and beside a file of it that is damaged."""
    code = "import sys\nfrom scripts.common.code import code_hash\nprint(code_hash('scripts.common.text'))"
    kept = tmp_path / ".snakemake" / "feedrate-code.json"
    kept.parent.mkdir()
    said = []
    for damage in (None, None, "{"):
        if damage:
            kept.write_text(damage)
        command = [sys.executable, "-c", code]
        environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        said.append(done.stdout)
        assert json.loads(kept.read_text())
    assert len(set(said)) == 1 and said[0].strip() == code_hash("scripts.common.text")
