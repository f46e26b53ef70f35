"""A session played with planted speeds: who is run when, what is made again, who leaves, when it ends."""

import random
import re
from collections import Counter
from types import SimpleNamespace

import pytest

from scripts.common.counting import Name, Run
from scripts.measure import race, run_session
from scripts.plan import estimate


class Played:
    """A race over planted speeds, on a clock that a run moves by a second."""

    def __init__(
        self, planted, seconds=None, rounds=None, noise=0.02, disturbed=None, failing=(), seconds_of=None, **more
    ):
        self.planted, self.noise, self.failing = planted, noise, failing
        self.disturbed = disturbed or (lambda _now: 0.0)
        self.seconds_of = seconds_of or (lambda _one: 1.0)
        self.now, self.chance = 0.0, random.Random(1)
        self.had_run, self.accepted, self.controls, self.said = [], [], [], 0
        self.race = race.Race(
            scenarios={one: more.get("scenario", lambda _one: "cpu")(one) for one in planted},
            measure=self.measure,
            control=lambda round_number, number: self.controls.append((round_number, number)),
            accept=lambda one, round_number, attempt: self.accepted.append((one, round_number, attempt)),
            clock=lambda: self.now,
            limits=race.Limits(
                seconds, rounds, attempts=more.pop("attempts", 4), least=more.pop("least", race.LEAST_ROUNDS)
            ),
            chance=random.Random(2),
            say=self.say,
            **{key: value for key, value in more.items() if key != "scenario"},
        )
        self.ended = self.race.run()

    @property
    def leaders(self):
        return {one for _, first in self.race.leaders() for one in first}

    def say(self, _race):
        self.said += 1

    def measure(self, one, round_number, attempt):
        self.now += self.seconds_of(one)
        self.had_run.append((one, round_number, attempt))
        if one in self.failing:
            return Run(None)
        return Run(self.planted[one] * self.chance.lognormvariate(0, self.noise), self.disturbed(self.now))


def test_each_round_runs_each_result_once_in_another_order_with_controls_between():
    played = Played(dict.fromkeys("abcdef", 100.0), rounds=5)
    assert played.ended == "rounds"
    rounds = [[one for one, round_number, _ in played.had_run if round_number == number] for number in range(5)]
    assert (
        all(sorted(round_number) == list("abcdef") for round_number in rounds)
        and len({tuple(round_number) for round_number in rounds}) > 1
    )
    assert played.controls == [(round_number, number) for round_number in range(5) for number in range(race.CONTROLS)]
    assert Counter(one for one, _, _ in played.accepted) == dict.fromkeys("abcdef", 5)
    assert played.said == 5 * (6 + race.CONTROLS)


def test_progress_names_what_is_fastest_once_several_are_measured(capsys):
    class Shown(Played):
        def say(self, race):
            display(race)

    display = run_session.Display(None)
    planted = {f"disk/{name}/b32": 1000.0 * (place + 1) for place, name in enumerate("abcdef")}
    Shown(planted, rounds=2)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "round 1, 6 of 6 results"
    assert second.startswith("round 2, 6 of 6 results; fastest so far (medians): f on disk ")

    display = run_session.Display(None)
    display.inplace = True
    Shown(planted, rounds=1)
    named = ["fastest so far" in line for line in capsys.readouterr().err.split("\r")[1:]]
    assert named == sorted(named) and named[-1] and named.count(False) >= 3


def test_the_time_left_is_that_of_the_least_rounds_where_they_take_longer_than_the_session(capsys):
    class Shown(Played):
        def say(self, race):
            display(race)

    display = run_session.Display(0.1, after=60.0)
    display.inplace = True
    Shown({f"disk/{name}/b32": 1000.0 for name in "abcdef"}, seconds=6.0, seconds_of=lambda _one: 60.0)
    left = re.findall(r"([\d.]+) min left", capsys.readouterr().err)
    assert left[0] == "18.0" and left[-1] == "1.0" and len(set(left)) == 18, "a minute a run, and one afterwards"


