"""docs/reliability.md: what the whole campaign found, from a record that the page itself carries."""

import json
import platform
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from tests.support.faults.registry import STAGES, Row
from tests.support.programs import PROJECT

DOC = PROJECT / "docs" / "reliability.md"
FENCE = "```json\n"
HEAD = """# What faults do

`make faults` plants {faults} faults, each by name, in a tiny project of which every stage has run; `make test` plants a
part of them by the same code (`tests/support/faults/`, `tests/faults.py`). This page is written by it: of commit
{commit}, on {date}, with Linux {kernel}, {who}, in {minutes:.0f} minutes.

| | |
|---|---|
| planted | {planted} of {faults} |
| as expected | {holds} |
| items lost: neither delivered nor named with a reason | {lost} |
| half files taken for whole | {half} |
| wrong numbers | {wrong} |
| say what to do | {says} of the {speaking} after which somebody is left to say it |

How a fault is planted: errors (ENOSPC, EDQUOT, EIO, EMFILE), kills at a given call, flipped bits, stale reads and a
clock that goes back by a shim that is preloaded into the programs (`shim.c`, made by the C compiler; without one
those rows are not run); full and read-only file systems by real ones, a tmpfs and an ext4 on a loop device; the
network by servers on loopback. Memory maps do not pass the shim. EDQUOT is the shim's error: no quota is set up.
After a fault of writing the same command runs again, and what it makes is compared with what it made without a fault.

| stage | fault | expected | found | lost | half | wrong | says what to do | s | first line of what was said |
|---|---|---|---|---|---|---|---|---|---|
{table}

The record from which this page is written:

"""


def record_of(rows: Iterable[Row], begun: str | None) -> dict[str, Any]:
    """Return the record of a whole campaign, of this machine and now; `begun`: the commit that it began with."""
    import os

    about = {"commit": begun, "date": datetime.now(UTC).strftime("%Y-%m-%d"), "kernel": platform.release()}
    who = "root" if os.geteuid() == 0 else "an ordinary user"
    return {**about, "who": who, "rows": [{**asdict(row), "commit": about["commit"]} for row in rows]}


def renewed(record: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record with the rows of a newer one in the place of those of the same faults, each with its commit."""
    rows = [{**row, "commit": row.get("commit") or record["commit"]} for row in record["rows"]]
    fresh = {row["fault"]: row for row in new["rows"]}
    kept = [fresh.pop(row["fault"], row) for row in rows]
    every = sorted([*kept, *fresh.values()], key=lambda row: STAGES.index(row["stage"]))
    return {**record, "date": new["date"], "rows": every}


def page(record: Mapping[str, Any]) -> str:
    """Return the page that a record makes, the record in it."""
    rows = [Row(**row) for row in record["rows"]]
    ran = [row for row in rows if not row.found.startswith("not run")]
    sums = {name: sum(getattr(row, name) or 0 for row in ran) for name in ("lost", "half", "wrong")}
    says = Counter(row.says for row in ran)
    table = "\n".join(f"| {' | '.join(map(_cell, _cells(row)))} |" for row in rows)
    head = HEAD.format(
        **{key: record[key] for key in ("date", "kernel", "who")},
        commit=" and ".join(dict.fromkeys(row.commit or record["commit"] for row in rows)),
        **{"faults": len(rows), "planted": len(ran), "holds": sum(row.holds for row in ran), **sums, "table": table},
        **{"says": says["yes"], "speaking": says["yes"] + says["no"], "minutes": sum(row.seconds for row in rows) / 60},
    )
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in record["rows"])
    about = json.dumps({key: value for key, value in record.items() if key != "rows"})[1:-1]
    return f'{head}{FENCE}{{{about}, "rows": [\n{lines}\n]}}\n```\n'


def carried(text: str) -> dict[str, Any]:
    """Return the record that a page carries."""
    return json.loads(text.partition(FENCE)[2].rpartition("```")[0])


def _cells(row: Row) -> tuple[Any, ...]:
    return (
        *(row.stage, row.fault, row.expected, row.found, row.lost, row.half, row.wrong, row.says, row.seconds),
        row.said,
    )


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
