"""How often what is said is wrong: sessions of planted speeds, simulated, through the functions that decide.

    python -m bench.verdicts --sessions 300

A session is a `Race` with its looks, those that leave and those that return; what it measured is judged by `Compared`,
as the report does. Four loaders are equally fast; others are 5 %, 25 %, 2 and 6 times slower, in pairs of equals. On
one tier some have other settings too, else each is on two tiers. A session has the time of so many rounds of all
results.

Each rate may be 5 %, with the binomial error of the number of sessions; else the exit status is 1. `best`: a result
that is as fast as the fastest is called slower. `pairs`: any two results are called different that are not, or the
wrong way round. `broken`: something is faster by more than "nothing is more than Y % faster" says. `wrong`: what is
more than 5 % behind is said to lead alone.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from math import exp, log, sqrt
from typing import NamedTuple

import numpy as np

from scripts.common.counting import Name, Run
from scripts.decide.choice import Compared
from scripts.decide.intervals import intervals
from scripts.decide.rounds import FINAL_ERROR, Table
from scripts.decide.sessions import table_of
from scripts.measure.race import Limits, Race
from tests.support.played_sessions import RESULTS, ROUNDS as ROUNDS_EACH, false_difference, played

ROUNDS, TIERS = (3, 8, 20), (1, 2)
LEVELS = {
    "a": 1.0,
    "b": 1.0,
    "c": 1.0,
    "d": 1.0,
    "e": 1.05,
    "f": 1.05,
    "g": 1.25,
    "h": 1.25,
    "i": 2.0,
    "j": 2.0,
    "k": 6.0,
}
OTHERS = {"a": 1.0, "b": 1.05, "e": 1.0, "g": 1.0}  # times slower with other settings
QUIET, NOISE = 0.05, sqrt(log(1 + 0.15**2))  # standard deviations of log speeds
ALLOWED, SURE, POWER = 0.05, 1.05, 0.9
SETS = 300  # of several sessions
RATES = ("best", "pairs", "broken", "wrong")
Draw = Callable[[np.random.Generator, int, np.ndarray, np.ndarray], np.ndarray]


def _erratic(chance: np.random.Generator, rounds: int, loaders: np.ndarray, _time: np.ndarray) -> np.ndarray:
    scatter = np.where(loaders == chance.integers(loaders.max() + 1), 0.8, QUIET)
    return scatter[:, None] * chance.normal(size=(len(loaders), rounds))


def _two_modes(chance: np.random.Generator, rounds: int, loaders: np.ndarray, _time: np.ndarray) -> np.ndarray:
    """A third of the results is as often 2.1 times slower as not, as by the memory that a process was given."""
    modes = (chance.random((len(loaders), rounds)) < 0.5) - 0.5
    return (
        chance.normal(0, QUIET, modes.shape) + np.where(np.arange(len(loaders))[:, None] % 3 == 1, log(2.1), 0) * modes
    )


def _interaction(percent: float) -> Draw:
    """A loader is faster or slower in a round, on all tiers."""

    def drawn(chance: np.random.Generator, rounds: int, loaders: np.ndarray, _time: np.ndarray) -> np.ndarray:
        shared = chance.normal(0, percent / 100, (loaders.max() + 1, rounds))
        return shared[loaders] + chance.normal(0, QUIET, (len(loaders), rounds))

    return drawn


def _neighbour(chance: np.random.Generator, rounds: int, loaders: np.ndarray, _time: np.ndarray) -> np.ndarray:
    """A neighbour is at work in every second round, and takes from each loader another share, up to a third."""
    state = (chance.random(rounds) < 0.5) - 0.5
    shares = chance.uniform(0, 0.4, loaders.max() + 1)
    return chance.normal(0, QUIET, (len(loaders), rounds)) - shares[loaders][:, None] * state


def _serial(chance: np.random.Generator, rounds: int, loaders: np.ndarray, _time: np.ndarray) -> np.ndarray:
    """AR(1), 0.5 from a round to the next."""
    found = chance.normal(0, 0.1, (len(loaders), rounds))
    for number in range(1, rounds):
        found[:, number] = 0.5 * found[:, number - 1] + sqrt(0.75) * found[:, number]
    return found


def _drift(chance: np.random.Generator, rounds: int, loaders: np.ndarray, time: np.ndarray) -> np.ndarray:
    """Each loader becomes up to a fifth faster or slower over the session."""
    slopes = chance.uniform(-0.1, 0.1, loaders.max() + 1)
    return chance.normal(0, QUIET, (len(loaders), rounds)) + slopes[loaders][:, None] * time


NOISES: dict[str, Draw] = {
    "lognormal 15 %": lambda chance, rounds, loaders, _: chance.normal(0, NOISE, (len(loaders), rounds)),
    "t(2.5)": lambda chance, rounds, loaders, _: 0.1 * chance.standard_t(2.5, (len(loaders), rounds)),
    "one erratic": _erratic,
    "two modes in some": _two_modes,
    "loader x round 5 %": _interaction(5),
    "loader x round 10 %": _interaction(10),
    "neighbour": _neighbour,
    "AR(1)": _serial,
    "unequal drift": _drift,
}


def planted(tiers: int) -> dict[Name, float]:
    """Return how many times slower than the fastest each result is."""
    if tiers == 1:
        others = {Name(loader, "disk", "other"): LEVELS[loader] * times for loader, times in OTHERS.items()}
        return {**{Name(loader, "disk", "first"): times for loader, times in LEVELS.items()}, **others}
    return {Name(loader, tier, "first"): times for loader, times in LEVELS.items() for tier in ("disk", "ram")}


def session(noise: str, rounds: int, tiers: int, seed: int) -> dict[Name, dict[int, float]]:
    """Return what a session of so many rounds' time measured of results as `planted`: {result: {round: items/s}}."""
    slower, chance = planted(tiers), np.random.default_rng([seed, rounds, tiers, [*NOISES].index(noise)])
    names, most = [*slower], 6 * rounds + 10  # rounds: who stays has the time of those that left
    loaders = np.unique([name.loader for name in names], return_inverse=True)[1]
    time = np.linspace(-1, 1, rounds)[np.minimum(np.arange(most), rounds - 1)]
    machine = chance.normal(0, 0.1, most)
    logs = machine + NOISES[noise](chance, most, loaders, time) - np.log([*slower.values()])[:, None]
    clock, place = [0.0], {name: number for number, name in enumerate(names)}

    def measure(name: Name, round_number: int, _attempt: int) -> Run:
        clock[0] += 1
        return Run(exp(logs[place[name], round_number]))

    race = Race(
        scenarios=dict.fromkeys(names, "read"),
        measure=measure,
        control=lambda _round_number, _number: None,
        accept=lambda _name, _round_number, _attempt: None,
        clock=lambda: clock[0],
        limits=Limits(float(rounds * len(names))),
        chance=random.Random(seed),
        names={name: name for name in names} if tiers > 1 else {},
    )
    race.run()
    [speeds] = race.speeds()
    return speeds