def test_what_is_far_behind_leaves_early_what_is_behind_later_and_what_leads_stays():
    speeds = {"fast": 1000.0, "near": 990.0, "behind": 700.0, "far": 20.0, "kept": 690.0, "kept far": 10.0}
    played = Played(speeds, seconds=200.0, noise=0.05, keep={"kept", "kept far"})
    rounds = {name: [round_number for one, round_number, _ in played.accepted if one == name] for name in speeds}
    assert len(rounds["far"]) <= len(rounds["behind"]) < len(rounds["near"])
    assert all(set(range(3)) <= set(found) and 3 not in found for found in (rounds["far"], rounds["kept far"]))
    assert set(range(race.ALL_STAY_ROUNDS)) <= set(rounds["behind"])
    assert len(rounds["near"]) - len(rounds["fast"]) in (-1, 0, 1) and played.leaders <= {"fast", "near"}
    assert len(rounds["kept"]) - len(rounds["fast"]) in (-1, 0, 1)


@pytest.mark.parametrize("slow", [1.0, 30.0])  # seconds of a run of what left
def test_those_that_left_come_back_together_within_their_share_of_the_time(slow):
    speeds = {"fast": 1000.0, "near": 990.0, "far": 10.0, "farther": 5.0}
    played = Played(speeds, seconds=2000.0, noise=0.3, seconds_of=lambda one: slow if "far" in one else 1.0)
    later = [(one, round_number) for one, round_number, _ in played.accepted if round_number > race.LEAST_ROUNDS]
    back = [{round_number for one, round_number in later if one == name} for name in ("far", "farther")]
    assert back[0] == back[1] and len(back[0]) > 1
    spent = slow * sum(map(len, back))
    assert 0.5 * race.BEHIND_SHARE * played.now < spent <= race.BEHIND_SHARE * played.now + 3 * 2 * slow
    assert played.leaders <= {"fast", "near"}


def test_a_disturbed_run_is_in_no_comparison():
    played = Played({"a": 100.0, "b": 90.0}, rounds=6, noise=0.001, disturbed=lambda now: 50.0 * (now > 6.0))
    assert [len(runs) for runs in played.race.made.values()] == [6, 6]
    assert [list(speeds) for speeds in played.race.speeds()[0].values()] == [[0, 1, 2], [0, 1, 2]]


def test_it_stops_where_nothing_is_left_to_find_out():
    played = Played({"fast": 1000.0, "slow": 500.0}, seconds=1e6)
    assert played.ended == "resolved" and played.race.looks == race.ALL_STAY_ROUNDS


def test_what_there_is_no_time_for_is_dropped_in_its_order_and_the_rest_has_its_rounds():
    """In the first round each has a run, if there is time for it; then what is optional is dropped."""
    planted = dict.fromkeys("abcdef", 100.0)
    order = {
        "optional": lambda race: [one for one in "fedc" if one in race.live],
        "expected": dict.fromkeys(planted, 1.0),
    }
    played = Played(planted, seconds=13.0, noise=0.2, **order)
    for seconds, each in ((13.0, 1.0), (24.0, 2.0)):
        played = Played(planted, seconds=seconds, noise=0.2, seconds_of=lambda _one, each=each: each, **order)
        assert played.race.dropped == ["f", "e", "d"] and played.ended == "time" and played.now <= seconds + each
        runs = Counter(one for one, _, _ in played.accepted)
        assert {one: runs[one] for one in "def"} == dict.fromkeys("def", 1) and min(runs[one] for one in "abc") == 3
    short = Played(planted, seconds=8.0, noise=0.2, **order)
    assert len(short.race.dropped) == 4 and len(short.accepted) <= 11 and short.now <= 10, "noticed in the first round"


def test_disturbed_runs_are_made_again_only_in_time_that_the_least_rounds_leave():
    played = Played(
        dict.fromkeys("abcd", 100.0),
        seconds=12.0,
        noise=0.2,
        disturbed=lambda _now: 50.0,
        expected=dict.fromkeys("abcd", 1.0),
    )
    assert played.ended == "time" and played.now <= 14
    assert Counter(one for one, _, _ in played.accepted) == dict.fromkeys("abcd", 3)


