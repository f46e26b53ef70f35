"""Writes the program behind a result: the loader as it was measured, with its settings, by its library only.

A loader's SNIPPET is the text of a program: what is its own written out, what programs share as fragments. It ends with
an object `loader` that gives one epoch in a new random order each time it is iterated, and with `$loop`. In it stand:

- fragments, FRAGMENTS and COMPOSED below, by name: `$head`, `$labels`, `$empty_batch`, `$data_loader`, `$loop`, ...
- OF_SAMPLE: `$item`, the key of a batch, `$dtype`, `$ending`, `$item_bytes`;
- `$seed`, `$workers`, `$prefetch`, `$pin_memory`, and the loader's OPTIONS by name, as Python literals: text comes with
  its quotes. A line that names a setting which the result has not (null: the loader does not understand it, or it has
  no effect) is left out.
- `$when NAME=VALUE` up to the next `$when` or `$end`, each alone on its line: lines that are there only where that
  option has that value.

Imports may stand anywhere at the top level: they are gathered at the top, sorted, with those of the fragments.
"""

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from string import Template
from types import ModuleType
from typing import Any

from scripts.common import plugins
from scripts.common.errors import UserError, nearest
from scripts.common.sample import Sample
from scripts.common.settings import settings_text
from scripts.common.vocabulary import SPIN_COUNT
from scripts.loaders._bundle import Program, sorted_imports

OF_SAMPLE = ("item", "dtype", "ending", "item_bytes")  # names that stand for a part of what an item is
WIDTH = 118  # of the comments, in columns
_IMPORT = re.compile(r"(?:import|from) .+")
# The parts that programs share, by name. Two depend on the program around them, see _fragments.
FRAGMENTS = {
    "head": """\
data = Path($data)
$sizes
batch_size = $batch_size
device = $device""",
    "labels": """\
target = torch.from_numpy(np.load(data / "target.npy"))  # int64 (items,), the first class of an item
labels = torch.from_numpy(np.load(data / "labels.npy"))  # float32 (items, classes)""",
    "empty_batch": """\
def empty_batch(items):
    if torch.utils.data.get_worker_info() is None:
        return torch.from_numpy(np.empty((items, *shape), dtype=np.$dtype))
    # in a worker, in shared memory at once, as torch's own collating does it: sending the batch then copies nothing
    like = torch.empty(0, dtype=torch.$dtype)
    memory = like._typed_storage()._new_shared(items * math.prod(shape), device="cpu")
    return like.new(memory).resize_(items, *shape)""",
    "objects": """\
index = json.loads((data / "index.json").read_text(encoding="utf-8"))  # of what was placed, beside the label arrays
sizes = {entry["key"]: entry["size"] for entry in index["objects"]}
endpoint = os.environ.get("AWS_ENDPOINT_URL")  # None: Amazon's; credentials are in the environment too


def place(position):  # of an item: its object, and the first byte there, behind the header of a .npy file
    name, rows = ("$item.npy", len(target) - position) if "$item.npy" in sizes else (f"{position:06d}.npy", 1)
    return f"{index['prefix']}/{name}", sizes[name] - rows * $item_bytes""",
    "data_loader": """\
DataLoader(
    Items(),
    batch_size=batch_size,
    shuffle=True,
    generator=torch.Generator().manual_seed($seed),
    collate_fn=lambda batch: batch,  # it is gathered already
    $worker_arguments
)""",
    "collate": """\
def collate(items):
    audio = empty_batch(len(items))
    for item, row in zip(items, audio.numpy()[:, 0], strict=True):
        pcm = item["audio"][:samples]  # int16
        np.multiply(pcm, np.float32(1 / 32768), out=row[: len(pcm)])
        row[len(pcm) :] = 0
    where = torch.tensor([int(item["position"]) for item in items])
    return {"audio": audio, "target": target[where], "labels": labels[where]}""",
    "dali_decoded": """\
pcm, _ = fn.decoders.audio(encoded, dtype=types.INT16, downmix=False)  # its own float32 is scaled by 1 / 32767
flat = fn.reshape(pcm, shape=[-1])
fixed = fn.slice(flat, start=[0], shape=[samples], axes=[0], out_of_bounds_policy="pad", fill_values=0)
audio = fn.reshape(fixed * (1 / 32768), shape=[1, samples])""",
    "dali_iterator": """\
DALIGenericIterator(
    pipeline(device_id=None if device == "cpu" else torch.cuda.current_device()),
    ["$item", "where"],
    reader_name="reader",
    last_batch_policy=LastBatchPolicy.PARTIAL,
    auto_reset=True,
)""",
    "loop": """\
for batch in loader:  # an epoch, each time in a new order
    batch = {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}
    # your training step, with batch["$item"], $dtype $batch_shape, and batch["target"]""",
}
# What is made of fragments and of text: of longer stretches that programs share.
COMPOSED = {
    "items_class": """\
from torch.utils.data import Dataset
$empty_batch


class Items(Dataset):
    def __len__(self):
        return len(target)""",
    "reused_batch": """\
$when reuse=True
import numpy as np
buffer = torch.from_numpy(np.empty((batch_size, *shape), dtype=np.$dtype))  # of every batch, until the next one


def empty_batch(items):
    return buffer[:items]
$end""",
    "by_data_loader": """\
loader = $data_loader

$loop""",
    "stored_collate": """\
$empty_batch


$collate""",
    "by_streaming_loader": """\
loader = StreamingDataLoader(
    dataset,
    batch_size=batch_size,
    collate_fn=collate,
    $worker_arguments
)

$loop""",
    "own_loader": """\
loader = Loader()

$loop""",
}
STORED_COLLATE = """\
def collate(items):
    $item = empty_batch(len(items))
    for item, row in zip(items, $item.numpy(), strict=True):
        $stored_row
    where = torch.tensor([int(item["position"]) for item in items])
    return {"$item": $item, "target": target[where], "labels": labels[where]}"""  # of data that is no audio
