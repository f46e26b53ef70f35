"""The command `feedrate`: its verbs, the file that set-up installs, and what docs and messages say of it."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import feedrate
from scripts.common.errors import UserError
from tests.support.programs import PROJECT

DOCS = [PROJECT / "README.md", PROJECT / "config.yaml", *sorted((PROJECT / "docs").glob("*.md"))]
CODE = [*(PROJECT / "scripts").rglob("*.py"), *(PROJECT / "workflow").rglob("*.smk"), PROJECT / "Makefile"]
GENERATORS = ("scripts.tables.write_docs", "scripts.prepare.write_format_docs")  # for who changes feedrate
TYPED = re.compile(r"\bfeedrate ([a-z]+) (?=-|\.\.\.)([^`\n]*)")


def typed(path: Path) -> list[tuple[str, str]]:
    """Return (verb, what follows it) of each command in a file; lines that end in a backslash go on."""
    return TYPED.findall(re.sub(r"\\+\n\s*", "", path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_what_docs_tell_one_to_type_can_be_typed(path):
    for verb, rest in typed(path):
        options = feedrate.parser_of(verb)
        if "..." not in rest:
            options.parse_args(shlex.split(rest, comments=True))
    modules = re.findall(r"python -m (scripts\.[\w.]+)", path.read_text(encoding="utf-8"))
    assert set(modules) <= {"scripts.feedrate", *GENERATORS}


def test_what_programs_tell_one_to_type_has_a_verb_and_options_that_are():
    found = {pair for path in CODE for pair in typed(path)}
    assert {verb for verb, _ in found} == feedrate.VERBS.keys()
    for verb, rest in found:
        known = re.findall(r"--[\w-]+", feedrate.parser_of(verb).format_help())
        assert set(re.findall(r"--[\w-]+", rest)) <= set(known)


def test_the_page_of_the_command_has_each_verb():
    text = (PROJECT / "docs" / "command.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| `feedrate (\w+) ", text, flags=re.MULTILINE)
    assert rows == [(name, verb.words, name) for name, verb in feedrate.VERBS.items()]


@pytest.mark.parametrize("verb", feedrate.VERBS)
def test_each_verb_has_a_help_of_its_own(verb):
    assert feedrate.parser_of(verb).format_help().startswith(f"usage: feedrate {verb} ")


def test_an_unknown_verb_is_refused_with_the_nearest():
    with pytest.raises(
        UserError, match=r"found the verb 'rankin', allowed are attach, plan, .* Did you mean 'ranking'\?"
    ):
        feedrate.parser_of("rankin")


def test_help_imports_no_verb():
    code = "import sys; from scripts import feedrate; feedrate.parser().format_help(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert not {"numpy", "yaml", *(verb.module for verb in feedrate.VERBS.values())} & set(done.stdout.split())


@pytest.fixture
def installed(tmp_path) -> Path:
    """The command as set-up leaves it, beside a Python."""
    bin_folder = tmp_path / "venv" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "python").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    shutil.copy(PROJECT / "envs" / "feedrate.sh", bin_folder / "feedrate")
    for path in bin_folder.iterdir():
        path.chmod(0o755)
    return bin_folder / "feedrate"


@pytest.mark.parametrize("below", ["", "docs", "scripts/common"])
def test_it_is_that_of_the_checkout_at_any_depth(installed, tmp_path, below):
    """A copy of the checkout, so that its code is told from the project's."""
    shutil.copytree(PROJECT / "scripts", tmp_path / "copy" / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "copy" / "docs").mkdir()
    command = tmp_path / "copy" / "scripts" / "feedrate.py"
    command.write_text(command.read_text().replace("beside the workflow", "in the copy"))
    link = tmp_path / "link"
    link.symlink_to(installed)
    done = subprocess.run([link, "--help"], cwd=tmp_path / "copy" / below, capture_output=True, text=True)
    assert done.returncode == 0 and "in the copy" in done.stdout, done.stderr


def test_outside_of_a_checkout_it_says_so(installed, tmp_path):
    done = subprocess.run([installed, "--help"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and f"found no checkout of feedrate in {tmp_path}" in done.stderr


MUCH = """
import argparse
from scripts import feedrate
class Verb:
    parser = argparse.ArgumentParser
    main = lambda _: print("x" * 10**6)
feedrate.import_module = lambda _: Verb
feedrate.main()
"""


def test_who_reads_no_further_sees_no_traceback():
    """As by `feedrate VERB | head`."""
    command = [sys.executable, "-c", MUCH, "ranking"]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (0, "")
