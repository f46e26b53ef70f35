"""What the report has no answer to, as questions, each with what would answer it."""

from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

Tables = Mapping[str, Any]

_NEEDS = {  # by table, where that is empty
    "parts": (
        "What is the bottleneck?",
        "`bottlenecks: finalists` below `measure` in `config.yaml`, and loaders whose parts can be left out",
    ),
    "ladder": ("What is each optimisation worth?", "the steps' runs: type `snakemake --config preset=ladder`"),
    "training": (
        "What does Lightning cost beside a bare loop?",
        "`train` and `lightning` in `sweep.task` of `config.yaml`",
    ),
    "seconds": (
        "How many seconds do five epochs take, as in the TensorDict report?",
        "all runs with the same number of epochs: type `snakemake --config preset=tensordict`",
    ),
    "noise": ("How steady was the machine?", "control runs, which every session makes"),
    "tensors": (
        "What does moving tensors between processes cost?",
        "`tensors: true` below `measure` in `config.yaml`, or `snakemake --config preset=tensors`",
    ),
}


def not_measured(tables: Tables, charts: Mapping[str, ModuleType], rows: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return `question` and `needs` of each table and chart without anything in it; `rows` are those of the charts."""
    return list(_asked(tables, charts, rows))


def _asked(tables: Tables, charts: Mapping[str, ModuleType], rows: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    said = set()
    pairs: Iterable[tuple[str, str]] = [pair for name, pair in _NEEDS.items() if not tables[name]]
    pairs = [*pairs, *((chart.QUESTION, chart.NEEDS) for name, chart in charts.items() if not rows[name])]
    for question, needs in pairs:
        if needs not in said and question not in said:
            said |= {needs, question}
            yield {"question": question, "needs": f"It would need {needs}."}
