"""Several sessions of the same: what a session's state hides, and that no false difference comes of it."""

import numpy as np
import pytest

from scripts.common.counting import Name, Round
from scripts.decide.choice import Compared
from scripts.decide.rounds import FINAL_ERROR, Table
from scripts.decide.sessions import between, sessions_of, table_of
from tests.support.played_sessions import false_difference, played


@pytest.mark.parametrize("sessions, sets", [(3, 200), (5, 200)])
@pytest.mark.parametrize("state", [0.02, 0.05])
@pytest.mark.parametrize("noise", ["normal", "a neighbour", "t"])
def test_a_state_of_a_session_makes_no_difference_of_equal_results(sessions, sets, state, noise):
    """At most 5 % of sets, by which 200 may have 20 (99.9 %); taken as one session far more had one."""
    rng = np.random.default_rng(41)
    wrong = as_one = 0
    for _ in range(sets):
        speeds = played(rng, sessions, state, noise=noise)
        wrong += false_difference(table_of(speeds, FINAL_ERROR))
        as_one += false_difference(Table(speeds, FINAL_ERROR))
    assert wrong <= 20
    if state == 0.05:
        assert as_one > 0.1 * sets, "which is what the sessions are for"


def test_what_differs_is_found():
    rng = np.random.default_rng(7)
    found = [table_of(played(rng, 3, speeds=(1.0, 1.0, 0.8, 0.5, 0.5, 0.5)), FINAL_ERROR) for _ in range(50)]
    assert sum(one.compare(0, 3).faster for one in found) >= 49
    assert sum(one.compare(0, 2).faster for one in found) >= 40
    ratios = [one.compare(0, 3).ratio for one in found]
    assert np.mean(ratios) == pytest.approx(2.0, rel=0.02)


def test_loaders_over_tiers_are_compared_over_sessions_too():
    rng = np.random.default_rng(3)
    names = [Name(loader, tier, "w0") for loader in "abc" for tier in ("ram", "disk")]
    speeds = dict(zip(names, played(rng, 3, speeds=(1.0,) * 6).values(), strict=True))
    compared = Compared(speeds, together=True)
    assert compared.loaders.logs.shape == (3, 3) and compared.results.logs.shape == (6, 3)


def test_one_session_is_compared_by_its_rounds():
    speeds = played(np.random.default_rng(1), 1)
    by_rounds, found = Table(speeds, FINAL_ERROR), table_of(speeds, FINAL_ERROR)
    assert found.compare(0, 1) == by_rounds.compare(0, 1) and found.center(0) == by_rounds.center(0)
    plain = {one: {round_.number: speed for round_, speed in rounds.items()} for one, rounds in speeds.items()}
    assert table_of(plain, FINAL_ERROR).compare(0, 1) == by_rounds.compare(0, 1)
    assert between(speeds).pooled is None and set(between(speeds).own.values()) == {None}


def test_rounds_that_one_result_lacks_do_not_make_it_faster_in_a_session():
    """Result 1 left after the first round of a session that became slower: its level is as of the mean round."""
    machine = {0: [1.0, 0.5, 0.5, 0.5], 1: [1.0, 1.0, 1.0, 1.0]}
    speeds = {one: {} for one in range(3)}
    for session, rounds in machine.items():
        for number, factor in enumerate(rounds):
            for one in speeds:
                if not (one == 1 and session == 0 and number):
                    speeds[one][Round(f"main-{session}", 10 * session + number)] = 100.0 * factor
    found = table_of(speeds, FINAL_ERROR)
    assert found.compare(0, 1).ratio == pytest.approx(1) and not found.compare(0, 1).faster
    assert {name: len(one) for name, one in sessions_of(speeds).items()} == {"main-0": 3, "main-1": 3}


def test_what_two_sessions_do_not_share_has_no_interval():
    speeds = {"a": {Round("s", 0): 9.0, Round("t", 1): 9.0}, "b": {Round("s", 0): 3.0}}
    assert table_of(speeds, FINAL_ERROR).compare("a", "b") == (pytest.approx(3), None, None)
    assert between(speeds).own["b"] is None


def test_results_that_share_a_session_but_no_round_are_not_compared_by_it():
    """Each ran alone in rounds of every session; c shares the rounds of a, and is compared with it."""
    speeds = {"a": {}, "b": {}, "c": {}}
    for session in range(4):
        first, other = (Round(f"main-{session}", 10 * session + number) for number in range(2))
        speeds["a"][first], speeds["c"][first], speeds["b"][other] = 109.0 + session, 50.0 + session / 2, 1471.0
    table = table_of(speeds, FINAL_ERROR)
    assert table.compare("b", "a")[1:] == (None, None) and table.rank_interval("b") == (1, 3)
    assert table.compare("a", "c").faster
    assert table.center("b").speed == pytest.approx(1471) and 109 < table.center("a").speed < 112
    assert between(speeds).pooled is None


@pytest.mark.parametrize("state", [0.0, 0.02, 0.05])
def test_the_deviation_between_sessions_is_that_which_was_planted(state):
    rng = np.random.default_rng(5)
    found = [between(played(rng, 5, state, rounds=8)) for _ in range(60)]
    pooled = np.sqrt(np.mean([one.pooled**2 for one in found]))
    assert pooled == pytest.approx(100 * state, abs=0.6)
    own = np.sqrt(np.mean([value**2 for one in found for value in one.own.values()]))
    assert own == pytest.approx(100 * state, abs=1.1)
    assert between({0: {Round("s", 0): 1.0, Round("t", 0): 2.0}}).pooled is None
