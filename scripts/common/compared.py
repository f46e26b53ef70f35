"""Folders of tables of other sessions, as the config names them: `report.baseline` and `report.machines`."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from scripts.common.errors import UserError


def machine_folders(given: Mapping[str, str] | Sequence[str] | None) -> list[tuple[str, str]]:
    """Return (name, folder) of each entry of `report.machines`; the names are empty where that is a list."""
    if isinstance(given, Mapping):
        return list(given.items())
    return [("", folder) for folder in given or ()]


def check_folders(key: str, folders: Iterable[str], dataset: str) -> None:
    """Raise UserError where a folder that the config's `key` names holds no tables of another session, or is there
    twice. This session writes its own anew.
    """
    own = Path("results", "tables", dataset)
    seen = {own.resolve(): "the tables of this session itself"}
    for folder in folders:
        place = Path(folder).resolve()
        if not (place / "runs.csv").is_file():
            raise UserError(
                f"{key}: found {folder!r}, which has no runs.csv; allowed are null and a copy of the tables of another "
                f"session. Make one where that was measured: cp -r {own} FOLDER"
            )
        if place in seen:
            raise UserError(
                f"{key}: found {folder!r}, which is {seen[place]}; allowed is each other session once. Name a copy of "
                f"tables that was made before you measure again (cp -r {own} FOLDER), or remove it."
            )
        seen[place] = f"there twice, also as {folder!r}"
