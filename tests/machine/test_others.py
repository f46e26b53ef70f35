"""What others take of the cores that a process may use: machines and neighbours are planted."""

import dataclasses
import json
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from scripts.machine import cores, host
from tests.support.programs import PROJECT

WALL = 10.0  # seconds between two planted moments
TICK = os.sysconf("SC_CLK_TCK")
ALLOWED = frozenset(range(8, 16))  # 8 of 128 cores


def planted(folder, busy: dict[int, float], stolen: dict[int, float], shown=range(128)) -> dict:
    """Return what is read from a machine whose cores worked, or were withheld, for so many seconds."""
    ticks = lambda seconds: int(seconds * TICK)  # noqa: E731
    rows = [f"cpu{core} {ticks(busy.get(core, 0))} 0 0 9 9 0 0 {ticks(stolen.get(core, 0))} 0 0\n" for core in shown]
    folder.mkdir(exist_ok=True)
    (folder / "stat").write_text(f"cpu  1 2 3 4 5 6 7 8 9 10\n{''.join(rows)}intr 1 2 3\n")
    return cores.used_by_core(folder)


def percent(folder, busy, own=0.0, stolen=(), quota=None, used=0.0, served=0.0, **how) -> tuple[float, float]:
    """Return (others_percent, stolen_percent) of ten seconds in which cores worked so many seconds each."""
    before = host.Moment(
        **{
            "cores": planted(folder, {}, {}, **how),
            "allowed": ALLOWED,
            "threads": {},
            "own_seconds": 5.0,
            "served_seconds": 0.0,
        },
        **{"read_bytes": 0, "minor_faults": 0, "major_faults": 0, "wall_seconds": 100.0, "load_1m": 0.0},
        **{"cpu_mhz": None, "quota": quota and cores.Quota(quota, 50.0)},
    )
    after = dataclasses.replace(
        before,
        cores=planted(folder, busy, dict(stolen), **how),
        wall_seconds=100.0 + WALL,
        own_seconds=5.0 + own,
        served_seconds=served,
        quota=quota and cores.Quota(quota, 50.0 + used),
    )
    return host.others_percent(before, after), host.stolen_percent(before, after)


def test_a_neighbour_disturbs_by_its_share_of_the_cores_allowed_and_not_of_the_machine(tmp_path):
    """Two of eight cores: a quarter, where of 128 it was 1.6 % and no run was made again."""
    neighbour = {8: WALL, 9: WALL}
    assert percent(tmp_path, neighbour) == (pytest.approx(25), 0)
    own = dict.fromkeys(range(10, 14), WALL)
    assert percent(tmp_path, neighbour | own, own=4 * WALL) == (pytest.approx(25), 0)
    assert percent(tmp_path, neighbour, served=WALL) == (pytest.approx(12.5), 0), "a server of the data is no neighbour"


def test_a_neighbour_on_other_cores_does_not_disturb(tmp_path):
    assert percent(tmp_path, dict.fromkeys(set(range(128)) - ALLOWED, WALL)) == (0, 0)


def test_stolen_time_is_that_of_the_cores_allowed(tmp_path):
    assert percent(tmp_path, {}, stolen={8: 4.0, 100: WALL}) == (0, pytest.approx(5))


def test_with_a_quota_others_take_what_they_leave_too_few_cores_for(tmp_path):
    """Two cores' worth on eight: six may be others'."""
    busy = lambda count: dict.fromkeys(range(8, 8 + count), WALL)  # noqa: E731
    assert percent(tmp_path, busy(6), quota=2.0)[0] == 0
    assert percent(tmp_path, busy(7), quota=2.0)[0] == pytest.approx(50)
    assert percent(tmp_path, busy(8), own=WALL, quota=2.0)[0] == pytest.approx(50)
    assert percent(tmp_path, busy(7), quota=64.0)[0] == pytest.approx(87.5), "more than there are cores: no limit"


def test_what_shares_a_quota_takes_of_it_wherever_it_runs(tmp_path):
    assert percent(tmp_path, {8: WALL, 9: WALL}, own=WALL, quota=2.0, used=2 * WALL)[0] == pytest.approx(50)
    assert percent(tmp_path, {8: WALL}, own=WALL, quota=2.0, used=WALL)[0] == 0


def test_threads_at_work_are_those_that_used_the_cpu_and_were_not_there_before():
    threads = {(1, 1): 5.0, (1, 2): 5.0}
    before = host.Moment({}, frozenset(), None, threads, 0, 0, 0, 0, 0, wall_seconds=0.0, load_1m=0, cpu_mhz=None)
    used = {(1, 1): 15.0, (1, 2): 5.0, (1, 3): 0.04, (1, 4): 0.06, (9, 9): 8.0, (9, 10): 0.0}
    after = dataclasses.replace(before, threads=used, wall_seconds=WALL)
    assert host.threads_at_work(before, after, beside={1}) == 2
    assert host.threads_at_work(before, after, beside=set()) == 3


def test_cores_that_a_container_numbers_anew_are_all_its_own(tmp_path):
    """lxcfs shows a container its cores alone, from 0."""
    assert percent(tmp_path, {0: WALL}, shown=range(8))[0] == pytest.approx(12.5)


def test_a_core_that_is_switched_off_leaves_the_numbers_of_the_others(tmp_path):
    shown = [core for core in range(128) if core != 3]
    assert percent(tmp_path, {8: WALL}, shown=shown)[0] == pytest.approx(12.5)


LOOK = """
import json, os, sys, time
from scripts.machine import host
before = host.look(time.perf_counter)
time.sleep(1.5)
after = host.look(time.perf_counter)
print(json.dumps([sorted(before.allowed), host.others_percent(before, after)]))
"""


@contextmanager
def neighbour(core: int):
    """A program that keeps one core at work."""
    program = f"import os\nos.sched_setaffinity(0, {{{core}}})\nprint(flush=True)\nwhile True: pass"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        yield
    finally:
        process.kill()
        process.communicate()


@pytest.mark.alone
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="it takes two cores")
def test_a_real_neighbour_disturbs_on_the_core_of_taskset():
    """The interpreter is told by taskset; its own work is that of looking."""
    own, other = sorted(os.sched_getaffinity(0))[:2]
    command = ["taskset", "--cpu-list", str(own), sys.executable, "-c", LOOK]

    def seen() -> tuple[list[int], float]:
        return json.loads(subprocess.run(command, capture_output=True, check=True, text=True, cwd=PROJECT).stdout)

    with neighbour(own):
        assert seen()[0] == [own]
        beside = seen()[1]
    assert beside > 90
    with neighbour(other):
        assert seen()[1] < beside


def test_the_cores_of_a_tree_are_those_of_all_its_threads():
    program = """if True:
        import os, threading
        wait = threading.Event()
        threading.Thread(target=wait.wait).start()
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        print(flush=True)
        input()
        wait.set()
    """
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        assert cores.cores_of([process.pid, 1 << 22]) == os.sched_getaffinity(0)
    finally:
        process.communicate(b"\n")
