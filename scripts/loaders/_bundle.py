"""Writes the program of a loader: the text of its `make_loader`, and of all that this uses, in one file that stands
alone.

It is what was measured: names are followed from `make_loader` through the loader's file and `_plain/`, and the text of
each definition is taken as it stands. Of an `if` in `make_loader` that asks for a setting, the branch that is taken is
shown alone. Imports are gathered at the top. Below them all `make_loader` is called with the settings of the result.
"""

import ast
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from scripts.common.files import PROJECT
from scripts.common.sample import Sample
from scripts.loaders._harness import OUTSIDE, arguments_of

WIDTH = 118  # columns
ENTRY = "make_loader"
GIVEN = ("data", "key", "shape", "dtype", "scale", "ending", "classes", "batch_size", "workers", "prefetch")
GIVEN += ("pin_memory", "device", "seed", "start_method", "persistent_workers", *OUTSIDE)  # also to an own loader
ALONE = ("ring_reader",)  # files of feedrate that stand alone: a program imports a copy of them


class Source:
    """A file of Python, and what its top level defines."""

    def __init__(self, path: Path) -> None:
        self.path, self.text = path, path.read_text(encoding="utf-8")
        self.lines = self.text.splitlines()
        self.tree = ast.parse(self.text, str(path))

    @cached_property
    def definitions(self) -> dict[str, ast.stmt]:
        """The functions, classes and constants, by name."""
        found: dict[str, ast.stmt] = {}
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found[node.name] = node
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found |= {one.id: node for target in targets for one in ast.walk(target) if _is_name(one)}
        return found

    @cached_property
    def imports(self) -> dict[str, tuple[str, str | None]]:
        """What each imported name is: (module, name in it or None)."""
        return dict(_imported(self.tree.body))

    def text_of(self, node: ast.stmt) -> str:
        """Return the text of a definition with its decorators and the comment right above it."""
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(one.lineno for one in decorators)]) - 1
        while self.lines[first - 1].startswith("#"):
            first -= 1
        return "\n".join(self.lines[first : node.end_lineno])


