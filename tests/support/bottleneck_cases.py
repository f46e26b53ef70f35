"""Planted bottlenecks, alone and in pairs, and what must be named: milliseconds a batch of each stage.

python -m tests.support.bottleneck_cases
"""

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from scripts.measure.bottleneck_trials import Explanation
from scripts.measure.sink import Sink
from scripts.measure.step import Stepped, wait
from scripts.tables import bottlenecks
from tests.support import planted


@dataclass(frozen=True)
class Case:
    """What is planted, in milliseconds a batch, with how many workers, and the answer."""

    answer: str
    workers: int = 0
    read: float = 0
    decode: float = 0
    transfer: float = 0
    python: float = 0
    step: float = 0

    def __str__(self) -> str:
        stages = ("read", "decode", "transfer", "python", "step")
        parts = [f"{name} {getattr(self, name):g}" for name in stages if getattr(self, name)]
        return f"{' + '.join(parts)} ms, {self.workers} workers"


ALONE = (
    Case("read", read=10),
    Case("read", workers=2, read=20),
    Case("decode", decode=10),
    Case("decode", workers=2, decode=20),
    Case("transfer", workers=2, transfer=20),
    Case("compute", step=10),
    Case("compute", workers=2, step=20),
    Case("framework", python=10),
)
PAIRS = (
    Case("read", read=15, decode=5),
    Case("decode", read=5, decode=15),
    Case("read", workers=2, read=30, decode=10),
    Case("decode", workers=2, read=10, decode=30),
    Case("read", workers=2, read=30, transfer=10),
    Case("transfer", workers=2, read=10, transfer=30),
    Case("decode", workers=2, decode=30, transfer=10),
    Case("transfer", workers=2, decode=10, transfer=30),
    Case("compute", read=5, step=15),
    Case("read", read=15, step=5),
    Case("compute", workers=2, decode=10, step=20),
    Case("decode", workers=2, decode=60, step=10),
    Case("compute", workers=2, transfer=10, step=20),
    Case("transfer", workers=2, transfer=60, step=10),
)


def named(case: Case, times: float = 1, clock: Any = time) -> tuple[str, float, str]:
    """Return what the instrument names for a case: (part, its share in percent, the evidence).

    `times` makes everything so much longer. A planted `clock` is for cases without workers.
    """
    seconds = [times * getattr(case, name) / 1000 for name in ("read", "decode", "transfer", "python")]
    module = planted.Planted(*seconds, clock)
    asked = planted.request(case.workers)
    opened = planted.opener(module, asked)

    def sink() -> Any:
        step = partial(Stepped, step_seconds=times * case.step / 1000, clock=clock.perf_counter)
        return step(Sink("cpu"), waiting=partial(wait, sleep=clock.sleep)) if case.step else Sink("cpu")

    parts = Explanation(opened, sink, clock.perf_counter)
    return bottlenecks.name(parts.speeds(module, asked, step=bool(case.step)))


def main() -> None:
    """Print what is named for each case, and fail if one is wrong."""
    wrong = 0
    for case in (*ALONE, *PAIRS):
        part, percent, evidence = named(case)
        wrong += part != case.answer
        print(f"{'ok   ' if part == case.answer else 'WRONG'} {case}: {part} {percent:.0f} %  [{evidence}]", flush=True)
    if wrong:
        raise SystemExit(f"error: {wrong} bottlenecks were named wrongly")


if __name__ == "__main__":
    main()