class Said(NamedTuple):
    """Of one session: which kinds of statement were wrong, by RATES, and what was said."""

    wrong: tuple[bool, ...]
    chosen: bool  # whether one is recommended
    at_most: float  # how many times faster than it is nothing
    told: dict[float, float]  # {times slower: share of these that are called slower than the first loader}


def judged(speeds: dict[Name, dict[int, float]], tiers: int) -> Said:
    """Return what is wrong of all that is said of a session of `planted` results, judged as the report does."""
    slower = planted(tiers)
    center = Table(speeds, FINAL_ERROR).center
    fastest = {name[:2]: name for name in sorted(speeds, key=lambda name: center(name).speed)}.values()
    compared = Compared({name: speeds[name] for name in fastest}, speeds, together=tiers > 1)
    choice, ties = compared.choose(fastest, lambda name: name.loader)
    wrong: Counter = Counter(broken=choice.behind < slower[choice.key] * (1 - 1e-9))
    wrong["wrong"] = not ties and slower[choice.key] > SURE
    for table in filter(None, (compared.results, compared.loaders)):
        true = {key: slower[key if key in slower else Name(key[0], "disk", key[1])] for key in table.place}
        times = np.array([*true.values()])
        faster = table.means - table.halves > 0
        wrong["pairs"] |= bool((faster & (times[:, None] >= times)).any())
        wrong["best"] |= any(true[key] == 1 for key in table.place.keys() - set(table.leading()))
        first = next(key for key in true if true[key] == 1)
        told = {
            level: float(np.mean([table.compare(first, key).faster for key in true if true[key] == level]))
            for level in (1.25, 2.0, 6.0)
        }
    return Said(tuple(bool(wrong[kind]) for kind in RATES), choice.form != "noisy", choice.behind, told)


class Cell(NamedTuple):
    """Sessions of one noise, so many rounds, and so many tiers."""

    noise: str
    rounds: int
    tiers: int

    def said(self, sessions: int) -> list[Said]:
        """Return what so many sessions say."""
        return [judged(session(*self, seed), self.tiers) for seed in range(sessions)]


