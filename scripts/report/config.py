"""The resolved config as a reader can run it again, and which code measured."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from scripts.report.names import texts_changed

_IN_ADDRESS = re.compile(r"([?&;][^=&;#\s]+=)(?!%\(id\)s)[^&;#\s]+")  # values after the ? of an address: often keys
_HEAD = "# The config of this report with its preset, the command line and every default in it.\n"


def config_text(config: Mapping[str, Any]) -> str:
    """Return the resolved config (dataset.json's `config`) as YAML that is a config.yaml again.

    Values behind the ? of an address are … there, since they may be keys. The preset is `none`: its values stand in it.
    """
    shown = texts_changed({**config, "preset": "none"}, _without_keys)
    note = f"# preset: {config['preset']}\n" if config.get("preset", "none") != "none" else ""
    return _HEAD + note + yaml.dump(shown, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


class _Dumper(yaml.SafeDumper):
    """Writes lists of plain values on one line, and everything else as a block."""

    def represent_sequence(self, tag: str, sequence: list[Any], flow_style: bool | None = None) -> yaml.Node:
        """Return the node of a list."""
        plain = not any(isinstance(value, (dict, list)) for value in sequence)
        return super().represent_sequence(tag, sequence, flow_style=plain if flow_style is None else flow_style)


def _without_keys(text: str) -> str:
    return _IN_ADDRESS.sub(r"\1…", text) if "://" in text else text


def code_text(commits: Iterable[Mapping[str, Any]]) -> str:
    """Return which commits (host.json's `commits`) measured, and how many runs each where there are several."""
    found = [(one["commit"] or "not known", one["runs"]) for one in commits]
    if len(found) == 1:
        return found[0][0]
    return ", ".join(f"{commit} ({runs} {'run' if runs == 1 else 'runs'})" for commit, runs in found)