def test_without_a_least_number_of_rounds_no_run_begins_that_would_end_too_late():
    played = Played(
        dict.fromkeys("abcd", 100.0),
        seconds=10.0,
        seconds_of=lambda _one: 4.0,
        least=0,
        expected=dict.fromkeys("abcd", 4.0),
    )
    assert played.ended == "time" and len(played.accepted) == 2


def test_runs_of_a_place_come_together_where_memory_cannot_hold_all():
    places = {one: one[0] for one in ("a1", "a2", "a3", "b1", "b2", "c1")}
    played = Played(
        dict.fromkeys(places, 100.0),
        rounds=4,
        places=places,
        noise=0.01,
        disturbed=lambda now: 50.0 * (now in (2.0, 9.0)),
    )
    orders = []
    for number in range(4):
        ran = [one for one, round_number, _ in played.had_run if round_number == number]
        blocks = [
            place
            for place, before in zip(map(places.get, ran), [None, *map(places.get, ran)], strict=False)
            if place != before
        ]
        assert sorted(blocks) == ["a", "b", "c"], "each place is read once a round, what was disturbed with it"
        orders.append(tuple(blocks))
    assert len(set(orders)) > 1


def test_the_time_ends_it_but_not_before_three_rounds():
    played = Played(dict.fromkeys("abcd", 100.0), seconds=0.5, noise=0.2)
    assert played.ended == "time" and Counter(one for one, _, _ in played.accepted) == dict.fromkeys("abcd", 3)
    played = Played(dict.fromkeys("abcd", 100.0), seconds=30.0, noise=0.2)
    assert played.ended == "time" and 30 <= played.now < 32


def test_what_goes_on_when_its_time_is_up_makes_no_more_than_the_least():
    made = {one: dict.fromkeys(range(3), Run(100.0)) for one in "ab"}
    assert Played(dict.fromkeys("ab", 100.0), seconds=0.0, made=made, first_round=3).had_run == []
    made = {"a": dict(made["a"]), "b": {0: Run(100.0)}}
    played = Played(dict.fromkeys("ab", 100.0), seconds=0.0, made=made, first_round=3)
    assert Counter(one for one, _, _ in played.had_run)["b"] == 2 and played.ended == "time"


def test_a_disturbed_run_is_made_again_and_the_least_disturbed_counts():
    shares = iter([50.0, 40.0, 60.0, 70.0] + [0.0] * 99)
    played = Played({"a": 100.0}, rounds=2, disturbed=lambda _now: next(shares))
    assert played.had_run == [("a", 0, 0), ("a", 0, 1), ("a", 0, 2), ("a", 0, 3), ("a", 1, 0)]
    assert played.accepted == [("a", 0, 1), ("a", 1, 0)] and played.race.made_again == 3
    once = Played({"a": 100.0}, rounds=2, disturbed=lambda _now: 50.0, attempts=1)
    assert once.had_run == [("a", 0, 0), ("a", 1, 0)] == once.accepted


def test_a_disturbed_run_is_made_again_when_the_others_have_been_run():
    burst = 3.0  # seconds, of a run each
    played = Played(dict.fromkeys("abcdef", 100.0), rounds=1, disturbed=lambda now: 50.0 * (now <= burst))
    first = [one for one, _, attempt in played.had_run if attempt == 0]
    assert [(one, attempt) for one, _, attempt in played.had_run[6:]] == [(one, 1) for one in first[:3]]
    assert played.race.made_again == 3 and played.race.runs == 6


def test_when_the_time_is_up_the_least_disturbed_of_what_was_made_counts():
    played = Played({"a": 100.0, "b": 90.0}, seconds=6.5, disturbed=lambda now: 50.0 * (now > 6.0))
    assert played.ended == "time" and played.had_run[-1][1:] == (3, 0) and played.accepted[-1][1:] == (3, 0)


