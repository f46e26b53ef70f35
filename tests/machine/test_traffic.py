"""The counters of what is served: read by other processes, and each server's own where several serve one folder."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from scripts.machine.traffic import Traffic, counted


def test_counts_from_nothing_what_was_asked_for_and_sent(tmp_path):
    traffic = Traffic(tmp_path / "traffic")
    assert counted([str(tmp_path / "traffic")]) == (0, 0)
    traffic.add(requests=1)
    traffic.add(requests=1, sent=2**40)
    assert counted([str(tmp_path / "traffic")]) == (2, 2**40)
    assert counted([]) is None


def serve(path):
    """As a server does: count from nothing, and be read."""
    for _ in range(300):
        traffic = Traffic(path)
        traffic.add(requests=1, sent=10)
        found = counted([str(path)])  # of the one that began last, which may not have been asked yet
        assert found[0] in (0, 1) and found[1] in (0, 10)  # read between its two additions, too
    return True


def test_servers_that_begin_together_in_one_folder_count_each_for_itself(tmp_path):
    """As several proofs do; a file that is written in place is at times empty when another one maps it."""
    path = tmp_path / "traffic"
    with ProcessPoolExecutor(4, mp_context=get_context("fork")) as processes:
        assert list(processes.map(serve, [path] * 4)) == [True] * 4
    assert [entry.name for entry in tmp_path.iterdir()] == ["traffic"]


def test_what_one_has_counted_is_not_lost_with_the_next_one(tmp_path):
    first = Traffic(tmp_path / "traffic")
    second = Traffic(tmp_path / "traffic")
    first.add(requests=5)
    second.add(requests=1)
    assert counted([str(tmp_path / "traffic")]) == (1, 0)