class Program:
    """What is gathered of a program: imports, and definitions in the order in which they are needed."""

    def __init__(self, settings: Mapping[str, Any], sample: Sample, data: Path, seed: int) -> None:
        self.given = settings, sample, data, seed
        self.imports: list[str] = []
        self.parts: dict[tuple[Path, int], str] = {}
        self.sources: dict[Path, Source] = {}
        self.names: list[str] = []  # of make_loader's parameters

    def gather(self, path: Path, name: str) -> None:
        """Take a definition of a file, after all that it uses."""
        source = self._source(path)
        if name in source.imports:
            self._import(*source.imports[name], name)
            return
        node = source.definitions.get(name)
        if node is None or (path, node.lineno) in self.parts:
            return
        text = source.text_of(node)
        if name == ENTRY:
            text = self._entry(node, source)
        text = self._hoisted(text)
        self.parts[path, node.lineno] = ""  # of one that uses itself
        for used in _used(ast.parse(text)):
            self.gather(path, used)
        del self.parts[path, node.lineno]
        self.parts[path, node.lineno] = text

    def _source(self, path: Path) -> Source:
        if path not in self.sources:
            self.sources[path] = Source(path)
        return self.sources[path]

    def _import(self, module: str, name: str | None, bound: str) -> None:
        last = module.rpartition(".")[2]
        if module.startswith("scripts.") and last not in ALONE:
            self.gather(PROJECT.joinpath(*module.split(".")).with_suffix(".py"), name or bound)
            return
        module = last if module.startswith("scripts.") else module
        renamed = "" if bound in (name, module) or (name is None and module.startswith(f"{bound}.")) else f" as {bound}"
        self.imports.append(f"from {module} import {name}{renamed}" if name else f"import {module}{renamed}")

    def _hoisted(self, text: str) -> str:
        """Return a definition without the imports at the head of its functions, which go to the top."""
        tree, lines = ast.parse(text), text.splitlines()
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            for node in function.body:
                if isinstance(node, ast.Import | ast.ImportFrom):
                    for bound, (module, name) in _imported([node]):
                        self._import(module, name, bound)
                    for number in range(node.lineno - 1, node.end_lineno):
                        lines[number] = None
                    if node.end_lineno < len(lines) and lines[node.end_lineno] == "":
                        lines[node.end_lineno] = None
        return "\n".join(line for line in lines if line is not None)

    def _entry(self, node: ast.FunctionDef, source: Source) -> str:
        """Return the text of make_loader for these settings, with the parameters that it still uses."""
        names = [one.arg for one in node.args.args + node.args.kwonlyargs] + (["**"] if node.args.kwarg else [])
        defaults = dict(zip((one.arg for one in node.args.args[::-1]), node.args.defaults[::-1], strict=False))
        named = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        defaults |= {one.arg: default for one, default in named if default}
        values = {name: ast.literal_eval(default) for name, default in defaults.items() if name in OUTSIDE}
        values |= {**arguments_of(names, *self.given), "data": None}
        body = "\n".join(_folded(node.body, values, source.lines, node.body[0].lineno - 1))
        body = self._chosen(body, values, source)
        used = set(_used(ast.parse(textwrap.dedent(body))))
        first, rest = ([one.arg for one in part if one.arg in used] for part in (node.args.args, node.args.kwonlyargs))
        shown = {name: ast.unparse(default) for name, default in defaults.items()}
        shown |= {name: literal(values[name]) for name in (*first, *rest) if name in values and name not in GIVEN}
        first.sort(key=shown.__contains__)  # an option's value is its default: the program is an own loader as it is
        arguments = [*first, *rest]
        signature = [f"{name}={shown[name]}" if name in shown else name for name in arguments]
        if rest:
            signature.insert(len(first), "*")
        if node.args.kwarg and node.args.kwarg.arg in used:
            signature.append(f"**{node.args.kwarg.arg}")
        self.names = [name for name in arguments if name not in OUTSIDE]
        self.names += ["**"] if any(part.startswith("**") for part in signature) else []
        return f"{_call(f'def {ENTRY}', signature, '')}:\n{body}"

    def _chosen(self, body: str, values: Mapping[str, Any], source: Source) -> str:
        """Return a text with what a function comes to in place of its call, where it does nothing but choose.

        Such a function has one parameter, of which the value is known, and returns names.
        """
        for call in re.finditer(r"\b(\w+)\((\w+)\)", body):
            module, name = source.imports.get(call[1], ("", None))
            if not module.startswith("scripts.") or call[2] not in values:
                continue
            there = Source(PROJECT.joinpath(*module.split(".")).with_suffix(".py"))
            found = _choice(there.definitions[name].body[1:], {call[2]: values[call[2]]})
            if found:
                body = body.replace(call[0], found)
                source.imports[found] = (module, found)
        return body

    def main(self) -> str:
        """Return the end of a program: its loader, and the loop over an epoch."""
        settings, sample, data, _ = self.given
        arguments = arguments_of(self.names, *self.given)
        literals = [
            f"Path({literal(str(data))})" if name == "data" else f"{name}={literal(value)}"
            for name, value in arguments.items()
        ]
        lines = [
            f"{_call(f'loader = {ENTRY}', literals, '    ')}",
            "    for batch in loader:  # an epoch, each time in a new order",
        ]
        if "device" not in self.names and settings["device"] != "cpu":
            lines.append(
                '        batch = {name: tensor.to("cuda", non_blocking=True) for name, tensor in batch.items()}'
            )
        if any(isinstance(one, ast.FunctionDef) and one.name == "on_arrival" for one in self.first.tree.body):
            lines.append("        batch = on_arrival(batch)")
        shape = ", ".join(map(str, ("n", *sample.shape)))
        lines.append(
            f'        data, target = batch["{sample.key}"], batch["target"]  # {sample.dtype} ({shape}), int64 (n,)'
        )
        lines.append("        # your training step")
        return 'if __name__ == "__main__":\n    ' + "\n".join(lines)

    def text(self, loader: Path, first: str = "", imports: Iterable[str] = ()) -> str:
        """Return the program below its heading; `first`, which needs these `imports`, stands above all else."""
        self.imports += ["from pathlib import Path", *imports]
        self.first = self._source(loader)
        if "on_arrival" in self.first.definitions:
            self.gather(loader, "on_arrival")
        self.gather(loader, ENTRY)
        body = f"\n{first}" if first else ""
        for text in self.parts.values():
            constant = not re.match(r"(?:#.*\n)*(?:async|def|class|@)", text)
            among = constant and not body.rpartition("\n")[2].startswith((" ", ")"))
            body += f"\n{text}" if among else f"\n\n\n{text}" if body else f"\n\n{text}"
        return f"{sorted_imports(self.imports)}\n{body}\n\n\n{self.main()}"


