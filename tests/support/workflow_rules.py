"""The rules as they are written: a plain reading of workflow/rules, which snakefmt keeps in one form."""

import re
import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.programs import PROJECT

WORKFLOW = PROJECT / "workflow"
HEAD = re.compile(r"^(?P<indent> *)(?:rule|checkpoint)(?: (?P<name>\w+))?:$")
DIRECTIVE = re.compile(r"^    (?P<key>\w+):(?: (?P<rest>.*))?$")


@dataclass(frozen=True)
class Rule:
    """One rule: `parts` holds the text below (or behind) each directive, without its indentation."""

    name: str
    parts: dict[str, str]

    @property
    def programs(self) -> list[str]:
        """The scripts that the rule's shell command runs, relative to the project."""
        return re.findall(r"python -m (scripts\.\w+\.\w+)", self.parts.get("shell", ""))

    def entries(self, directive: str) -> list[str]:
        """Return the first line of each item of a directive, such as ``data=directory(f"...")``."""
        lines = self.parts.get(directive, "").splitlines()
        return [line for line in lines if line and line[0] not in " )]}"]


@cache
def rules() -> tuple[Rule, ...]:
    """Return every rule of the Snakefile and of the files that it includes."""
    files = [WORKFLOW / "Snakefile", *sorted((WORKFLOW / "rules").glob("*.smk"))]
    return tuple(rule for path in files for rule in _rules_in(path))


def _rules_in(path: Path) -> list[Rule]:
    lines = path.read_text().splitlines()
    found = []
    for number, line in enumerate(lines):
        if head := HEAD.match(line):
            indent = len(head["indent"])
            end = number + 1
            while end < len(lines) and (not lines[end].strip() or lines[end].startswith(" " * (indent + 1))):
                end += 1
            body = textwrap.dedent("\n".join(lines[number + 1 : end]))
            found.append(_rule(head["name"], textwrap.indent(body, "    ")))
    return found


def _rule(name: str | None, body: str) -> Rule:
    docstring = re.match(r'\s*"""(.*?)"""', body, re.DOTALL)
    parts: dict[str, list[str]] = {}
    current: list[str] = []
    for line in body[docstring.end() if docstring else 0 :].splitlines():
        if directive := DIRECTIVE.match(line):
            current = parts.setdefault(directive["key"], [directive["rest"] or ""])
        else:
            current.append(line)
    texts = {key: textwrap.dedent("\n".join(part)).strip("\n") for key, part in parts.items()}
    return Rule(name or texts.get("name", ""), texts)


# Which plug-ins a program is called for, one at a time.
PLUGINS_OF = {
    "prepare_clips": "sources",
    "fetch_clips": "sources",
    "write_format": "formats",
    "place_format": "tiers",
    "profile_tier": "tiers",
    "run_loader": "loaders",
}
