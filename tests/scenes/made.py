"""The three scenes, made anew: what the terminal says, what the page says, and the errors of wrong inputs."""

import importlib
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from scripts import loaders
from scripts.common import plugins
from scripts.common.errors import UserError
from scripts.common.ledger import write_ledger
from scripts.common.published import read_published
from scripts.common.versions import commit
from scripts.plan.experiment import Plan
from scripts.plan.yaml_file import check_file
from scripts.report import render_report
from scripts.report.terminal import answer_lines, baseline_lines, machines_lines, ranking_lines
from tests.support.made_runs import example, session
from tests.support.made_verdicts import FORMS, beside_others, tables_of, transformed
from tests.support.programs import PROJECT
from tests.support.report_pages import blank_pictures, report_of

HERE = Path(__file__).parent
# items/s of the control run
SLOWER = [1000.0 - result for result in range(10)] + [900.0 - result for result in range(10)]


def terminal() -> str:
    """Return what the terminal says of made sessions: of all that there is, of a short one, of each form of answer."""
    whole, (short, bounds) = session(), example()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        tables = {
            "everything, ten times": tables_of(root / "whole", whole.pop("made"), "torchaudio", **whole),
            "three runs, some failed and skipped": tables_of(root / "short", short, bounds=bounds),
            **{name: tables_of(root / name, made(), "c") for name, made in FORMS.items()},
            "with a transform and without": tables_of(root / "transformed", transformed(), "c"),
            "a machine that became slower": tables_of(root / "slower", FORMS["clear"](), bounds={("cpu", 32): SLOWER}),
            "beside an earlier session and another machine": beside_others(root),
        }
        return plain("\n".join(f"== {name}\n\n{printed(one)}" for name, one in tables.items()), root)


def printed(tables: Mapping[str, Any]) -> str:
    """Return what the terminal says of tables."""
    lines = [*answer_lines(tables, colour=False), *ranking_lines(tables, colour=False)]
    return "\n".join([*lines, *baseline_lines(tables), *machines_lines(tables)])


def page() -> str:
    """Return the visible text of the page: of a session of everything, of a short one, and of one beside others."""
    (short, bounds), parts = example(), []
    no_gpu = {"loader": "dali_npy", "tier": None, "settings": {"device": "cuda"}, "reason": "no GPU is visible"}
    sessions = {
        "everything, ten times": session(),
        "three runs": {"made": short, "bounds": bounds, "skipped": [no_gpu]},
    }
    for name, made in sessions.items():
        with tempfile.TemporaryDirectory() as folder:
            text = Visible(report_of(Path(folder), **made)[2]).text
            parts.append(plain(f"== {name}\n\n{text}", Path(folder)))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        blank_pictures(root / "figures")
        html = render_report.render(beside_others(root), root / "figures")
        parts.append(plain(f"== beside others\n\n{Visible(html).text}", root))
    return "\n".join(parts)


def errors(text: str) -> str:
    """Return the scene of errors with what is said today to each input that stands in it.

    An input is of the lines that begin with `>`; above it, behind `==`, stands what it is given to.
    """
    out: list[str] = []
    for round_number in re.split(r"\n{2,}", text.strip()):
        if round_number.startswith("== "):
            out.append(round_number)
            kind = round_number.split()[1]
            continue
        given = [line for line in round_number.splitlines() if line.startswith(">")]
        source = "\n".join(line[2:] for line in given)
        with tempfile.TemporaryDirectory() as folder:
            out.append("\n".join([*given, plain(refusal(READERS[kind], source, Path(folder)), Path(folder)).rstrip()]))
    return "\n\n".join(out) + "\n"


def refusal(reader: Callable[[str, Path], object], source: str, folder: Path) -> str:
    """Return what is said to a wrong input."""
    try:
        reader(source, folder)
    except UserError as error:
        return str(error)
    raise AssertionError(f"This is no error today: take it out of tests/scenes/errors.txt, or mend it.\n{source}")


def plain(text: str, folder: Path) -> str:
    """Return the text without folders of this machine, the commit, and lists of all plug-ins, which grow."""
    for kind in plugins.KINDS:
        names = plugins.names(kind)
        for listed in (names, [name for name in names if not name.startswith("broken")]):
            text = text.replace(", ".join(listed), f"(all {kind})") if len(listed) > 3 else text
    for found, word in ((str(folder), "FOLDER"), (str(PROJECT), "PROJECT"), (commit() or "no commit", "COMMIT")):
        text = text.replace(found, word)
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)


class Missing(yaml.SafeLoader):
    """Reads YAML in which `!missing` stands for a key that is to be taken away."""


Missing.add_constructor("!missing", lambda _loader, _node: Missing)


def merged(base: Any, change: Any) -> Any:
    """Return a mapping with a change in it; what is no mapping replaces what was there."""
    if not (isinstance(base, dict) and isinstance(change, dict)):
        return change
    keys = [*base, *(key for key in change if key not in base)]
    return {
        key: merged(base[key], change[key]) if key in base and key in change else change.get(key, base.get(key))
        for key in keys
        if change.get(key) is not Missing
    }


