"""A config's file, looked at before Snakemake reads it, which names no line and takes the last of two equal keys."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import yaml

from scripts.common.errors import UserError


def check_file(path: Path) -> None:
    """Raise UserError, with file and line, where `path` is no YAML (or JSON), or has a key twice in one mapping."""
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
        for key, first in _doubled(yaml.compose(text, yaml.SafeLoader), set()):
            raise UserError(
                f"{path}, line {_line(key.start_mark)}: found the key {key.value!r} again, which is in line "
                f"{_line(first.start_mark)} of the same mapping; allowed is each key once. Remove one of them."
            )
    except UnicodeDecodeError as error:
        raise _no_yaml(path, content.count(b"\n", 0, error.start) + 1, "bytes that are not UTF-8") from None
    except yaml.reader.ReaderError as error:
        raise _no_yaml(path, text.count("\n", 0, error.position) + 1, error.reason) from None
    except yaml.MarkedYAMLError as error:
        with suppress(ValueError):
            return json.loads(text) and None
        mark = error.problem_mark or error.context_mark
        raise _no_yaml(path, _line(mark), ", ".join(filter(None, [error.context, error.problem]))) from None
    except RecursionError:
        raise UserError(f"{path}: found brackets that are nested too deep. Nest fewer.") from None


def _no_yaml(path: Path, line: int, found: str) -> UserError:
    return UserError(
        f"{path}, line {line}: found {found}; allowed is YAML, indented by blanks, not tabs. Correct the line."
    )


def _line(mark: yaml.Mark) -> int:
    return mark.line + 1


def _doubled(node: yaml.Node | None, seen: set[int]) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """Yield (key, the same key earlier) of every mapping below `node`, each node once."""
    if node is None or id(node) in seen or isinstance(node, yaml.ScalarNode):
        return
    seen.add(id(node))
    keys: dict[tuple[str, str], yaml.Node] = {}
    for part in node.value:
        key, value = part if isinstance(node, yaml.MappingNode) else (None, part)
        known = keys.setdefault((key.tag, key.value), key) if isinstance(key, yaml.ScalarNode) else key
        if known is not key:
            yield key, known
        yield from _doubled(value, seen)
