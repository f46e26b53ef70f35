"""Names, paths and keys of a config, and its file: hostile ones are refused with their place, whatever they are."""

import copy
import random
from pathlib import Path

import pytest
import yaml

from scripts.common.errors import UserError
from scripts.plan.experiment import Plan
from scripts.plan.names import NAME, PERIODIC, check
from scripts.plan.yaml_file import check_file
from tests.support.programs import PROJECT

CONFIG = (PROJECT / "config.yaml").read_text()
LETTERS = [
    *"aA0_-./ \n\t\0\x7f{}<>'\"$*~%é音",
    "\u202e",
    "\udcff",
    "a" * 20,
    "ab" * 20,
    "x" * 300,
    "..",
    "//",
    "<a>",
    "{a}",
]
DAMAGE = (b"", b"\n", b"\t", b"[", b":", b"\xff", b"\0")
ALLOWED = [CONFIG, '{"a":\t1}', "", "a: &x {b: 1}\nc: {<<: *x, b: 2}\n", "&a [*a]", "1: x\n'1': y"]


@pytest.fixture
def raw(tmp_path) -> dict:
    """A small config that makes a plan."""
    return {
        "dataset": "demo",
        "datasets": {"demo": {"source": "synthetic", "clips": 8}},
        "storage": {"disk": {"path": str(tmp_path / "tier")}},
        "loaders": ["npy", {"name": "soundfile"}],
    }


def refused(raw) -> str:
    with pytest.raises(UserError) as told:
        Plan(raw)
    return str(told.value)


@pytest.mark.parametrize("name", ["disk\n", "a" * 300, "a" * 20, "b" + "ab" * 20, "", "a-b", "é", "moves", "bounds"])
def test_a_name_that_snakemake_would_take_wrong_is_refused(raw, name):
    raw["storage"][name] = raw["storage"].pop("disk")
    assert "config: storage" in refused(raw)


@pytest.mark.parametrize("part", ["<word>", "{word}", "a\nb", "\x1b[2J", "\udcff", "x" * 256, "x/" * 2500])
def test_a_path_that_cannot_be_is_refused_with_its_key(raw, tmp_path, part):
    raw["storage"]["disk"]["path"] = f"{tmp_path}/{part}"
    assert "config: storage.disk.path: found" in refused(raw)


def test_any_name_is_allowed_or_refused_with_its_place(raw, tmp_path):
    """Names, paths, loaders and values of random parts: a plan or a UserError, and what is planned is harmless."""
    chance, planned = random.Random(0), 0
    for _ in range(600):
        word = "".join(chance.choices(LETTERS, k=chance.choice((1, 1, 2, 3, 6))))
        asked = copy.deepcopy(raw)
        what = chance.randrange(6)
        if what == 0:
            asked["storage"] = {word: asked["storage"]["disk"]}
        elif what == 1:
            asked["storage"]["disk"]["path"] = f"{tmp_path}/{word}"
        elif what == 2:
            asked["datasets"][word], asked["dataset"] = asked["datasets"]["demo"], word
        elif what == 3:
            asked["loaders"] = [chance.choice((word, {"name": word}, {"name": "npy", word: [1]}))]
        elif what == 4:
            asked["datasets"] = {"demo": {"source": "folder", "path": f"{tmp_path}/{word}"}}
        else:
            asked[chance.choice((word, *asked))] = chance.choice((word, [word], {word: word}, None, 3))
        try:
            plan = Plan(asked, project=tmp_path)
        except UserError as error:
            assert str(error) and "Traceback" not in str(error)
            continue
        planned += 1
        for name in (plan.dataset, *plan.tiers, *plan.loaders):
            assert NAME.fullmatch(name) and not PERIODIC.search(name), repr(name)
        paths = [result.location["path"] for result in plan.results]
        assert not [path for path in paths if set(path) & set("{}\n\0")], paths
    assert planned > 40, "the words are too wild to say anything of those that are allowed"


# The file


def test_bytes_that_are_no_text_name_the_line(tmp_path):
    (tmp_path / "config.yaml").write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(UserError, match=r"line 2: "):
        check_file(tmp_path / "config.yaml")


@pytest.mark.parametrize("text", ALLOWED)
def test_what_yaml_allows_is_allowed(tmp_path, text):
    (tmp_path / "config.yaml").write_text(text)
    check_file(tmp_path / "config.yaml")


def test_any_damage_to_the_file_is_told_or_harmless(tmp_path):
    chance, file, told = random.Random(0), tmp_path / "config.yaml", 0
    content = CONFIG.split("sweep:")[0].encode()
    for _ in range(300):
        damaged = bytearray(content)
        for _ in range(chance.randrange(1, 4)):
            place = chance.randrange(len(damaged))
            damaged[place : place + chance.randrange(3)] = chance.choice(DAMAGE)
        file.write_bytes(damaged)
        try:
            check_file(file)
        except UserError as error:
            told += 1
            assert ", line " in str(error)
            continue
        check_nothing_else_raised(file)
    assert told > 50


def check_nothing_else_raised(file: Path) -> None:
    """What `check_file` lets pass can be read, and its names are allowed or refused."""
    read = yaml.safe_load(file.read_text(encoding="utf-8"))
    try:
        check(read)
    except UserError as error:
        assert str(error).startswith("config: ")