def limit(sessions: int) -> float:
    """Return the largest share of wrong sessions that a true rate of ALLOWED gives in 99.9 % of cases."""
    return ALLOWED + 3.1 * sqrt(ALLOWED * (1 - ALLOWED) / sessions)


def line(cell: Cell, said: list[Said]) -> tuple[bool, str]:
    """Return whether each rate of a cell holds, and its line of the table."""
    rates = [float(np.mean(kind)) for kind in zip(*(one.wrong for one in said), strict=True)]
    told = [100 * float(np.mean([one.told[level] for one in said])) for level in said[0].told]
    chosen, at_most = 100 * np.mean([one.chosen for one in said]), np.median([one.at_most for one in said])
    holds = max(rates) <= limit(len(said))
    shown = [f"{100 * rate:6.1f}" for rate in rates] + [f"{percent:5.0f}" for percent in (*told, chosen)]
    text = f"{cell.noise:20} {cell.rounds:6} {cell.tiers:5} {' '.join(shown)} {100 * (at_most - 1):6.0f}"
    return holds, text + ("" if holds else "  FAILS")


def power(tables: int = 1000) -> float:
    """Return in what share of cases a factor of 1.5 is found among 20 results, with 15 % noise, by 8 rounds."""
    logs = np.random.default_rng(9).normal(0, NOISE, (tables, 20, 8))
    logs[:, 0] += log(1.5)
    means, halves, _ = intervals(logs, FINAL_ERROR)
    return float((means - halves > 0)[:, 0, 1:].mean())


def outlasting(rounds: int, tables: int = 1000) -> float:
    """Return the share of sessions with a false difference of 10 results where each has a state of 2 % all session."""
    chance = np.random.default_rng(rounds)
    logs = chance.normal(0, 0.02, (tables, 10, 1)) + chance.normal(0, 0.03, (tables, 10, rounds))
    means, halves, _ = intervals(logs, FINAL_ERROR)
    return float((abs(means) > halves).any(axis=(1, 2)).mean())


def over_sessions(noise: str, state: float, every: int, count: int, sets: int) -> tuple[float, float]:
    """Return in what share of sets of so many sessions equal results have a false difference: by what is said of
    several sessions, and were all rounds of one. `state`, `every`: as played.
    """
    chance, wrong = np.random.default_rng([41, count]), np.zeros(2)
    for _ in range(sets):
        speeds = played(chance, count, state, noise=noise, every=every)
        wrong += false_difference(table_of(speeds, FINAL_ERROR)), false_difference(Table(speeds, FINAL_ERROR))
    return tuple(wrong / sets)


def main() -> None:
    """Print the rates of each cell, and fail where one does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=300, help="in each cell")
    parser.add_argument("--noise", nargs="*", default=[*NOISES], help="only these")
    arguments = parser.parse_args()
    cells = [Cell(*found) for found in product(arguments.noise, ROUNDS, TIERS)]
    print(f"wrong, in % of {arguments.sessions} sessions (at most {100 * limit(arguments.sessions):.1f}); told, in %")
    print(f"{'noise':20} rounds tiers   {'  '.join(RATES)} 25 %    x2    x6 chosen at most")
    failed = 0
    with ProcessPoolExecutor() as pool:
        for cell, said in zip(cells, pool.map(partial(Cell.said, sessions=arguments.sessions), cells), strict=True):
            holds, text = line(cell, said)
            failed += not holds
            print(text, flush=True)
    found = power()
    print(f"a factor of 1.5 among 20 results, 15 % noise, 8 rounds: found in {100 * found:.0f} % (at least 90)")
    shares = ", ".join(f"{100 * outlasting(rounds):.0f} % by {rounds}" for rounds in (3, 5, 8, 20))
    print(f"no statistic can know: a state of 2 % outlasts all rounds: a false difference in {shares} rounds")
    print(f"of several sessions of {ROUNDS_EACH} rounds, {RESULTS} equal results, a false difference in % of {SETS}:")
    for noise, state, every, count in product(("normal", "a neighbour", "t"), (0.02, 0.05), (1, 5), (3, 5)):
        several, as_one = over_sessions(noise, state, every, count, SETS)
        who = "each" if every == 1 else f"one of {every}"
        failed += every == 1 and several > limit(SETS)
        words = f"{noise}, a state of {100 * state:.0f} % of {who}, {count} sessions"
        print(f"  {words:56} {100 * several:5.1f}, as one session {100 * as_one:5.1f}", flush=True)
    if failed or round(found, 2) < POWER:
        sys.exit(f"error: {failed} cells have a rate above what is allowed, or too little is found")


if __name__ == "__main__":
    main()