KEEP = """\
import ctypes

libc = ctypes.CDLL(None)  # glibc is to keep memory that is freed, for the next batch: no page faults (allocator: keep)
libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD; before glibc 2.35 it takes 1 << 25 at most
libc.mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD
libc.mallopt(-8, 1)  # M_ARENA_MAX: the heap of a thread is given back when it is empty
"""
_TENSORS = ("import numpy as np", "import torch")
_ITERATOR = "from nvidia.dali.plugin.pytorch import DALIGenericIterator, LastBatchPolicy"
IMPORTS = {  # what each of them needs
    "head": ("from pathlib import Path",),
    "labels": _TENSORS,
    "empty_batch": ("import math", *_TENSORS),
    "objects": ("import json", "import os"),
    "data_loader": ("import torch", "from torch.utils.data import DataLoader"),
    "collate": _TENSORS,
    "dali_decoded": ("from nvidia.dali import types",),
    "dali_iterator": ("import torch", _ITERATOR),
}


def program(
    module: ModuleType,
    settings: Mapping[str, Any],
    format_about: str,
    data: str | Path,
    sample: Sample,
    seed: int = 0,
    versions: Mapping[str, str | None] | None = None,
) -> str:
    """Return the PyTorch program of a loader with a SNIPPET and the settings of a run, formatted as ruff does it.

    `format_about` is what its format says of itself, `data` the folder of the split, `sample` what an item is, `seed`
    that of the order, `versions` those of what the loader REQUIRES, by distribution. Raises UserError for a SNIPPET
    with a name that there is not.
    """
    if not hasattr(module, "SNIPPET"):
        made = Program(settings, sample, Path(data), seed)
        if settings.get("allocator") == "keep":
            made.imports.append("import ctypes")
        body = made.text(Path(module.__file__))
        if settings.get("allocator") == "keep":
            first, _, rest = body.partition("\n\n\n")
            body = f"{first}\n\n{KEEP.partition(chr(10) * 2)[2]}\n\n{rest}"
        return f"{_heading(module, settings, format_about, versions or {})}\n\n{body}\n"
    values = {"data": str(data), "item_bytes": sample.bytes, "dtype": sample.dtype, "seed": seed, **settings}
    above = f"{KEEP}\n" if settings.get("allocator") == "keep" else ""
    body = _expanded(above + _chosen(_composed(module.SNIPPET), values), settings, sample)
    literals = {name: _literal(value) for name, value in values.items()}
    lines = (line for line in body.splitlines() if all(literals.get(name, "") is not None for name in _names(line)))
    try:
        body = "\n".join(Template(line).substitute(literals) for line in lines)
    except KeyError as error:
        name, known = error.args[0], [*FRAGMENTS, *COMPOSED, *OF_SAMPLE, "worker_arguments", *literals]
        raise UserError(
            f"{module.__name__}: SNIPPET: found ${name}, allowed are {', '.join(f'${one}' for one in known)}."
            f"{nearest(name, known)} Correct it (docs/extending.md)."
        ) from None
    if settings.get("start_method"):
        head, _, rest = body.partition("\nloader = ")
        named = rest.replace("collate_fn=lambda batch: batch,", "collate_fn=as_is,")  # a lambda cannot be sent
        head += "" if named == rest else "\ndef as_is(batch):\n    return batch\n\n"
        rest = textwrap.indent(f"loader = {named}", "    ")
        body = f'{head}\nif __name__ == "__main__":  # each worker imports this file\n{rest}'
    return f"{_heading(module, settings, format_about, versions or {})}\n\n{body}\n"


