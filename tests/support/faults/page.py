"""results/reliability.json, the record of all planted faults, and results/reliability.md, the page that shows it."""

import os
import platform
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from tests.support.faults.registry import FAULTS, STAGES, Row
from tests.support.programs import PROJECT

RECORD = PROJECT / "results" / "reliability.json"
PAGE = RECORD.with_suffix(".md")
HEAD = """# What planted faults did

`make faults` wrote this page: at commit {commit}, on {date}, with Linux {kernel}, as {who}, in {minutes:.0f} minutes.
docs/reliability.md explains it.

| | |
|---|---|
| planted | {planted} of {faults} |
| as expected | {holds} |
| items lost: neither delivered nor named with a reason | {lost} |
| half files taken for whole | {half} |
| wrong numbers | {wrong} |
| messages that say what to do | {says} of {speaking} |

| stage | fault | expected | found | lost | half | wrong | says what to do | s | message | commit |
|---|---|---|---|---|---|---|---|---|---|---|
{table}
"""


def record_of(rows: Iterable[Row], commit: str, earlier: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the record of what was planted now, on this machine, at `commit`.

    Each row replaces that of the same fault in the `earlier` record; the earlier rows of other faults that still exist
    stay.
    """
    fresh = {row.fault: {**asdict(row), "commit": commit} for row in rows}
    kept = {row["fault"]: row for row in (earlier or {"rows": []})["rows"] if row["fault"] in FAULTS}
    every = sorted((kept | fresh).values(), key=lambda row: STAGES.index(row["stage"]))
    who = "root" if os.geteuid() == 0 else "an ordinary user"
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    return {"date": date, "kernel": platform.release(), "who": who, "rows": every}


def page(record: Mapping[str, Any]) -> str:
    """Return the page of a record, in Markdown."""
    rows = [Row(**row) for row in record["rows"]]
    ran = [row for row in rows if not row.found.startswith("not run")]
    says = Counter(row.says for row in ran)
    return HEAD.format(
        **{key: record[key] for key in ("date", "kernel", "who")},
        **{name: sum(getattr(row, name) or 0 for row in ran) for name in ("lost", "half", "wrong")},
        commit=", ".join(dict.fromkeys(row.commit for row in rows)),
        minutes=sum(row.seconds for row in rows) / 60,
        planted=len(ran),
        faults=len(FAULTS),
        holds=sum(row.holds for row in ran),
        says=says["yes"],
        speaking=says["yes"] + says["no"],
        table="\n".join(f"| {' | '.join(map(_cell, asdict(row).values()))} |" for row in rows),
    )


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
