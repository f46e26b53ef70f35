"""The gate across ranks: what is broken on purpose, each thing in one way, is caught, and told what is wrong."""

import json
import os
import pickle
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.multiprocessing import ProcessRaisedException, start_processes
from torch.utils.data import DistributedSampler

from scripts.common import plugins
from scripts.common.corpus import Corpus
from scripts.common.errors import UserError
from scripts.common.request import LoaderRequest, Share
from scripts.machine.cores import cores_of_ranks
from scripts.measure import across, by_hand, nodes, one_run, ranks as ranks_of_run, training
from scripts.measure.ranks import LateError, Rank
from scripts.measure.tasks.ddp import run_ddp
from scripts.measure.verify import Verifier
from scripts.plan.results import Result
from scripts.tables.records import read_record
from tests.support.loader_cases import BATCH_SIZE, request_for, write_format
from tests.support.made_corpus import make_corpus
from tests.support.programs import PROJECT, verb_line
from tests.support.two_nodes import ADDRESSES, started_on, two_nodes

ITEMS = 45  # 34 in train
WORLD = 2
PATIENCE = 120  # seconds, of what takes one


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Corpus:
    return make_corpus(tmp_path_factory.mktemp("corpus") / "made", items=ITEMS, seconds=0.064)


@pytest.fixture(scope="module")
def formats(corpus, tmp_path_factory) -> Path:
    """The formats that the tests read; tar shards are one."""
    folder = tmp_path_factory.mktemp("formats")
    for name in ("memmap", "webdataset"):
        write_format(corpus, name, folder / name, readers=1)
    return folder


def request_of(corpus, formats, rank: int, world: int = WORLD, loader: str = "numpy_memmap", **more) -> LoaderRequest:
    folder = formats / plugins.load("loaders", loader).FORMAT
    return request_for(corpus, loader, folder, **{"share": Share(rank, world), **more})


def delivered(request, numbers=(0, 1), loader: str = "numpy_memmap") -> list[list[int]]:
    """Return the items of each epoch, in the order of their delivery."""
    with plugins.load("loaders", loader).open_epochs(request) as epoch:
        return [[item for batch in epoch(number) for item in batch["item"].tolist()] for number in numbers]


def checked(corpus, orders, sharing: str = "exact") -> tuple[str, dict[str, Any]]:
    problems, counts = across.check(orders, {item.index for item in corpus.items("train")}, sharing, BATCH_SIZE)
    return "\n".join(problems), counts


def test_what_is_right_passes(corpus, formats):
    orders = [delivered(request_of(corpus, formats, rank, 3)) for rank in range(3)]
    assert checked(corpus, orders) == ("", {"epochs": 2, "repeated": 0, "missing": 0})


PLANTED = {  # what each rank is asked for instead, and what is said
    "rank 1 repeats rank 0": (
        lambda ask, _rank: delivered(ask(0)),
        r"rank 1 delivered the items of rank 0: the loader does not use its share \(epoch 0\)",
    ),
    "a seed that differs by rank": (
        lambda ask, rank: delivered(ask(rank, seed=rank)),
        r"\d+ items were delivered twice: [\d, .]+, the first by ranks 0, 1: .* is their seed the same\?(.|\n)*"
        r"\d+ of 34 items came on no rank",
    ),
    "a rank that is an epoch ahead": (
        lambda ask, rank: delivered(ask(rank), (rank, rank + 1)),
        r"\d+ items were delivered twice: (.|\n)* came on no rank",
    ),
    "a forgotten set_epoch": (
        lambda ask, rank: delivered(ask(rank), (0, 0)),
        r"not shuffled: epoch 1 has the order of epoch 0 on ranks 0, 1: was set_epoch forgotten\?",
    ),
    "set_epoch forgotten on one rank": (
        lambda ask, rank: delivered(ask(rank), (0, 1 - rank)),
        r"delivered twice(.|\n)* epoch 1 has the order of epoch 0 on rank 1: was set_epoch forgotten\?",
    ),
    "a last batch that is dropped": (
        lambda ask, rank: [order[:16] for order in delivered(ask(rank))],
        r"2 of 34 items came on no rank: \d+, \d+ \(epoch 0\)",
    ),
    "a rank without shards": (
        lambda ask, rank: [[], []] if rank else delivered(ask(0)),
        r"rank 1 delivered nothing: it has no shard; write more shards, or use fewer ranks \(epoch 0\)",
    ),
    "a rank that ends an epoch earlier": (
        lambda ask, rank: delivered(ask(rank), range(2 + rank)),
        r"epochs: the ranks delivered 2, 3; expected is the same number, at least 2",
    ),
}


