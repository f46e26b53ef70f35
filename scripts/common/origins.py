"""Where items were made of: the files that a source brought, and the places in them."""

from pathlib import Path
from typing import NamedTuple

from scripts.common.corpus import read_manifest
from scripts.common.errors import UserError
from scripts.common.ledger import LedgerRow, read_ledger


class Origin(NamedTuple):
    """The file of an item, and its place in that."""

    path: Path
    start_seconds: float  # of audio, where the item begins; 0 of other data
    frames: int  # as the corpus has it: of audio its samples, at the data set's rate


def origins_of(corpus: Path, split: str, item_seconds: float | None = None) -> list[Origin]:
    """Return the origin of each item of a split, in the order of the manifest.

    `item_seconds`: the fixed length of audio, of which a recording is cut into consecutive items. Raises UserError
    where the corpus has no ledgers beside it.
    """
    items = list(read_manifest(corpus / "manifest.csv", split))
    clips = _clips_of(corpus)
    names = {name for item in items for name in (item.id, _recording(item.id))}
    rows = {row.id: row for path in sorted(clips.glob("ledger-*.csv")) for row in read_ledger(path) if row.id in names}
    missing = [item.id for item in items if item.id not in rows and _recording(item.id) not in rows]
    if missing:
        raise UserError(
            f"request.origins: found no row of {missing[0]!r} in {clips}/ledger-*.csv. Make the corpus again."
        )
    store, found = clips / "store", []
    for item in items:
        row = rows.get(item.id) or rows[_recording(item.id)]
        found.append(Origin(store / row.path, _start(item.id, row, item_seconds), item.frames))
    return found


def _clips_of(corpus: Path) -> Path:
    """Return results/clips/NAME of results/corpus/NAME, or of results/corpus/NAME/part."""
    places = [folder.parent.parent / "clips" / folder.name for folder in (corpus, corpus.parent)]
    clips = next((place for place in places if any(place.glob("ledger-*.csv"))), None)
    if clips is None:
        raise UserError(
            f"request.origins: found no ledger in {places[0]}; allowed is a corpus results/corpus/NAME that the "
            "workflow made, beside its results/clips/NAME. Make it with snakemake."
        )
    return clips


def _recording(item_id: str) -> str:
    return item_id.rpartition("#")[0]


def _start(item_id: str, row: LedgerRow, item_seconds: float | None) -> float:
    """Return the second at which an item begins in its recording: exact, where its id has three digits."""
    if item_seconds is None or item_id == row.id:
        return row.start_seconds if item_seconds else 0.0
    part = round((float(item_id.rpartition("#")[2]) - row.start_seconds) / item_seconds)
    return row.start_seconds + part * item_seconds