def _composed(text: str) -> str:
    """Return `text` with what is COMPOSED in place of its names."""
    return re.sub(rf"\$({'|'.join(COMPOSED)})\b", lambda found: COMPOSED[found[1]], text)


def _chosen(text: str, values: Mapping[str, Any]) -> str:
    """Return `text` without the sections that are of other values of an option."""
    lines, kept = [], True
    for line in text.strip().splitlines():
        word, _, condition = line.strip().partition(" ")
        if word in ("$when", "$end"):
            name, _, value = condition.partition("=")
            kept = word == "$end" or str(values[name]) == value
        elif kept:
            lines.append(line)
    return "\n".join(lines)


def _expanded(text: str, settings: Mapping[str, Any], sample: Sample) -> str:
    """Return `text` with its fragments, indented as their names were, below all imports."""
    fragments = _fragments(text, sample) | {"worker_arguments": _worker_arguments(settings)}
    named = re.compile(rf"\$({'|'.join(fragments)})\b")
    imports = [line for name in named.findall(text) if fragments[name] for line in IMPORTS.get(name, ())]
    lines = []
    for line in text.splitlines():
        if _IMPORT.fullmatch(line):
            imports.append(line)
            continue
        while found := named.search(line):  # a fragment may name another one
            above = line[: found.start()].rpartition("\n")[2]
            indent = above[: len(above) - len(above.lstrip())]
            line = line[: found.start()] + fragments[found[1]].replace("\n", f"\n{indent}") + line[found.end() :]
        lines.append(line)
    body = re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines).strip())
    return "\n\n".join(filter(None, (sorted_imports(imports), body)))


def _fragments(text: str, sample: Sample) -> dict[str, str]:
    """Return the fragments' texts as they are in a program of which `text` is the rest, for items like `sample`."""
    found = dict(FRAGMENTS) | {"item": sample.key, "dtype": sample.dtype, "ending": sample.ending}
    found["batch_shape"] = "(n, 1, samples)" if sample.kind == "audio" else f"(n, {', '.join(map(str, sample.shape))})"
    if sample.kind != "audio":
        found["collate"] = STORED_COLLATE
    rows, values = "values.view($item.shape)", 'np.asarray(item["$item"]).reshape(shape)'
    found["stored_rows"], found["stored_row"] = f"$item.copy_({rows})", f"row[...] = {values}"
    if sample.scale:
        scale = f"1 / {round(1 / sample.scale)}"
        found["stored_rows"] = f"torch.mul({rows}, {scale}, out=$item)"
        found["stored_row"] = f"np.multiply({values}, np.float32({scale}), out=row)"
    plain = sample.dtype == "uint8"
    found["row_of_planes"] = "row[...] = pixels" if plain else "np.multiply(pixels, np.float32(1 / 255), out=row)"
    found["row_of_pixels"] = (
        "cv2.split(pixels, [*row])  # the channels first"
        if plain
        else "np.multiply(pixels.reshape(*shape[1:], -1).transpose(2, 0, 1), np.float32(1 / 255), out=row)"
    )
    if ("empty_batch(" not in text and "$collate" not in text) or "def empty_batch(" in text:
        found["empty_batch"] = ""
    if "__getitems__" not in text:  # torch collates
        found["data_loader"] = re.sub(r"\n *collate_fn=.*", "", found["data_loader"])
    if "external_source" in text:  # no reader knows how long an epoch is
        found["dali_iterator"] = found["dali_iterator"].replace('reader_name="reader"', "size=-1")
    found["sizes"] = _sizes(" ".join([text, *(found[name] for name in FRAGMENTS if f"${name}" in text)]), sample)
    return found