@pytest.mark.parametrize(("ranks", "said"), PLANTED.values(), ids=PLANTED)
def test_what_is_planted_is_caught(corpus, formats, ranks, said):
    def ask(rank: int, **more) -> LoaderRequest:
        return request_of(corpus, formats, rank, **more)

    problems, _ = checked(corpus, [ranks(ask, rank) for rank in range(WORLD)])
    assert re.search(said, problems), problems


def test_a_rank_without_shards_is_told_how_many_there_are(corpus, formats):
    with pytest.raises(ValueError, match=r"rank 1 of 2 has no shard, there are 1\. Use fewer ranks"):
        delivered(request_of(corpus, formats, 1, loader="webdataset"), loader="webdataset")


def sampled(items: list[int], world: int, drop_last: bool) -> list[list[list[int]]]:
    """Return what torch's own sampler gives to each rank, in two epochs."""
    orders = []
    for rank in range(world):
        sampler = DistributedSampler(items, world, rank, seed=1, drop_last=drop_last)
        orders.append([])
        for epoch in range(2):
            sampler.set_epoch(epoch)
            orders[-1].append([items[position] for position in sampler])
    return orders


@pytest.mark.parametrize(
    ("drop_last", "sharing", "other", "counts"),
    [
        (False, "repeats", "drops", {"epochs": 2, "repeated": 2, "missing": 0}),
        (True, "drops", "repeats", {"epochs": 2, "repeated": 0, "missing": 1}),
    ],
)
def test_padding_and_dropping_are_declared_or_faults(corpus, drop_last, sharing, other, counts):
    """DistributedSampler of 34 items for 3 ranks: 36, or 33."""
    orders = sampled([item.index for item in corpus.items("train")], 3, drop_last)
    assert checked(corpus, orders, sharing) == ("", counts)
    for undeclared in ("exact", other):
        assert checked(corpus, orders, undeclared)[0]


def test_a_loader_that_repeats_may_not_repeat_a_batch_of_each_rank(corpus):
    orders = sampled([item.index for item in corpus.items("train")], 2, False)
    more = [[order + order[:BATCH_SIZE] for order in of_rank] for of_rank in orders]
    assert "16 items were delivered twice" in checked(corpus, more, "repeats")[0]


def test_each_rank_has_cores_of_its_own_node(tmp_path, monkeypatch):
    """Two nodes of four cores, whose threads are CPUs 0 to 7 and 8 to 15."""
    for cpu in range(16):
        place = tmp_path / f"devices/system/cpu/cpu{cpu}"
        (place / "topology").mkdir(parents=True)
        (place / f"node{cpu % 8 // 4}").mkdir()
        (place / "topology" / "thread_siblings_list").write_text(f"{cpu % 8},{cpu % 8 + 8}\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(16)))

    def found(world: int) -> list[list[int]]:
        return cores_of_ranks(world, tmp_path, tmp_path)

    assert found(1) == [[0, 8, 1, 9, 2, 10, 3, 11]]
    assert found(2) == [[0, 8, 1, 9, 2, 10, 3, 11], [4, 12, 5, 13, 6, 14, 7, 15]]
    assert found(3) == [[0, 8, 1, 9], [2, 10, 3, 11], [4, 12, 5, 13]], "as many for each"
    assert sorted(found(16)) == [[cpu] for cpu in range(16)]
    assert len(found(32)) == 32 and all(len(cores) == 1 for cores in found(32))
    (tmp_path / "cpu.max").write_text("400000 100000\n")
    assert [len(cores) for cores in found(2)] == [2, 2], "a quota is shared too"


def in_ranks(folder: Path, limit: float, work: Callable[[Rank], Any]) -> list[Any]:
    """Return what `work` gives in each of two forks that have joined a group; raises the first error of one."""
    ranks = start_processes(_be_rank, (folder, limit, work), WORLD, join=False, start_method="fork")
    until = time.monotonic() + PATIENCE
    while not ranks.join(max(0.0, until - time.monotonic()), grace_period=1):
        assert time.monotonic() < until, f"they did not end within {PATIENCE} s"
    return [pickle.loads((folder / f"rank-{number}").read_bytes()) for number in range(WORLD)]


def _be_rank(number: int, folder: Path, limit: float, work: Callable[[Rank], Any]) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)  # OpenMP's threads are not in a fork
    store = dist.FileStore(str(folder / "store"), WORLD)
    dist.init_process_group("gloo", store=store, rank=number, world_size=WORLD)
    (folder / f"rank-{number}").write_bytes(pickle.dumps(work(Rank(Share(number, WORLD), [], folder, limit))))


