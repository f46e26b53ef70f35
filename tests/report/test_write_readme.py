"""The README's ranking: what a session's tables say, and of which commit and day."""

import re
import subprocess

import pytest

from scripts.common.errors import UserError
from scripts.report.terminal import WIDTH
from scripts.report.write_readme import BEGIN, END, README, block, written
from tests.support.made_runs import Made
from tests.support.programs import PROJECT, program_line
from tests.support.report_pages import tables_of

HEAD = re.compile(
    r"The same in the terminal, after `make demo` "
    r"\(both of commit [0-9a-f]{7,12}, measured \d{4}-\d\d-\d\d on .+\):"
)
MADE = [Made("ring", "disk", [90.0, 91.0, 89.0]), Made("torchaudio", "disk", [9.0, 9.1, 8.9])]


def checked(text):
    """Assert that a text has the form that the program writes."""
    head, blank, fence, *lines, last = text.strip().split("\n")
    assert HEAD.fullmatch(head) and (blank, fence, last) == ("", "```", "```")
    assert re.fullmatch(r".+, data set \S+.*", lines[0])
    assert re.match(r" ?rank loader +tier +settings +items/s +95 % interval % of bound bottleneck +first s", lines[1])
    use = lines.index("What to use")
    assert lines[use - 1] == "" and lines[use + 1].startswith("  Confidence ")
    assert any(re.match(r"  Fastest \(.+\): ", line) for line in lines[use:])
    assert max(map(len, lines)) <= WIDTH


def test_the_readme_has_what_the_program_writes():
    text = README.read_text(encoding="utf-8")
    assert (text.count(BEGIN), text.count(END)) == (1, 1)
    checked(text[text.index(BEGIN) + len(BEGIN) : text.index(END)])
    assert text.index("](docs/report.png)") < text.index(BEGIN), "`both` are the picture above and the ranking"


def test_it_says_commit_day_and_machine(tmp_path):
    text = block(tables_of(tmp_path, MADE))
    checked(text)
    assert "commit 0123456789ab, measured 2026-01-01 on 64.0 GB):" in text
    assert "Fastest (CPU): use ring on disk" in text and "torchaudio on disk, which you have now." in text
    assert "Cheapest" not in text, "the other goals are on the page"


def test_the_program_writes_between_the_marks_alone(tmp_path):
    tables_of(tmp_path, MADE)
    readme = tmp_path / "README.md"
    readme.write_text(f"# before\n\n{BEGIN}\nold\n{END}\n\nafter\n", encoding="utf-8")
    for _ in range(2):  # a second time changes nothing
        line = [*program_line("write_readme"), "--tables", tmp_path / "tables", "--readme", readme]
        subprocess.run(line, cwd=PROJECT, check=True)
        text = readme.read_text(encoding="utf-8")
        assert text.startswith(f"# before\n\n{BEGIN}\nThe same") and text.endswith(f"```\n{END}\n\nafter\n")
        assert "old" not in text and text.count("What to use") == 1


@pytest.mark.parametrize("commits", [["a" * 12, "b" * 12], [None], ["0123456789ab-dirty"]])
def test_runs_that_are_not_of_one_commit_are_refused(tmp_path, commits):
    tables = tables_of(tmp_path, MADE)
    tables["host"]["commits"] = [{"commit": commit, "runs": 3} for commit in commits]
    with pytest.raises(UserError, match=r"found runs of the commits .*, allowed is one commit without changes"):
        block(tables)


def test_tables_without_a_speed_are_refused(tmp_path):
    with pytest.raises(UserError, match="found no verified speed"):
        block(tables_of(tmp_path, [Made("ring", "disk", ["failed"])]))


@pytest.mark.parametrize("text", ["", BEGIN, f"{END} {BEGIN}", f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_readme_without_a_place_for_it_is_refused(text):
    with pytest.raises(UserError, match="found no place for the ranking"):
        written(text, "new")


def test_one_command_makes_picture_and_ranking_of_the_same_tables():
    rule = (PROJECT / "Makefile").read_text(encoding="utf-8").split("\nreadme:")[1].split("\n\n")[0]
    assert rule.count("--tables $(TABLES)") == 3 and "--out docs/report.png" in rule
