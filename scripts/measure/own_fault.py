"""A broken file of the user's own is tried once in a call of Snakemake, and not for every setting, tier and repeat.

The first run that fails by a line of the file, or at the gate, leaves a note beside the runs. The others of the same
call have its reason and are not tried while the file, and what it imports beside it, is as it was.
"""

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from scripts.common.files import read_json, write_json
from scripts.common.plan_file import call_of
from scripts.common.versions import loader_version
from scripts.common.vocabulary import NOT_TRIED, REASONS


def known(note: Path | None, module: ModuleType) -> str | None:
    """Return why the file of `module` is not tried, or None where this call has no `note` of it as it is now."""
    if note is None or not note.is_file():
        return None
    said = read_json(note)
    return said["reason"] if said["of"] == _of(note, module) else None


def noted(note: Path | None, module: ModuleType, record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a run's record; where its failure is the file's, with what becomes of the other runs, and a note left."""
    reason = record["reason"] or ""
    own_line = f"({module.OWN_FILE.name}, line " if note else ""
    wrong_data = (record["verification"] or {}).get("problems")
    if note is None or record["status"] != "failed" or not (own_line in reason or wrong_data):
        return record
    again = f"snakemake results/{record['loader']}.json --forcerun prove_loader"
    reason = (
        f"{reason}; tried once, on {record['tier']} with {record['slug']}: {REASONS[NOT_TRIED].text}. Correct it, or "
        f"type: {again}, then the rest of your command"
    )
    note.parent.mkdir(parents=True, exist_ok=True)
    write_json(note, {"of": _of(note, module), "reason": reason})
    return {**record, "reason": reason}


def _of(note: Path, module: ModuleType) -> list[str]:
    """Return what a note is of: this call of Snakemake, and the hash of the loader's files."""
    return [call_of(note.parent), loader_version(module)]