def test_ranks_end_after_the_same_epoch(tmp_path):
    """The one that has had enough goes on with the others."""

    def work(rank: Rank) -> int:
        epochs = 0
        while not rank.agreed(epochs >= 2 + 3 * rank.share.rank):
            epochs += 1
        return epochs

    assert in_ranks(tmp_path, PATIENCE, work) == [5, 5]


def trained(corpus, formats, joined: bool) -> Callable[[Rank], Any]:
    """Return a training of two ranks whose shares are 34 // 9 and 34 - 34 // 9 items, with DDP's join or without."""

    def work(rank: Rank) -> Any:
        request = request_of(corpus, formats, 0, 1, batch_size=4)
        loader = plugins.load("loaders", "numpy_memmap")

        class Uneven(Share):
            def of(self, positions: Any) -> Any:
                few = len(positions) // 9
                return positions[:few] if self.rank else positions[few:]

        request = LoaderRequest(**{**vars(request), "share": Uneven(rank.share.rank, WORLD)})
        task = training.Task(inputs=request.samples, epochs=2, agreed=rank.agreed)
        verifier = Verifier(corpus, "train", request.batch_size, 1, world=WORLD)
        train = run_ddp
        if not joined:
            ddp = torch.nn.parallel.DistributedDataParallel

            def train(opened, verifier, task):
                make = task.make
                changed = {"make": lambda *sizes: ddp(make(*sizes)), "joined": nullcontext}
                return training.run_bare(opened, verifier, replace(task, **changed))

        _, found = train(lambda: loader.open_epochs(request), verifier, task)
        assert verifier.ok, verifier.problems
        return found.last_loss, found.parameters, [sorted(order) for order in verifier.orders]

    return work


def test_ranks_with_uneven_shares_train_to_their_end(tmp_path, corpus, formats):
    (loss, parameters, orders), other = in_ranks(tmp_path, PATIENCE, trained(corpus, formats, joined=True))
    assert loss > 0 and parameters == other[1]
    assert len(orders) == 3, "the verify epoch and two timed ones"
    assert all(
        sorted(mine + his) == sorted(item.index for item in corpus.items("train"))
        for mine, his in zip(orders, other[2], strict=True)
    )


def test_uneven_shares_that_hang_the_last_step_are_named(tmp_path, corpus, formats):
    """Without DDP's join the rank with more batches waits for steps that the other does not take."""
    named = r"LateError: .* within 5 s .*: rank 1 waited, .*0.* waits for a step that the others do not take"
    with pytest.raises(ProcessRaisedException, match=named):
        in_ranks(tmp_path, 5, trained(corpus, formats, joined=False))