def literal(value: Any) -> str:
    """Return Python's text for a value, in double quotes where that needs no escapes."""
    if isinstance(value, tuple | list):
        parts = ", ".join(map(literal, value))
        return f"({parts},)" if len(value) == 1 else f"({parts})"
    text = repr(value)
    return f'"{text[1:-1]}"' if text[0] == "'" and '"' not in text else text


def _call(head: str, parts: list[str], indent: str) -> str:
    """Return a call, or the head of a function, as ruff formats it."""
    text = f"{head}({', '.join(parts)})"
    if len(indent) + len(text) + (head.startswith("def")) <= WIDTH + 2:
        return text
    inner = f"{indent}    "
    joined = ", ".join(parts)
    if head.startswith("def") and len(inner) + len(joined) <= WIDTH + 2 and not parts[-1].startswith("**"):
        return f"{head}(\n{inner}{joined}\n{indent})"
    if len(inner) + len(joined) <= WIDTH + 2:
        return f"{head}(\n{inner}{joined}\n{indent})"
    return f"{head}(\n" + "".join(f"{inner}{part},\n" for part in parts) + f"{indent})"


def _folded(
    body: list[ast.stmt], values: Mapping[str, Any], lines: list[str], start: int, less: int = 0
) -> Iterator[str]:
    """Yield the lines of statements, of an `if` on settings those of the branch that is taken, indented `less`."""
    for node in body:
        comments = lines[start : node.lineno - 1]
        start = node.end_lineno
        taken = _taken(node, values)
        if taken is None:
            yield from (
                line[less:] if line.strip() else line for line in [*comments, *lines[node.lineno - 1 : node.end_lineno]]
            )
        else:
            yield from (line[less:] for line in comments if line.strip())
            if taken:
                first = taken[0].lineno - 1
                while lines[first - 1].strip().startswith("#"):
                    first -= 1
                deeper = len(lines[taken[0].lineno - 1]) - len(lines[taken[0].lineno - 1].lstrip()) - node.col_offset
                yield from _folded(taken, values, lines, first, less + deeper)
        if isinstance((taken or [node])[-1], ast.Return):
            return


def _taken(node: ast.stmt, values: Mapping[str, Any]) -> list[ast.stmt] | None:
    """Return the statements that an `if` on known settings comes to; None of what is no such `if`."""
    if not isinstance(node, ast.If) or not {one.id for one in ast.walk(node.test) if _is_name(one)} <= values.keys():
        return None
    return node.body if eval(ast.unparse(node.test), {}, dict(values)) else node.orelse


def _choice(body: list[ast.stmt], values: Mapping[str, Any]) -> str | None:
    """Return the name that a function returns which does nothing but choose, else None."""
    for node in body:
        taken = [node] if (found := _taken(node, values)) is None else found
        if taken and isinstance(taken[0], ast.Return) and _is_name(taken[0].value):
            return taken[0].value.id
        if taken:
            return None
    return None


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name)


def _used(tree: ast.AST) -> list[str]:
    """Return the names that are read in a text, in their order."""
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    return list(dict.fromkeys(node.id for node in sorted(names, key=lambda one: (one.lineno, one.col_offset))))


def _imported(body: list[ast.stmt]) -> Iterator[tuple[str, tuple[str, str | None]]]:
    """Yield (bound name, (module, name in it or None)) of the imports among statements."""
    for node in body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name.partition(".")[0], (alias.name, None)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, (node.module or "", alias.name)


def sorted_imports(lines: list[str]) -> str:
    """Return imports as ruff sorts them: of the standard library, then the others; those of one module together."""
    modules: dict[tuple[bool, bool, str], set[str]] = {}
    for line in lines:
        kind, module, *rest = line.split(maxsplit=3)
        outside = module.split(".")[0] not in sys.stdlib_module_names
        names = rest[-1].split(", ") if kind == "from" else [" ".join(rest)]
        modules.setdefault((outside, kind == "from", module), set()).update(names)
    sections: list[list[str]] = [[], []]
    for (outside, whole, module), names in sorted(modules.items()):
        ordered = ", ".join(sorted(names, key=lambda name: (not name[0].isupper(), name))) if whole else "".join(names)
        sections[outside].append(f"from {module} import {ordered}" if whole else f"import {module} {ordered}".strip())
    return "\n\n".join("\n".join(section) for section in sections if section)
