"""What programs read of a page of the report: the file beside it that says which session it shows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.common.errors import reading
from scripts.common.files import read_json, write_json


def write_about(page: Path, tables: Mapping[str, Any]) -> None:
    """Write beside a page which data set and preset its tables are of."""
    dataset = tables["dataset"]
    write_json(about_of(page), {"dataset": dataset["dataset"], "preset": dataset["config"].get("preset", "none")})


def session_of(page: Path) -> dict[str, str] | None:
    """Return the `dataset` and `preset` of a page; None where nothing beside it says so."""
    about = about_of(page)
    with reading(about, "render_report"):
        return read_json(about) if about.is_file() else None


def about_of(page: Path) -> Path:
    """Return the file beside a page."""
    return page.with_suffix(".json")
