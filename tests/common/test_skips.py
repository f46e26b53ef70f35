"""What is said at the end of the tests of those that were skipped."""

import re
import subprocess
import sys

import pytest

from tests import conftest
from tests.support.programs import PROJECT

SKIPPED = """
import pytest

@pytest.mark.skipif(True, reason="no GPU")
def test_a(): pass

@pytest.mark.skip(reason="needs a GPU")
def test_b(): pass

def test_c(): pytest.skip("streaming is not installed: type `make isolated`")

@pytest.mark.alone
def test_d(): pytest.skip("no moon tonight")
"""


@pytest.fixture
def suite(tmp_path):
    """Call pytest on four tests that are skipped, with the project's own conftest."""
    (tmp_path / "test_skipped.py").write_text(SKIPPED)

    def call(*arguments: str) -> list[str]:
        command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", PROJECT / "pyproject.toml"]
        command += ["-o", f"cache_dir={tmp_path / 'cache'}", "--rootdir", tmp_path, tmp_path / "test_skipped.py"]
        done = subprocess.run([*command, *arguments], cwd=PROJECT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return [line for line in done.stdout.splitlines() if re.match(r"\d+ (want|were)", line)]

    return call


GPU = "2 want an NVIDIA GPU: run them on a machine that has one"
ISOLATED = "1 want a library in an isolated environment: type make isolated"
MOON = "1 were skipped: no moon tonight"


def test_each_reason_is_a_line_with_its_count_and_what_would_run_it(suite):
    assert suite() == [GPU, ISOLATED, MOON]


def test_the_second_half_of_make_test_ends_with_both(suite):
    assert suite("-m", "not alone") == [GPU, ISOLATED]
    assert suite("-m", "alone") in ([MOON, GPU, ISOLATED], [GPU, MOON, ISOLATED], [GPU, ISOLATED, MOON])
    assert suite("-m", "alone") == [MOON], "what was said is not said again"


def test_every_reason_in_the_tests_is_said_with_what_would_run_it():
    """Of those that are written out where tests are skipped."""
    texts = [path.read_text() for path in (PROJECT / "tests").rglob("*.py") if path.name != "test_skips.py"]
    written = re.compile(r'(?:pytest\.skip\(|skipif\(.*reason=)f?"([^"]+)"')
    reasons = [found for text in texts for found in written.findall(text)]
    assert len(reasons) >= 10
    assert [reason for reason in reasons if conftest.wanted(reason).startswith("were skipped: ")] == []
