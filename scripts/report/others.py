"""The tables of other sessions that the config puts beside these: where they are, and whether they compare."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scripts.common.compared import check_folders, machine_folders
from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.common.vocabulary import SPLIT
from scripts.decide.panel import asked
from scripts.report.shown import shown_tables

Tables = Mapping[str, Any]


def with_others(tables: Tables) -> dict[str, Any]:
    """Return tables with those of the config's other sessions: of the `baseline` (or None), and of `machines`.

    `machines` is a list of `name` (empty where the config gives none) and `tables`. Raises UserError for a folder
    without tables, for records of another protocol, for items of another length, and for a machine that is there twice.
    """
    baseline = asked(tables, "baseline")
    return {**tables, "baseline": read_baseline(baseline) if baseline else None, "machines": _machines(tables)}


def read_baseline(folder: str | Path) -> dict[str, Any]:
    """Return the tables of an earlier session. Raises UserError for such as this version cannot read."""
    hint = "Measure that session again with this version, and copy its tables; or compare with another."
    return _read(f"baseline: {folder}", folder, hint)


def _machines(tables: Tables) -> list[dict[str, Any]]:
    given, dataset = asked(tables, "machines"), tables["dataset"]["dataset"]
    check_folders("report.machines", [folder for _, folder in machine_folders(given)], dataset)
    found: list[dict[str, Any]] = []
    for title, folder in machine_folders(given):
        key = f"report.machines: {folder}"
        host = Path(folder, "host.json")
        if host.is_file():  # first of all: tables of another protocol may have other columns
            again = f"Measure there again with this version, and copy the tables again: cp -r results/tables/{dataset}"
            check_protocol(key, tables["host"], read_json(host), f"{again} FOLDER; or take it out of the list.")
        hint = "Make them there with this version, by snakemake, and copy them again"
        other = _read(key, folder, f"{hint}; or take the folder out of the list.")
        check_items(key, tables, other)
        for name, same in [("this session itself", tables), *((one["folder"], one["tables"]) for one in found)]:
            if same_runs(other, same):
                raise UserError(
                    f"{key}: found the very runs of {name}, allowed is each machine once. Take it out of the list, or "
                    "name the folder of another machine."
                )
        found.append({"name": title, "folder": folder, "tables": other})
    return found


def _read(key: str, folder: str | Path, hint: str) -> dict[str, Any]:
    try:
        return shown_tables(Path(folder))
    except UserError as error:
        found = str(error).partition(" Delete ")[0]  # it would be made again here, where nothing makes it
        raise UserError(f"{key}: found tables that this version cannot read ({found}) {hint}") from None


def check_protocol(key: str, ours: Mapping[str, Any], theirs: Mapping[str, Any], hint: str) -> None:
    """Raise UserError, which ends in `hint`, where two sessions' host.json are of other protocols."""
    if ours["protocols"] != theirs["protocols"]:
        raise UserError(
            f"{key}: found records of protocol {_numbers(theirs['protocols'])}, these are of protocol "
            f"{_numbers(ours['protocols'])}: speeds of different protocols do not compare. {hint}"
        )


def _numbers(values: Iterable[int]) -> str:
    return " and ".join(map(str, values)) or "none"


def data_text(tables: Tables) -> str:
    """Return which data a session measured, such as ``data set demo with 461 items``."""
    dataset = tables["dataset"]
    items = ((dataset["corpus"] or {}).get("items") or {}).get(SPLIT, "unknown")
    return f"data set {dataset['dataset']} with {items} items"


def check_items(key: str, tables: Tables, other: Tables) -> None:
    """Refuse items of another length, or files encoded otherwise: an item a second is then no unit that both have."""
    corpora = [one["dataset"]["corpus"] or {} for one in (tables, other)]
    ours, theirs = map(_item_text, corpora)
    if ours != theirs:
        audio = not (corpora[0].get("sample") and corpora[0]["sample"]["kind"] != "audio")
        options = "`audio` in config.yaml" if audio else "options of the data set"
        raise UserError(
            f"{key}: found items of {theirs}, allowed is {ours}: items/s of other items do not compare. Measure there "
            f"with the same {options}, or take it out of the list."
        )


def _item_text(corpus: Mapping[str, Any]) -> str:
    item = corpus.get("sample") or {"kind": "audio"}
    if item["kind"] != "audio":
        options = corpus.get("options") or {}
        encoding, quality = options.get("encoding", ""), options.get("quality")
        of_files = f" of {encoding}" + (f", quality {quality}" if encoding == "jpeg" else "") if encoding else ""
        return f"{item['kind']}s{of_files}, {item['dtype']} {' x '.join(map(str, item['shape']))}"
    return f"{corpus.get('seconds', 'unknown')} s at {corpus.get('sample_rate', 'unknown')} Hz"


def same_runs(tables: Tables, other: Tables) -> bool:
    """Return whether tables are a copy of others: no machine, and no session, stands beside itself."""
    return bool(tables["runs"]) and (tables["host"], tables["runs"]) == (other["host"], other["runs"])