def test_when_three_rounds_take_longer_than_there_is_time_nothing_is_made_again():
    played = Played(dict.fromkeys("ab", 100.0), seconds=3.0, disturbed=lambda _now: 50.0)
    rounds = [(round_number, attempt) for _, round_number, attempt in played.had_run]
    assert rounds == [(0, 0), (0, 0), (1, 0), (1, 0), (2, 0), (2, 0)]


def test_whether_a_run_is_made_again_does_not_depend_on_its_speed():
    order = [[one[0] for one in Played({"a": speed, "b": 5.0}, rounds=4).had_run] for speed in (1.0, 1e9)]
    assert order[0] == order[1]


def test_a_result_that_fails_is_not_run_again_and_has_no_speed():
    played = Played({"a": 100.0, "b": 90.0}, rounds=3, failing={"b"})
    assert Counter(one for one, _, _ in played.had_run) == {"a": 3, "b": 1}
    assert "b" not in played.race.made and ("b", 0, 0) in played.accepted


def test_what_was_measured_before_is_not_measured_again_in_its_round():
    before = {"a": {0: Run(100.0), 1: Run(101.0)}, "b": {0: Run(90.0)}}
    played = Played({"a": 100.0, "b": 90.0}, rounds=2, made=before, first_round=2)
    assert played.had_run == [("b", 2, 0)]


def test_trainings_are_run_less_often():
    played = Played({"a": 100.0, "train": 5.0}, rounds=4, most_runs={"train": 2})
    assert Counter(one for one, _, _ in played.had_run) == {"a": 4, "train": 2}


def test_when_the_time_is_up_before_three_rounds_a_training_has_one_run():
    played = Played({"a": 100.0, "train": 5.0}, seconds=0.5, most_runs={"train": 3})
    assert Counter(one for one, _, _ in played.had_run) == {"a": 3, "train": 1}


def test_results_of_different_scenarios_do_not_compete():
    played = Played({"a": 1000.0, "b": 1.0}, seconds=30.0, scenario=lambda one: one)
    assert played.leaders == {"a", "b"}


def test_nothing_to_measure():
    assert Played({}, rounds=3).ended == "nothing to measure"


def test_equal_results_stay_equal():
    played = Played(dict.fromkeys("abcdefgh", 100.0), seconds=120.0, noise=0.15)
    assert len(played.leaders) == 8


def session_with(results, minutes, planned=None, **measure):
    """A session of results, as far as its time is asked for."""
    session = run_session.Session.__new__(run_session.Session)
    asked = {"minutes": minutes, "bottlenecks": "none", "timeline": "none", "steps": "none", **measure}
    session.__dict__ |= {"measure": asked, "results": results, "planned": planned or len(results), "name": "main"}
    session.__dict__ |= {"plan": SimpleNamespace(part=None, content={}), "began": run_session.time.monotonic()}
    return session


@pytest.mark.parametrize(
    ("minutes", "results", "seconds"),
    [(5, 20, 300.0), (5, 10, 150.0), (5, 1, 30.0), (0.2, 1, 12.0), ("none", 20, None)],  # of 20: a twentieth is 15 s
)
def test_a_session_of_few_results_has_its_share_of_the_time(minutes, results, seconds):
    runs = {f"a/disk/w{number}": tried(f"a/disk/w{number}") for number in range(results)}
    assert session_with(runs, minutes, planned=20).seconds() == seconds


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ({}, [300, 300, 300, 300]),
        ({"steps": "all"}, [220, 220, 300, 300]),
        ({"steps": "all", "bottlenecks": "candidates"}, [183, 183, 250, 300]),
        ({"steps": "all", "bottlenecks": "candidates", "leaders": True}, [165, 195, 255, 300]),
    ],
)
def test_each_part_of_a_session_ends_in_time_and_leaves_what_it_does_not_need(monkeypatch, asked, left):
    """The parts together take what the session may, whichever are asked for."""
    monkeypatch.setattr(run_session.time, "monotonic", lambda: 1000.0)
    runs = {path: tried(path) for path in ("a/disk/w0", "a/disk/w0-cold")}
    runs["a/disk/w0-cold"].if_leads = "a/disk/w0" if asked.pop("leaders", False) else None
    session = session_with(runs, 5, **asked)
    assert [round(session._left(part)) for part in estimate.SHARES] == left
    monkeypatch.setattr(run_session.time, "monotonic", lambda: 1100.0)
    assert [round(session._left(part)) for part in estimate.SHARES] == [one - 100 for one in left]