def base(name: str) -> Any:
    """Return what the inputs change: a config, or a published table."""
    return yaml.safe_load((HERE / "inputs" / f"{name}.yaml").read_text())


def of_config(source: str, folder: Path) -> None:
    """Plan a config with a change."""
    change = yaml.load(source.replace("FOLDER", str(folder)), Missing)
    Plan(merged(base("config"), change), project=folder)


def of_command_line(source: str, folder: Path) -> None:
    """Plan a config whose change comes from the command line, where numbers are text."""
    change = yaml.load(source.replace("FOLDER", str(folder)), Missing)
    Plan(merged(base("config"), change), change, project=folder)


def of_target(source: str, folder: Path) -> None:
    """Plan a config for a target: the result of a loader."""
    Plan(base("config"), asked=[source], project=folder)


def of_file(source: str, folder: Path) -> None:
    """Read a text as config.yaml."""
    (folder / "config.yaml").write_text(source.replace("\\t", "\t").replace("\\x01", "\x01"))
    check_file(folder / "config.yaml")


def of_loader(source: str, folder: Path) -> None:
    """Plan with a loader that lies in the folder of loaders and in which a text stands for another."""
    right, wrong = source.replace("\\n", "\n").split(" =>")
    wrong = wrong.removeprefix(" ")
    text = (HERE / "inputs" / "loader.py.txt").read_text()
    assert right in text, f"{right!r} is not in tests/scenes/inputs/loader.py.txt"
    (folder / "broken.py").write_text(text.replace(right, wrong, 1))
    with among_loaders(folder):
        Plan(merged(base("config"), {"loaders": ["npy", "broken"]}), project=folder)


@contextmanager
def among_loaders(folder: Path) -> Iterable[None]:
    """Let `broken` of a folder be found among the loaders."""
    names = plugins.names
    with (
        mock.patch.object(plugins, "names", lambda kind: names(kind) + ["broken"] * (kind == "loaders")),
        mock.patch.object(loaders, "__path__", [*loaders.__path__, str(folder)]),
        mock.patch.object(sys, "dont_write_bytecode", True),
    ):
        try:
            yield
        finally:
            sys.modules.pop("scripts.loaders.broken", None)


def of_own_file(source: str, folder: Path) -> None:
    """Plan with a file of the user's own, this line in it."""
    (folder / "mine.py").write_text(f'FORMAT = "wav"\n{source}\n\n\ndef dataset(request):\n    return []\n')
    change = {"loaders": ["npy", {"name": "mine", "file": str(folder / "mine.py")}]}
    Plan(merged(base("config"), change), project=folder)


def of_published(source: str, folder: Path) -> None:
    """Read a table of published speeds with a change."""
    (folder / "mine.yaml").write_text(yaml.dump(merged(base("published"), yaml.load(source, Missing))))
    read_published(str(folder / "mine.yaml"))


def of_program(source: str, folder: Path) -> None:
    """Call a program, by its module and its arguments, in a folder with an empty ledger and a corpus without items."""
    write_ledger(folder / "ledger.csv", [])
    (folder / "recording.wav").touch()
    (folder / "labels.csv").write_text("name,label\n")
    name, *arguments = shlex.split(source.replace("FOLDER", str(folder)))
    module = importlib.import_module(name)
    with mock.patch.object(sys, "argv", [name, *arguments]):
        module.main()


READERS = {
    "config": of_config,
    "command-line": of_command_line,
    "target": of_target,
    "config.yaml": of_file,
    "loader": of_loader,
    "own-file": of_own_file,
    "published": of_published,
    "program": of_program,
}


class Visible(HTMLParser):
    """Gathers the text of a page that a reader sees, a line for each round; cells of a row stand beside each other."""

    LINES = ("p", "h1", "h2", "h3", "h4", "li", "tr", "dt", "dd", "summary", "figcaption", "label", "option", "div")
    UNSEEN = ("script", "style", "head", "pre", "svg")

    def __init__(self, html: str) -> None:
        super().__init__()
        self._lines, self._line, self._unseen = [], "", 0
        self.feed(html)
        self._end()

    def handle_starttag(self, tag: str, _attrs: Any) -> None:
        self._unseen += tag in self.UNSEEN
        if tag in self.LINES:
            self._end()
        elif tag in ("td", "th"):
            self._line += " | "
        if tag in ("h1", "h2", "h3"):
            self._lines.append("")

    def handle_endtag(self, tag: str) -> None:
        self._unseen -= tag in self.UNSEEN
        if tag in self.LINES:
            self._end()

    def handle_data(self, data: str) -> None:
        self._line += "" if self._unseen else data

    def _end(self) -> None:
        line = " ".join(self._line.split()).strip("| ")
        self._lines += [line] if line else []
        self._line = ""

    @property
    def text(self) -> str:
        """Return the lines."""
        return "\n".join(self._lines).strip() + "\n"