def _sizes(text: str, sample: Sample) -> str:
    """Return the lines of a program that say how large an item is, by the names that the program uses."""
    if sample.kind != "audio":
        return f"shape = {sample.shape}  # of {'an' if sample.kind[0] in 'aio' else 'a'} {sample.kind}"
    about = "of an item; shorter ones are padded, longer ones cut"
    lines = [f"samples = {sample.shape[-1]}  # {about}"] if re.search(r"\bsamples\b", text) else []
    if re.search(r"\bshape\b", text):
        lines.append(f"shape = (1, {'samples' if lines else sample.shape[-1]})  # {'an item' if lines else about}")
    return "\n".join(lines)


def _names(line: str) -> list[str]:
    return Template(line).get_identifiers()


def _literal(value: Any) -> str | None:
    """Return Python's text for a value, in double quotes where that needs no escapes; None for None."""
    if value is None:
        return None
    text = repr(value)
    return f'"{text[1:-1]}"' if text[0] == "'" and '"' not in text else text


def _worker_arguments(settings: Mapping[str, Any]) -> str:
    """Return the lines of a DataLoader's arguments for workers, prefetching and pinned memory."""
    lines = [f"num_workers={settings['workers'] or 0},"]
    if settings["workers"]:
        lines += [
            f"prefetch_factor={settings['prefetch']},",
            f"persistent_workers={settings.get('persistent_workers') is not False},",
            f'multiprocessing_context="{settings.get("start_method") or "fork"}",',
        ]
    return "\n".join(lines + (["pin_memory=True,"] if settings["pin_memory"] else []))


def _heading(
    module: ModuleType, settings: Mapping[str, Any], format_about: str, versions: Mapping[str, str | None]
) -> str:
    """Return the comment above the program: what it is, what it needs and what it reads."""
    name = module.__name__.rpartition(".")[2]
    about = (module.__doc__ or "").strip().splitlines()[0]
    paragraphs = [
        f"{name}: {about}",
        f"As feedrate measured it: device {settings['device']}, {settings_text(settings)}.",
        f"Reads feedrate's format {module.FORMAT}: {format_about}",
        f"Start your training with GOMP_SPINCOUNT={SPIN_COUNT}, as this was measured: torch's threads then give the "
        "cores back soon after each operation.",
    ]
    if settings.get("device_prefetch"):
        paragraphs.append(
            f"The measured program also copied {settings['device_prefetch']} batches to the GPU ahead, on a stream of "
            "their own (device_prefetch); this one does not."
        )
    if settings.get("allocator") not in (None, "keep"):
        paragraphs.append(
            f"The measured program ran on {settings['allocator']}: start this one with its library in LD_PRELOAD."
        )
    if settings.get("transform"):
        paragraphs.append(
            f"The measured program also applied the transform {settings['transform']} to each item; this one does not."
        )
    pins = (f"{name}=={versions[name]}" if versions.get(name) else name for name in plugins.required(module, settings))
    return "\n".join([*map(comment, paragraphs), f"# pip install {' '.join(pins)}"])


def comment(text: str) -> str:
    """Return text as lines of a comment."""
    return textwrap.fill(" ".join(text.split()), WIDTH, initial_indent="# ", subsequent_indent="# ")