RUN = {"device": "cpu", "workers": 0}
LOCAL = {"emulate": None, "location": {"path": "/mnt/disk"}}


SETTINGS = {"batch_size": 32, "prefetch": 2, "device": "cpu"}


def tried(path, **settings):
    """A result that its path names: loader, tier and slug."""
    loader, tier, slug = path.split("/")
    known = {"loader": loader, "tier": tier, "slug": slug, "task": "read", "cache": "warm", "step_ms": 0, **LOCAL}
    return SimpleNamespace(**known, size="whole", if_leads=None, group="main", settings={**SETTINGS, **settings})


def test_what_the_verdict_has_explained_is_explained(monkeypatch):
    """Of results of this session that read from a warm cache; a training is explained by its AU."""
    explained = ["a/disk/w0", "now/ram/w2", "elsewhere/ram/w2"], ["train/ram/w0"]
    answers = [{"explain": names} for names in explained]
    monkeypatch.setattr(run_session, "verdict_of", lambda _plan, _root: {"answers": answers})
    runs = {path: tried(path) for path in ("a/disk/w0", "now/ram/w2", "train/ram/w0")}
    runs["train/ram/w0"].task = "train"
    results = {"/".join((run.tier, run.loader, run.slug)): run for run in runs.values()}
    session = SimpleNamespace(results=results, root=None, plan=SimpleNamespace(content={}))
    assert run_session.Session._candidates(session) == ["disk/a/w0", "ram/now/w2"]


