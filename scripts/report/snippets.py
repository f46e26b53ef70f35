"""Writes the program behind a row of the tables: the loader that was measured, with its settings, by its library alone.

Each loader declares its own as `SNIPPET`, a `string.Template`: a whole program, which ends with an object `loader` that
gives one epoch in a new random order each time it is gone through, and a short loop over it. Where a value of the
loader's first option needs other code, SNIPPET is a dict {value: text}. Names that a text may use:

- `$data`, `$samples`, `$seed`, `$device`, `$batch_size`, `$workers`, `$prefetch`, `$pin_memory`, and the loader's
  OPTIONS by name, as Python literals: text comes with its quotes. A line that names a setting which the result has not
  (null: the loader does not understand it, or it has no effect) is left out.
- `$worker_arguments`, alone on its line in the call of a DataLoader: those of `torch_dataloader.worker_arguments`.
- `$empty_batch`, alone on its line: the function `empty_batch(clips)`, which returns a tensor to gather a batch in, as
  `torch_dataloader.empty_batch` does. It takes `np`, `torch` and `samples` from the text around it.
"""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from types import ModuleType
from typing import Any

from scripts.common import isolated, plugins
from scripts.common.errors import UserError
from scripts.common.files import PROJECT
from scripts.common.vocabulary import RESULT_SETTINGS
from scripts.tables.columns import settings_text

COMPANIONS = PROJECT / "scripts" / "loaders" / "_ring"
WIDTH = 118  # of the comments, in columns
EMPTY_BATCH = """\
def empty_batch(clips):
    if torch.utils.data.get_worker_info() is None:
        return torch.from_numpy(np.empty((clips, 1, samples), dtype=np.float32))
    # in a worker, in shared memory at once, as torch's own collating does it: sending the batch then copies nothing
    like = torch.empty(0)
    return like.new(like._typed_storage()._new_shared(clips * samples, device="cpu")).resize_(clips, 1, samples)"""


def snippet(row: Mapping[str, Any], data: str | Path, samples: int, seed: int = 0) -> str:
    """Return a PyTorch program that loads as the result in `row` was measured, formatted as ruff does it.

    `row` has the columns of a result (`tables.COLUMNS["ranking"]`), `data` is the folder of the split, `samples` the
    fixed length of a clip (`samples` of corpus.json), `seed` that of the order. Of a loader in a file of the user's own
    it is a comment that says so. Raises UserError for a loader without a SNIPPET, and for a row that was never run.
    """
    if row["loader"] not in plugins.names("loaders"):
        return _comment(f"{row['loader']} is your own loader: your own file is its program.") + "\n"
    module = plugins.load("loaders", row["loader"])
    if not hasattr(module, "SNIPPET"):
        raise UserError(
            f"loader {row['loader']!r}: found no SNIPPET in scripts/loaders/{row['loader']}.py; expected is the text "
            "of a program. Write one; see docs/extending.md."
        )
    if row["device"] is None or row["batch_size"] is None:
        raise UserError(
            f"loader {row['loader']!r}: found a row without device and batch size, which was never run; expected is a "
            "result. Take a row of best.csv that has a speed."
        )
    defaults = {name: part["default"] for name, part in getattr(module, "OPTIONS", {}).items()}
    options = {**defaults, **json.loads(row["options"] or "{}")}
    values = {
        "data": str(data),
        "samples": samples,
        "seed": seed,
        **options,
        **{name: row[name] for name in RESULT_SETTINGS},
    }
    literals = {name: _literal(value) for name, value in values.items()}
    body = _filled(_text(module, options), literals, {"worker_arguments": _arguments(row), "empty_batch": EMPTY_BATCH})
    return f"{_heading(row, module, options)}\n\n{body}\n"


def _text(module: ModuleType, options: Mapping[str, Any]) -> str:
    """Return the loader's text for the value of its first option."""
    if isinstance(module.SNIPPET, str):
        return module.SNIPPET
    return module.SNIPPET[options[next(iter(module.OPTIONS))]]


def _filled(text: str, literals: Mapping[str, str | None], fragments: Mapping[str, str]) -> str:
    """Return `text` with its names replaced; lines of a fragment are indented as its name was."""
    lines = []
    for line in text.strip().splitlines():
        name = line.strip().removeprefix("$")
        if name in fragments:
            lines.append(textwrap.indent(fragments[name], line[: len(line) - len(line.lstrip())]))
        elif all(literals[name] is not None for name in Template(line).get_identifiers() if name in literals):
            lines.append(Template(line).substitute(literals))
    return "\n".join(lines)


def _literal(value: Any) -> str | None:
    """Return Python's text for a value, in double quotes where that needs no escapes; None for None."""
    if value is None:
        return None
    text = repr(value)
    return f'"{text[1:-1]}"' if text[0] == "'" and '"' not in text else text


def _arguments(row: Mapping[str, Any]) -> str:
    """Return the lines of a DataLoader's arguments for workers, prefetching and pinned memory."""
    lines = [f"num_workers={row['workers'] or 0},"]
    if row["workers"]:
        lines += [f"prefetch_factor={row['prefetch']},", "persistent_workers=True,", 'multiprocessing_context="fork",']
    return "\n".join(lines + (["pin_memory=True,"] if row["pin_memory"] else []))


def _heading(row: Mapping[str, Any], module: ModuleType, options: Mapping[str, Any]) -> str:
    """Return the comment above the program: what it is, what it needs and what it reads."""
    paragraphs = [
        f"{row['loader']}: {plugins.describe(module)}",
        f"As feedrate measured it: device {row['device']}, {settings_text(row)}.",
        f"Reads feedrate's format {module.FORMAT}: {plugins.describe(plugins.load('formats', module.FORMAT))}",
    ]
    if options.get("device_prefetch"):
        paragraphs.append(
            f"The measured program also copied {options['device_prefetch']} batches to the GPU ahead, on a stream of "
            "their own (device_prefetch); this one does not."
        )
    return "\n".join([*map(_comment, paragraphs), f"# pip install {' '.join(_packages(module))}"])


def companions(program: str) -> list[Path]:
    """Return the files of feedrate that a program imports, each of which stands alone and may be copied."""
    names = re.findall(r"^(?:from|import) (\w+)", program, flags=re.MULTILINE)
    return [path for name in dict.fromkeys(names) if (path := COMPANIONS / f"{name}.py").is_file()]


def _comment(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), WIDTH, initial_indent="# ", subsequent_indent="# ")


def _packages(module: ModuleType) -> Iterator[str]:
    """Yield what the loader requires as pip takes it, in the versions that were measured."""
    locks = (PROJECT / "requirements.lock", isolated.lock(isolated.env_of(module)))
    text = "\n".join(lock.read_text(encoding="utf-8") for lock in locks if lock.is_file())
    versions = dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", text, flags=re.MULTILINE))  # the last one counts
    for name in module.REQUIRES:
        yield f"{name}=={versions[name]}" if name in versions else name
