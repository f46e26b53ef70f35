"""The schemas and what is measured use the words of scripts/common/vocabulary.py, all of them and no other."""

import re

import pytest
import yaml

from scripts.common import plugins, vocabulary
from scripts.common.files import read_json
from tests.support.programs import PROJECT

RECORD = read_json(PROJECT / "docs" / "run.schema.json")["$defs"]
CONFIG = yaml.safe_load((PROJECT / "workflow" / "schemas" / "config.schema.yaml").read_text())["properties"]
SWEEP = CONFIG["sweep"]["properties"]


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        (RECORD["run"]["properties"]["cache"]["enum"], vocabulary.CACHES),
        (RECORD["run"]["properties"]["status"]["enum"], vocabulary.RUN_STATUSES),
        (RECORD["bound"]["properties"]["status"]["enum"], vocabulary.RUN_STATUSES),
        (RECORD["operation"]["properties"]["status"]["enum"], vocabulary.RUN_STATUSES),
        (RECORD["reason_code"]["enum"], vocabulary.REASONS),
        (RECORD["run"]["properties"]["split"]["enum"], (vocabulary.SPLIT, vocabulary.VALIDATION)),
        (RECORD["operation"]["properties"]["device"]["enum"], vocabulary.DEVICES),
        (RECORD["operation"]["properties"]["operation"]["enum"], vocabulary.OPERATIONS),
        (RECORD["span"]["properties"]["phase"]["enum"], vocabulary.PHASES),
        (SWEEP["cache"]["items"]["enum"], vocabulary.CACHES),
        (SWEEP["device"]["items"]["enum"], ("auto", *vocabulary.DEVICES)),
    ],
)
def test_a_schema_lists_the_words(listed, words):
    assert sorted(listed) == sorted(words)


def test_settings_are_keys_of_the_sweep_and_of_a_record():
    assert set(vocabulary.RESULT_SETTINGS) <= set(SWEEP)
    assert set(vocabulary.RESULT_SETTINGS) <= set(RECORD["settings"]["properties"])
    assert set(vocabulary.CONDITIONS) <= set(SWEEP) & set(RECORD["run"]["properties"])


def test_the_measured_bounds_are_bounds():
    assert set(RECORD["bound"]["properties"]["bound"]["enum"]) <= set(vocabulary.BOUNDS)


def test_subsets_are_subsets():
    assert set(vocabulary.TRAINING) < set(vocabulary.TASKS)
    assert set(vocabulary.COLD) < set(vocabulary.CACHES)
    assert set(vocabulary.STAGES) < set(vocabulary.PARTS) < set(vocabulary.BOTTLENECKS)
    assert set(vocabulary.RUN_STATUSES) < set(vocabulary.STATUSES)


@pytest.mark.parametrize("kind", ["sources", "kinds", "loaders", "tiers"])
def test_every_option_stands_in_a_page(kind):
    """By its name, in code or before a colon: in docs, or in the comments of config.yaml."""
    pages = [*(PROJECT / "docs").glob("*.md"), PROJECT / "config.yaml"]
    written = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    options = {option for name in plugins.names(kind) for option in getattr(plugins.load(kind, name), "OPTIONS", {})}
    assert options or kind == "tiers"
    assert [one for one in sorted(options) if not re.search(rf"`(\w+\.)?{one}`|\b{one}: ", written)] == []
