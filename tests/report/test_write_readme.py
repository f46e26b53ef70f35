"""The README's ranking: what a session's tables say, and of which commit and day."""

import subprocess

import pytest

from scripts.common.errors import UserError
from scripts.report.write_readme import BEGIN, END, block, written
from tests.support.made_runs import Made
from tests.support.programs import PROJECT, program_line
from tests.support.report_pages import tables_of

MADE = [Made("ring", "disk", [90.0, 91.0, 89.0]), Made("torchaudio", "disk", [9.0, 9.1, 8.9])]


def test_the_program_writes_between_the_marks_alone(tmp_path):
    tables_of(tmp_path, MADE)
    readme = tmp_path / "README.md"
    readme.write_text(f"# before\n\n{BEGIN}\nold\n{END}\n\nafter\n", encoding="utf-8")
    for _ in range(2):  # a second time changes nothing
        line = [*program_line("write_readme"), "--tables", tmp_path / "tables", "--readme", readme]
        subprocess.run(line, cwd=PROJECT, check=True)
        text = readme.read_text(encoding="utf-8")
        assert text.startswith(f"# before\n\n{BEGIN}\n") and text.endswith(f"```\n{END}\n\nafter\n")
        assert "old" not in text and text.count("commit 0123456789ab") == 1


@pytest.mark.parametrize("commits", [["a" * 12, "b" * 12], [None], ["0123456789ab-dirty"]])
def test_runs_that_are_not_of_one_commit_are_refused(tmp_path, commits):
    tables = tables_of(tmp_path, MADE)
    tables["host"]["commits"] = [{"commit": commit, "runs": 3} for commit in commits]
    with pytest.raises(UserError, match="commits"):
        block(tables)


def test_tables_without_a_speed_are_refused(tmp_path):
    with pytest.raises(UserError):
        block(tables_of(tmp_path, [Made("ring", "disk", ["failed"])]))


@pytest.mark.parametrize("text", ["", BEGIN, f"{END} {BEGIN}", f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_readme_without_a_place_for_it_is_refused(text):
    with pytest.raises(UserError):
        written(text, "new")