def record_of(corpus, formats, out: Path, *arguments: str) -> dict[str, Any]:
    """Return the record of a run of two ranks, as the schema of records allows it."""
    settings = json.dumps({"batch_size": BATCH_SIZE, "workers": 0, "world": WORLD})
    program = [sys.executable, "-m", "scripts.measure.run_loader", "--corpus", str(corpus.root), "--out", str(out)]
    program += ["--data", str(formats / "memmap"), "--settings", settings, "--seconds", "0", *arguments]
    done = subprocess.run(program, cwd=PROJECT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return read_record(out)


def test_a_run_of_two_processes_is_one_record(tmp_path, corpus, formats):
    record = record_of(corpus, formats, tmp_path / "0.json", "--loader", "numpy_memmap", "--step-ms", "2")
    assert (record["status"], record["reason"]) == ("ok", None)
    assert record["verification"] == {"ok": True, "expected": 34, "delivered": 34, "problems": []}
    ranks, epochs = record["ranks"], record["times"]["epochs"]
    assert (ranks["world"], ranks["epochs"], ranks["repeated"], ranks["missing"]) == (WORLD, 1 + len(epochs), 0, 0)
    assert ranks["slowest_items_per_second"] == min(ranks["items_per_second"])
    assert record["items_per_second"] == pytest.approx(34 * len(epochs) / sum(epoch["seconds"] for epoch in epochs))
    assert record["items_per_second"] <= sum(ranks["items_per_second"]) * 1.001
    assert all(epoch["items"] == sum(epoch["batch_items"]) == 34 for epoch in epochs)
    assert 0 < record["au_percent"] <= 100.001, "of the slowest rank"
    assert record["settings"]["world"] == WORLD and "world_2" in record["slug"]
    assert record["memory"]["pss_peak_bytes"] > record["memory"]["pss_per_worker_peak_bytes"], "of the whole tree"
    assert min(record["ceiling"].values()) > record["items_per_second"], "a step of 2 ms is far below any memory"


OWN_RANKS = """
import numpy as np
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler

FORMAT = "memmap"
CHECK = "items"


class Mine(Dataset):
    def __init__(self, request):
        self.audio = np.load(request.array, mmap_mode="r")

    def __len__(self):
        return len(self.audio)

    def __getitem__(self, index):
        return self.audio[index].copy(), index


"""
SAMPLED = """
def loader(request):
    data = Mine(request)
    sampler = DistributedSampler(data, request.world, request.rank, drop_last=True)
    return DataLoader(data, {batch}, sampler=sampler)


def begin(loader, epoch):
    loader.sampler.set_epoch(epoch)
"""
SHARED = "def dataset(request):\n    return Mine(request)\n"
OF_OWN_RANKS = {  # of 34 items: the file's end; batches of each rank; repeated, missing; codes of warnings
    "a sampler of its own": (SAMPLED.format(batch="request.batch_size"), [3, 3], (0, 0), set()),
    "shares by feedrate": (SHARED, [3, 3], (0, 0), set()),
    "a rank with larger batches": (SAMPLED.format(batch="8 - 4 * request.rank"), [3, 5], (0, 0), {"own-uneven"}),
    "a sampler that knows no ranks": (
        "def loader(request):\n    return DataLoader(Mine(request), request.batch_size, shuffle=True)\n",
        [5, 5], (34, 0), {"own-doubled"}),
    "a share that is forgotten": (
        SAMPLED.format(batch="request.batch_size").replace("request.world,", "2 * request.world,"),
        [1, 1], (0, 18), {"own-missing"}),
    "no numbers": ('CHECK = "none"\n' + SHARED, [3, 3], (None, None), set()),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_OWN_RANKS)
def test_ranks_of_a_loader_of_the_users_own_are_one_record(tmp_path, corpus, formats, name):
    text, batches, (repeated, missing), codes = OF_OWN_RANKS[name]
    (tmp_path / "mine.py").write_text(OWN_RANKS + text)
    words = "--loader", "mine", "--file", str(tmp_path / "mine.py")
    record = record_of(corpus, formats, tmp_path / "0.json", *words)
    assert (record["status"], record["reason"]) == ("ok", None)
    assert record["own"]["rank_batches"] == batches and record["ceiling"] is None
    assert (record["ranks"].get("repeated"), record["ranks"].get("missing")) == (repeated, missing)
    said = {one["code"] for one in record["warnings"] if one["code"].startswith("own-")}
    assert said - {"own-padding"} == codes
    delivered = 34 + (repeated or 0) - (missing or 0)
    assert record["verification"] == {"ok": True, "expected": 34, "delivered": delivered, "problems": []}
    assert all(epoch["items"] == delivered for epoch in record["times"]["epochs"]) and record["items_per_second"] > 0


def test_a_proof_of_ranks_sees_an_order_of_their_own_that_does_not_change(tmp_path, corpus, formats):
    (tmp_path / "mine.py").write_text(
        OWN_RANKS + SAMPLED.format(batch="request.batch_size").partition("\n\ndef begin")[0]
    )
    words = "--loader", "mine", "--file", str(tmp_path / "mine.py"), "--mode", "proof"
    record = record_of(corpus, formats, tmp_path / "0.json", *words)
    assert record["status"] == "ok" and record["own"]["rank_batches"] == [3, 3]
    assert {one["code"] for one in record["warnings"]} - {"own-padding"} == {"own-order"}


def test_the_in_memory_ceiling_of_ranks_is_what_all_read_at_once():
    epoch = {"seconds": 1.0, "gap_seconds": 0.1, "items": 10, "arrivals_seconds": [1.0], "batch_items": [10]}
    sampled = {"begin": 0.0, "end": 1.0, "readings": []}
    one = {"items_per_second": 10.0, "au_percent": None, "times": {"epochs": [epoch]}, "sampled": sampled}
    left = [{**one, "ceiling": {"before": 100.0 * rank, "after": 50.0 * rank}} for rank in (1, 2)]
    shared = {"resources": {"cpu_seconds": 1.0}, "ranks": {"nodes": 1}, "times": {"epochs": [epoch]}}
    assert ranks_of_run._speeds(left, shared)["ceiling"] == {"before": 300.0, "after": 150.0}
    trained = [{**one, "ceiling": None}] * 2
    assert ranks_of_run._speeds(trained, shared)["ceiling"] is None, "of tasks that do more than read"


def test_ranks_of_a_loader_that_knows_none_fail_together(corpus):
    items = [item.index for item in corpus.items("train")]
    record = {"status": "ok", "declared": {}, "verification": {"problems": []}, "warnings": [], "times": {}}
    left = [{"record": record, "orders": [items, items[::-1]], "cores": [0]}] * 2
    result = Result(settings={"world": 2, "batch_size": BATCH_SIZE}, corpus=str(corpus.root), mode="proof")
    found = ranks_of_run.joined(None, result, left, Path(), None)
    assert found["status"] == "failed" and found["items_per_second"] is None
    assert "rank 1 delivered the items of rank 0: the loader does not use its share" in found["reason"]


@pytest.mark.parametrize(("error", "cause"), [
    (ValueError("NCCL_DEBUG is not set (mine.py, line 3)"), None), (LateError("barrier 2"), "follows"),
    (RuntimeError("[pair.cc:545] gloo: Connection closed by peer"), "follows"), (RuntimeError("here"), None),
])  # fmt: skip
def test_what_a_rank_says_that_failed_by_itself_is_told_whatever_its_words(corpus, error, cause):
    assert Rank.cause(error) == cause
    follower = {"status": "failed", "reason": "another was late", "reason_code": "follows"}
    failed = {"status": "failed", "reason": str(error), "reason_code": Rank.cause(error)}
    left = [{"record": follower}, {"record": failed}]
    result = Result(settings={"world": 2}, corpus=str(corpus.root))
    found = ranks_of_run.joined(None, result, left, Path(), (1, 1))
    assert found["reason"] == ("rank 0: another was late" if cause else f"rank 1: {error}")


def test_lightnings_ddp_trains_ranks_with_as_many_batches(tmp_path, corpus, formats):
    """17 items each, three batches."""
    record = record_of(corpus, formats, tmp_path / "0.json", "--loader", "numpy_memmap", "--task", "lightning_ddp")
    assert (record["status"], record["reason"]) == ("ok", None)
    assert record["ranks"]["repeated"] == record["ranks"]["missing"] == 0
    assert record["training"]["last_loss"] > 0 and 0 < record["au_percent"] <= 100.001


def test_lightnings_ddp_refuses_shares_that_would_hang(tmp_path, corpus, formats):
    """34 items over 3 ranks are 12, 11 and 11: in batches of 11 two, one and one."""
    settings = json.dumps({"batch_size": 11, "workers": 0, "world": 3})
    options = ("--loader", "numpy_memmap", "--task", "lightning_ddp", "--settings", settings)
    record = record_of(corpus, formats, tmp_path / "0.json", *options)
    assert record["status"] == "failed" and "the ranks have 2, 1, 1 batches" in record["reason"]


# Several nodes


def test_ranks_of_two_nodes_are_proven_and_measured_together(tmp_path, corpus, formats):
    """The same is typed on both; the first of them writes the record."""
    settings = json.dumps({"batch_size": BATCH_SIZE, "workers": 0, "world": WORLD})
    program = ["scripts.feedrate", "run", "--nodes", "2", "--rendezvous", f"{ADDRESSES[0]}:29413"]
    program += ["--together", str(tmp_path / "together"), "--corpus", str(corpus.root), "--seconds", "0"]
    program += ["--data", str(formats / "memmap"), "--settings", settings, "--loader", "numpy_memmap"]
    with two_nodes() as names:
        started = [started_on(name, [*program, "--out", str(tmp_path / f"{name}.json")]) for name in names]
        said = [one.communicate(timeout=PATIENCE)[0] for one in started]
        written = sorted(path.stem for path in tmp_path.glob("*.json"))
        assert written == [names[0]], "the node at which they meet writes the record, and no other"
        record = read_record(tmp_path / f"{names[0]}.json")
        assert [one.returncode for one in started] == [0, 0], said
    assert (record["status"], record["reason"]) == ("ok", None)
    assert record["verification"] == {"ok": True, "expected": 34, "delivered": 34, "problems": []}
    ranks = record["ranks"]
    assert (ranks["world"], ranks["nodes"], ranks["repeated"], ranks["missing"]) == (WORLD, 2, 0, 0)
    assert len(ranks["items_per_second"]) == WORLD and record["items_per_second"] > 0
    left = [json.loads(path.read_text())["node"] for path in (tmp_path / "together").glob("*.json")]
    assert sorted(left) == [0, 1], "a rank on each"


def test_a_node_that_does_not_come_is_the_reason(tmp_path, corpus, formats):
    """The one that waits for it ends after half of the limit."""
    program = [*verb_line("run"), "--nodes", "2", "--rendezvous", "127.0.0.1:29414"]
    program += ["--together", str(tmp_path / "together"), "--corpus", str(corpus.root), "--loader", "npy"]
    program += ["--data", str(formats / "memmap"), "--settings", json.dumps({"batch_size": BATCH_SIZE, "world": 2})]
    program += ["--limit-minutes", "0.4", "--out", str(tmp_path / "record.json")]
    subprocess.run(program, cwd=PROJECT, capture_output=True, timeout=PATIENCE)
    record = read_record(tmp_path / "record.json")
    assert record["status"] == "failed" and record["reason"].startswith("not all of 2 nodes met at 127.0.0.1:29414")


@pytest.mark.parametrize(("arguments", "words"), [
    ((1, "a:1", "together"), "--nodes: found 1"),
    ((2, "head", "together"), "--rendezvous: found 'head'"),
    ((2, None, None), "--rendezvous and no --together"),
])  # fmt: skip
def test_what_is_no_run_of_nodes_is_refused(arguments, words):
    with pytest.raises(UserError, match=words):
        by_hand.nodes_of(*arguments)
    assert by_hand.nodes_of(None, None, None) is None


def test_a_name_at_which_the_other_nodes_do_not_reach_this_one_is_refused(monkeypatch):
    """Debian has a machine's own name as 127.0.1.1 in /etc/hosts."""
    known = {"head": "127.0.1.1", "localhost": "127.0.0.1", "127.0.0.1": "127.0.0.1", "other": "10.0.0.7"}

    def looked_up(host):
        if host not in known:
            raise socket.gaierror(-2, "Name or service not known")
        return known[host]

    monkeypatch.setattr(socket, "gethostbyname", looked_up)
    for host in ("localhost", "127.0.0.1", "other"):
        nodes.check_name(host)
    with pytest.raises(UserError, match=r"'head', .* 127\.0\.1\.1"):
        nodes.check_name("head")
    with pytest.raises(UserError, match="'nowhere'"):
        nodes.check_name("nowhere")


def test_a_folder_of_an_earlier_run_and_odd_shares_are_refused(tmp_path, corpus):
    """What an earlier run left would be taken for this one's."""
    (tmp_path / "0.json").write_text("{}")
    two = {"count": 2, "rendezvous": "127.0.0.1:1", "together": str(tmp_path)}
    result = Result(settings={"world": 3}, corpus=str(corpus.root), nodes=two)
    with pytest.raises(UserError, match=r"'0\.json'"), nodes.nodes_of(result).folder():
        pass
    with pytest.raises(UserError, match='"world": 2'):
        ranks_of_run.measure(None, result)


def test_ranks_time_as_many_epochs_as_their_shares_need():
    """Of 400 items a rank of four has 10 batches, and its queues hold 4: 20 times as many are 8 epochs."""
    alone = LoaderRequest(None, 400, None, 1, 10, workers=2, prefetch=2)
    assert one_run.epochs_for("auto", alone) == (2, None) == one_run.epochs_for("2", alone)
    assert one_run.epochs_for("auto", replace(alone, share=Share(0, 4))) == (8, None)
    epochs, refused = one_run.epochs_for("2", replace(alone, share=Share(0, 4)))
    assert epochs == 0 and refused.startswith("too short: 2 epochs are 20 batches")
