"""What a run's record says of its loader, noted when it is measured: its file or a lock may say another thing later."""

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from scripts.common import isolated, plugins, sample
from scripts.common.files import read_json
from scripts.common.location import PATH
from scripts.common.versions import loader_version
from scripts.common.vocabulary import ORDERS, RANDOM, SPLIT, UNKNOWN
from scripts.loaders import _program
from scripts.machine.host import warning


def declared(
    module: ModuleType, settings: dict[str, Any], corpus: Path, data: Path, dataset: str, seed: int
) -> dict[str, Any]:
    """Return what `module` declares, its version and those of what it requires in its environment, and its program.

    `corpus` is the corpus's folder, `data` that of the format on its tier, or of the index of its objects: the program
    of a loader that reads a folder names the one that lasts, where the workflow has made one. A loader in a file of the
    user's own is its own program: None.
    """
    found = plugins.declared(module)
    versions = {name: isolated.version_of(name, isolated.env_of(module)) for name in plugins.required(module, settings)}
    own = getattr(module, "OWN_FILE", None)
    lasting = Path("results", "formats", dataset, module.FORMAT)
    reads_folder = PATH in getattr(module, "READS", (PATH,))
    folder = (lasting if reads_folder and lasting.is_dir() else data) / SPLIT
    info, about = read_json(corpus / "corpus.json"), found["format_about"]
    item, classes = sample.from_json(info["sample"]), info["classes"]
    program = None
    if not own and hasattr(module, "make_loader"):
        program = _program.program(module, settings, about, folder, item, seed, versions, classes)
    return {
        **found,
        "version": loader_version(module),
        "lifetime": plugins.lifetime(module, settings),
        "versions": versions,
        **({"piece": plugins.piece(module, settings)} if hasattr(module, "PIECE") else {}),
        "stages": list(getattr(module, "STAGES", ())),
        "own_file": own and own.name,
        "program": program,
    }


def not_as_declared(record: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return warnings of what the proof measured otherwise than the loader says: how long a batch lasts, the order."""
    said, order = record["declared"], record["order"]
    found = []
    if record["lifetime"] != said["lifetime"]:
        seen = "a batch that was kept held other data later, and the loader says LIFETIME = 'lasting'"
        hint = "copy what you keep, or say LIFETIME = 'next'"
        found.append(warning("not-lasting", seen, "it fills the same memory again", hint))
    if order and said["order"] == RANDOM and order["measured"] not in (RANDOM, UNKNOWN):
        seen = f"the order is {ORDERS[order['measured']].word}: {ORDERS[order['measured']].about}"
        hint = "shuffle all items anew in each epoch, or say in ORDER how the order is made"
        found.append(warning("order-not-random", seen, "the loader does not shuffle all items", hint))
    return found
