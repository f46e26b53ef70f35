"""Folders of tables of other sessions, as the config names them: `report.baseline` and `report.machines`."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.common.errors import UserError


def machine_folders(given: Mapping[str, str] | Sequence[str] | None) -> list[tuple[str, str]]:
    """Return (name, folder) of each entry of `report.machines`; the names are empty where that is a list."""
    if isinstance(given, Mapping):
        return list(given.items())
    return [("", folder) for folder in given or ()]


def check_folder(key: str, folder: str, dataset: str) -> None:
    """Raise UserError where `folder`, which the config's `key` names, holds no tables."""
    if not Path(folder, "runs.csv").is_file():
        raise UserError(
            f"{key}: found {folder!r}, which has no runs.csv; allowed are null and a copy of the tables of another "
            f"session. Make one where that was measured: cp -r results/tables/{dataset} FOLDER"
        )


def check_baseline(folder: str, own: Path) -> None:
    """Raise UserError where `report.baseline` names `own`, this session's tables, which it writes anew."""
    if Path(folder).resolve() == own.resolve():
        raise UserError(
            f"report.baseline: found {folder!r}, the tables of this session itself; allowed is a copy of those of an "
            f"earlier one. Make it before you measure: cp -r {own} FOLDER"
        )


def check_once(given: Mapping[str, str] | Sequence[str] | None, own: Path) -> None:
    """Raise UserError where `report.machines` names a folder twice, or `own`, that of this session's tables."""
    seen = {own.resolve(): "the tables of this session itself"}
    for _, folder in machine_folders(given):
        place = Path(folder).resolve()
        if place in seen:
            raise UserError(
                f"report.machines: found {folder!r}, which is {seen[place]}; allowed is each machine once. Remove it "
                "from the list, or name the folder of another machine."
            )
        seen[place] = f"in the list twice, also as {folder!r}"