@pytest.mark.parametrize(("minutes", "tries"), [("none", 6), (5, 6), (0.1, 1)])
def test_steps_are_tried_with_all_loaders_before_what_leads_is_explained(monkeypatch, minutes, tries):
    """Each one's fastest settings on its fastest tier, and with fewer workers; as long as there is time."""
    speeds = {"a/ram/w2": 9.0, "a/disk/w2": 8.0, "a/ram/w0": 5.0, "a/ram/w4": 4.0, "b/ram/w0": 7.0}
    speeds |= {"b/ram/w2": 6.0, "now/ram/w2": 2.0, "now/ram/w0": 1.0, "c/ram/w2": 3.0, "train/ram/w0": 99.0}
    speeds = {path: 1000 * speed for path, speed in speeds.items()} | {
        "hopeless/ram/w0": 32 / 0.081,
        "ahead/ram/w2": 1.0,
    }
    runs = {path: tried(path, workers=int(path[-1])) for path in speeds}
    runs["train/ram/w0"].task = "train"
    made, clock = [], iter(range(0, 1000, 7))
    monkeypatch.setattr(run_session.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(run_session, "middles", lambda _race: speeds)
    session = session_with(runs, minutes, steps="all", bottlenecks="candidates")
    session.__dict__ |= {"now": "now", "step_ms": 20, "began": 0}
    session.__dict__ |= {"_steps_of": lambda path, batch_ms: (path, batch_ms), "_trials": lambda path: path}
    session.__dict__ |= {"_candidates": lambda: ["b/ram/w0"]}
    session._explain = lambda _runner, asked, kind: made.append((kind, asked))
    assert session._explained(None, None) == ["b/ram/w0"]
    order = ["now/ram/w2", "now/ram/w0", "a/ram/w2", "b/ram/w0", "a/ram/w0", "c/ram/w2"]
    expected = [("steps-", (path, 32000 / speeds[path])) for path in order[:tries]]
    assert made == [*expected, ("trials-", "b/ram/w0")]
    made.clear()
    session.now, session.measure["minutes"] = "hopeless", "none"
    session._explained(None, None)
    assert made[0] == ("steps-", ("hopeless/ram/w0", pytest.approx(81.0))), "the current loader is tried all the same"
    made.clear()
    session.measure["steps"] = session.measure["bottlenecks"] = "none"
    assert session._explained(None, None) == ["b/ram/w0"] and made == []


def on_two_tiers(speeds):
    """Results of loaders on two tiers by their path, with the names by which they are compared over both."""
    return {
        f"{tier}/{one}": (speed, Name(one, tier, "w0")) for one, speed in speeds.items() for tier in ("disk", "ram")
    }


def left_after(rounds, speeds, named):
    """How many of the results on two tiers have left after so many rounds."""
    results = on_two_tiers(speeds)
    names = {path: name for path, (_, name) in results.items()} if named else {}
    planted = {path: speed for path, (speed, _) in results.items()}
    played = Played(planted, seconds=(len(planted) + 1) * rounds, noise=0.15, names=names)
    return {path for path in planted if path not in played.race.live}


def test_over_two_tiers_more_leaves_sooner_and_a_loader_leaves_with_both():
    speeds = {"first": 100.0, "second": 98.0, **{f"behind_{number}": 22.0 for number in range(8)}}
    alone, over = left_after(3, speeds, named=False), left_after(3, speeds, named=True)
    assert len(over) > len(alone)
    assert {path for path in over if path.endswith(("first", "second"))} == set()


def test_one_that_leads_gives_its_time_to_those_that_left_also_beside_what_is_not_run_any_more():
    """A training that had its runs, and what has failed."""
    speeds = {"fast": 1000.0, "slow": 500.0, "wrong": 900.0, "train": 5.0, "trained": 4.0}
    told = {"failing": ["wrong"], "most_runs": {"train": 3, "trained": 3}, "scenario": lambda one: "train" in one}
    played = Played(speeds, seconds=30.0, **told)
    played.race.live = ["fast", "wrong", "train", "trained"]
    played.race.began = played.now
    assert played.race._alone()
    played.race.live.append("slow")
    assert not played.race._alone()


def test_what_may_lead_over_all_tiers_goes_on_on_each_of_them():
    """Only there is it asked whether it leads: runs of its faster tier alone would add nothing."""
    speeds = {("x", "ram"): 13_500, ("x", "disk"): 10_000, ("y", "ram"): 10_500, ("y", "disk"): 10_300}
    speeds |= {("z", "ram"): 8000, ("z", "disk"): 8000}
    planted = {f"{tier}/{one}": float(speed) for (one, tier), speed in speeds.items()}
    names = {f"{tier}/{one}": Name(one, tier, "w0") for one, tier in speeds}
    played = Played(planted, seconds=225.0, noise=0.05, names=names)
    runs = Counter(one for one, _, _ in played.accepted)
    assert abs(runs["ram/x"] - runs["disk/x"]) <= 1 and runs["ram/x"] < 2.5 * runs["ram/y"], runs


@pytest.mark.parametrize(
    "changed, compared",
    [({}, 2), ({"cache": "cold"}, 0), ({"emulate": "hdd_7200"}, 0), ({"location": {"uri": "s3://bucket"}}, 0)],
)
def test_only_what_is_in_memory_is_compared_over_tiers(changed, compared):
    same = {
        "loader": "a",
        "slug": "w0",
        "task": "read",
        "cache": "warm",
        "step_ms": 0,
        "size": "whole",
        "settings": RUN,
        **LOCAL,
    }
    runs = {tier: SimpleNamespace(**{**same, "tier": tier, **changed}) for tier in ("disk", "ram")}
    assert len(run_session.compared_over_tiers(runs)) == compared
    one_of_them = {"disk": SimpleNamespace(**same, tier="disk"), "ram": runs["ram"]}
    assert run_session.scenario(one_of_them["ram"]) != run_session.scenario(one_of_them["disk"]) or (
        len(run_session.compared_over_tiers(one_of_them)) == compared
    ), "one that is read from elsewhere keeps its whole scenario from it"
