"""What several sessions say that measured the same: each result and session is one value, compared over sessions.

A file keeps its blocks and pages, and a process that serves runs its heap, for as long as a session lasts: a result may
be some percent faster or slower in all of its rounds than it would be in another session. No number of rounds in one
session shows that. Between sessions files are placed anew and processes are new (scripts/measure/run_session.py).

The value of a result in a session is its level as of the mean round, by least squares of result + round. Results of a
session that no chain of shared rounds links are of two sessions for all that follows. Intervals are those of rounds
(rounds.py) with sessions in place of rounds: the scatter of these values has both parts, between
sessions and within, and the variance of each result is moderated by that of all. Sessions are hours apart or have other
files, so that no dependence of neighbouring ones is allowed for.

Simulated by `python -m bench.verdicts`: 10 equal results, 6 rounds a session, a state of 2 or 5 % of each result in
each session, and noise of 5 % that is normal, t(2.5) or beside a neighbour. A false difference is in 2 to 5 % of sets
of 3 sessions or 5. As one session with as many rounds it is 4 to 24 %. Where a fifth of the results has a state of 5 %
and the others none, it is up to 9 % of 3 and 6 % of 5: such a result may be lucky in three.
"""

from collections.abc import Hashable, Mapping
from typing import NamedTuple

import numpy as np

from scripts.common.counting import Round
from scripts.decide.intervals import levels, linked
from scripts.decide.rounds import Speeds, Table

Results = Mapping[Hashable, Speeds]


class Between(NamedTuple):
    """The standard deviation between sessions in percent: of all results together, and of each by itself.

    None of a single session, of a single result, and of a result that is not in every session; and where a session has
    results that share no rounds.
    """

    pooled: float | None
    own: Mapping[Hashable, float | None]


def sessions_of(results: Results) -> dict[str, dict[Hashable, Speeds]]:
    """Return the results of each session, {session: {result: {round: items/s}}}; of plain numbers it is one."""
    found: dict[str, dict[Hashable, dict[Hashable, float]]] = {}
    for key, speeds in results.items():
        for number, speed in speeds.items():
            session = number.session if isinstance(number, Round) else ""
            found.setdefault(session, {}).setdefault(key, {})[number] = speed
    return dict(sorted(found.items()))


def table_of(results: Results, error: float = 0.05) -> Table:
    """Return the comparison of results {result: {round: items/s}}: over rounds, or over several sessions.

    Raises ValueError as Table does.
    """
    every = sessions_of(results)
    if len(every) < 2:
        return Table(results, error)
    values: dict[Hashable, dict[tuple[str, int], float]] = {key: {} for key in results}
    for session, of_session in every.items():
        logs = _logs(of_session)
        for key, level, rounds in zip(of_session, levels(logs), linked(logs), strict=True):
            values[key][session, int(rounds.argmax())] = float(np.exp(level))
    return Table(values, error, serial=False)


def between(results: Results) -> Between:
    """Return the standard deviation between sessions: what their values differ by beyond the scatter of rounds.

    By the analysis of variance of result + session; a result's own variance by Grubbs (1948), of two results theirs
    together.
    """
    every = [*sessions_of(results).values()]
    keys = [key for key in results if all(key in one for one in every)]
    if len(every) < 2 or len(keys) < 2:
        return Between(None, dict.fromkeys(results))
    every = [{key: one[key] for key in keys} for one in every]
    if not all(linked(_logs(one)).all() for one in every):
        return Between(None, dict.fromkeys(results))
    found = [_values(one) for one in every]
    values, within = (np.array(part).T for part in zip(*found, strict=True))  # (results, sessions)
    rest = values - values.mean(axis=1, keepdims=True) - values.mean(axis=0) + values.mean()
    count, own = len(keys), (rest**2).sum(axis=1) / (len(every) - 1)
    pooled = own.sum() / (count - 1)
    own = (own - pooled / count) / (1 - 2 / count) if count > 2 else np.full(count, pooled)
    own, mean = _percent(own - within.mean(axis=1)), float(_percent(pooled - within.mean()))
    return Between(mean, {**dict.fromkeys(results), **dict(zip(keys, map(float, own), strict=True))})


def _values(results: Results) -> tuple[np.ndarray, np.ndarray]:
    """Return the level of each result in a session, in logarithms, and the variance of that by its rounds' scatter."""
    logs = _logs(results)
    centers, there = levels(logs), (~np.isnan(logs)).sum(axis=1)
    rest = logs - centers[:, None]
    rest = rest - np.nanmean(rest, axis=0)
    freedom = np.maximum(there - 1, 1) * (1 - 1 / len(results))
    return centers, np.nansum(rest**2, axis=1) / freedom / there


def _logs(results: Results) -> np.ndarray:
    """Return log speeds (results, rounds), NaN where a result has no run."""
    rounds = sorted({number for speeds in results.values() for number in speeds})
    return np.log([[speeds.get(number, np.nan) for number in rounds] for speeds in results.values()])


def _percent(variance: np.ndarray) -> np.ndarray:
    return 100 * np.sqrt(np.maximum(variance, 0))
