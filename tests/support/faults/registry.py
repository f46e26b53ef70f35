"""The planted faults by name: what each is expected to do, and what was found when it was planted."""

import re
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.support.faults.project import Project
from tests.support.faults.shim import NotHere
from tests.support.programs import PROJECT

STAGES = (
    *("fetch", "corpus", "formats", "placed", "proofs", "sessions", "bounds", "tables", "report", "plan", "objects"),
)
TRACEBACK = "Traceback (most recent call last)"
LONGEST = 160  # characters of an error's text that are shown
NOBODY = None  # of a fault after which nobody is left to say anything


@dataclass(frozen=True)
class Outcome:
    """What came of a planted fault. Items that are lost: neither delivered nor named with a reason."""

    text: str = ""  # what was said: of a program, or of a record that has no speed
    lost: int = 0
    half: int = 0  # outputs that are not whole and would be taken for it
    wrong: int = 0  # numbers of data that is not right, or of work that was not done


@dataclass(frozen=True)
class Fault:
    """One fault."""

    name: str
    stage: str
    expected: str
    says: str | None  # pattern of what has to be said; None: nobody is left to say it
    plant: Callable[[Project], Outcome]
    short: bool  # planted by `make test` too


FAULTS: dict[str, Fault] = {}


def fault(
    name: str, stage: str, expected: str, says: str | None = NOBODY, short: bool = False
) -> Callable[[Callable[[Project], Outcome]], Callable[[Project], Outcome]]:
    """Return what enters a function among the faults; it plants its fault in a project and returns the outcome."""
    assert stage in STAGES, stage

    def enter(plant: Callable[[Project], Outcome]) -> Callable[[Project], Outcome]:
        assert name not in FAULTS, f"two faults are called {name!r}"
        FAULTS[name] = Fault(name, stage, expected, says, plant, short)
        return plant

    return enter


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    stage: str
    fault: str
    expected: str
    found: str  # as expected; FAILED: ...; not run: ...
    lost: int | None
    half: int | None
    wrong: int | None
    says: str  # yes, no, or - where nobody is left to
    seconds: float
    said: str
    commit: str = ""  # of the code that met it

    @property
    def holds(self) -> bool:
        """Whether the fault did no harm, or was not planted."""
        return not self.found.startswith("FAILED")


def planted(one: Fault, project: Project) -> Row:
    """Plant a fault in a project as it was prepared, and return its line."""
    project.restore()
    begun = time.monotonic()
    words = {"stage": one.stage, "fault": one.name, "expected": one.expected}
    nothing: Mapping[str, Any] = {"said": "", "lost": None, "half": None, "wrong": None, "says": "-"}
    try:
        outcome = one.plant(project)
    except NotHere as reason:
        return Row(**words, **nothing, found=f"not run: {reason}", seconds=0.0)
    except Exception as error:
        traceback.print_exc()
        last = str(error).strip().splitlines() or [type(error).__name__]
        found = f"FAILED: {shown(last[0], project.root)}"
        return Row(**words, **nothing, found=found, seconds=round(time.monotonic() - begun, 1))
    finally:
        project.end_all()
    seconds = round(time.monotonic() - begun, 1)
    spoken = TRACEBACK not in outcome.text and re.search(one.says or "", outcome.text)
    counts = {name: int(count) for name, count in asdict(outcome).items() if name != "text"}
    wrong = [f"{count} {name}" for name, count in counts.items() if count]
    if one.says is not None and not spoken:
        wrong.append("it does not say what to do")
        print(outcome.text)
    said = line_of(outcome.text, one.says) if one.says is not None else ""
    return Row(
        **words,
        **counts,
        found=f"FAILED: {', '.join(wrong)}" if wrong else "as expected",
        said=shown(said, project.root),
        says="-" if one.says is None else "yes" if spoken else "no",
        seconds=seconds,
    )


def line_of(text: str, pattern: str) -> str:
    """Return the line of what was said that has the pattern, else the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    return next((line for line in lines if re.search(pattern, line)), lines[-1])


def shown(text: str, root: Path) -> str:
    """Return a text as a table has it: one line, without the paths of this machine."""
    for folder in (root, PROJECT):
        text = text.replace(f"{folder}/", "").replace(str(folder), ".")
    text = re.sub(r"(?<![\w.])/(?:[\w.+-]+/)+", ".../", text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
