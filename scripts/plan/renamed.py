"""Names of the config that were changed: the old ones go on working for one version, and a notice says the new one."""

import copy
from collections.abc import Mapping
from typing import Any

KEYS = {"measure": {"explain": "bottlenecks", "moves": "tensors"}}
VALUES = {"bottlenecks": {"first": "finalists", "all": "finalists"}, "timeline": {"first": "finalists"}}
TASKS = {"traverse": "read", "loop": "iterate"}


def renamed(raw: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a copy of `raw` with today's names, and a notice for each old one; of both, today's counts."""
    config, notices = copy.deepcopy(dict(raw)), []
    for section, names in KEYS.items():
        entries = config.get(section)
        for old, new in names.items() if isinstance(entries, dict) else ():
            if old in entries:
                entries.setdefault(new, entries[old])
                del entries[old]
                notices.append(
                    f"config: {section}.{old} is {section}.{new} now. Rename it: the next version refuses it."
                )
    measure = config.get("measure")
    for key, values in VALUES.items() if isinstance(measure, dict) else ():
        if isinstance(old := measure.get(key), str) and old in values:
            measure[key] = values[old]
            notices.append(
                f"config: measure.{key}: {old} is {values[old]} now. Rename it: the next version refuses it."
            )
    loaders = config.get("loaders")
    entries = [("sweep", config.get("sweep"))]
    entries += [(f"loaders[{n}]", entry) for n, entry in enumerate(loaders if isinstance(loaders, list) else ())]
    for where, entry in entries:
        tasks = entry.get("task") if isinstance(entry, dict) else None
        for position, task in enumerate(tasks if isinstance(tasks, list) else ()):
            if isinstance(task, str) and task in TASKS:
                tasks[position] = TASKS[task]
                notices.append(
                    f"config: {where}.task: {task} is {TASKS[task]} now. Rename it: the next version refuses it."
                )
    return config, notices
