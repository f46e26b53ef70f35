"""A run of several processes that share an epoch: torchrun's launcher starts them, and their records become one.

The measuring process becomes the launcher (torch.distributed's elastic agent, by which torchrun works too); each rank
is a new interpreter (`one_rank.py`) on cores of its own, which leaves its record and the order of its items in a
folder. One rank that fails ends the others. On one machine only its own interface is used; on several nodes
(`feedrate run --nodes`) each is a launcher, and the one at which they meet makes the record.
"""

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

from scripts.common import facts
from scripts.common.corpus import Corpus
from scripts.common.errors import UserError
from scripts.common.files import read_json, write_json
from scripts.common.request import Share
from scripts.common.serving import served
from scripts.common.vocabulary import EXACT, OF_RANKS, SPLIT, VERIFICATION, ranks_of
from scripts.machine.cores import cores_of_ranks
from scripts.machine.host import warning
from scripts.measure import across, checksums, one_run, own_items, own_ranks
from scripts.measure.launch import Cause
from scripts.measure.nodes import nodes_of
from scripts.measure.record import without_speed
from scripts.plan.results import Result

INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
WAITING_SHARE = 0.5  # of measure.limit_minutes: how long ranks wait for one another, so that who is late is known
TALK = ("gloo", "NCCL")  # in the message of a library by which ranks talk


class LateError(Exception):
    """A rank that did not come to where the others wait."""


def shared(result: Result) -> bool:
    """Return whether a run is one of ranks, under torchrun's launcher: several, or one of a task that is theirs."""
    return ranks_of(result.settings) > 1 or result.task in OF_RANKS


class Rank:
    """This process as one of the ranks, once it has joined them."""

    def __init__(self, share: Share, cores: Sequence[int], folder: Path, limit_seconds: float) -> None:
        import torch.distributed as dist

        self.share, self.cores, self.folder = share, list(cores), folder
        self.root = os.getppid()  # the launcher: the tree below it is that of the run
        self.limit = timedelta(seconds=limit_seconds)
        self.group = dist.new_group(backend="gloo", timeout=self.limit)  # for CPU tensors, whatever the task has
        self.votes = 0
        self.orders: list[list[int]] = []  # of the items that it delivered, epoch by epoch

    @property
    def checksums(self) -> Path:
        """Where a proof's checksums of this rank's items are."""
        return self.folder / f"checksums-{self.share.rank}.npy"

    def agreed(self, enough: bool) -> bool:
        """Wait for all ranks, then return whether each of them says that it was `enough`: they end after one epoch.

        Raises LateError, which names the ranks that did not come in time.
        """
        import torch
        import torch.distributed as dist

        self.votes += 1
        try:
            dist.monitored_barrier(self.group, timeout=self.limit, wait_all_ranks=True)
        except RuntimeError as error:
            said = str(error).splitlines()[0]
            raise LateError(
                f"not all ranks came to barrier {self.votes} of the run within {self.limit.total_seconds():g} s (half "
                f"of measure.limit_minutes): rank {self.share.rank} waited, {said}. A rank whose "
                "share has more batches waits for a step that the others do not take"
            ) from None
        vote = torch.tensor(int(enough))
        dist.all_reduce(vote, dist.ReduceOp.MIN, self.group)
        return bool(vote)

    @staticmethod
    def cause(error: Exception) -> Cause | None:
        """Return FOLLOWS for an error that a rank has since another failed, None for one of its own.

        gloo has no error of its own: it is known by what it says.
        """
        talking = isinstance(error, RuntimeError) and any(library in str(error) for library in TALK)
        return Cause.FOLLOWS if talking or isinstance(error, LateError) else None

    def leave(self, record: Mapping[str, Any]) -> None:
        """Leave this rank's record, and the items that it delivered."""
        found = {"record": record, "orders": self.orders, "cores": self.cores, "node": self.share.node}
        write_json(self.folder / f"{self.share.rank}.json", found)


def measure(module: ModuleType, result: Result) -> dict[str, Any] | None:
    """Return the record of a run of ranks, started here and waited for; None on a node that does not make it.

    Raises UserError where the ranks cannot be shared among the nodes.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import RendezvousConnectionError, RendezvousTimeoutError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    world, several = ranks_of(result.settings), nodes_of(result)
    each, rest = divmod(world, several.count)
    if rest or not each:
        raise UserError(
            f"--settings: world: found {world} ranks on {several.count} nodes; allowed is the same number on each. "
            f'Write "world": {max(1, each) * several.count}.'
        )
    cores = cores_of_ranks(each)
    threads = str(len(cores[0]) if result.threads == "auto" else result.threads)
    os.environ.update({name: threads for name in os.environ if name.endswith("_NUM_THREADS")})
    for name in INTERFACES:
        os.environ.setdefault(name, several.interface)
    hosts = several.hosts
    with several.folder() as folder, tempfile.TemporaryDirectory(prefix="feedrate-") as logs:
        config = LaunchConfig(
            min_nodes=several.count,
            max_nodes=several.count,
            nproc_per_node=each,
            run_id=folder.name,
            rdzv_backend="c10d",
            rdzv_endpoint=several.rendezvous,
            rdzv_configs={"is_host": hosts, "join_timeout": WAITING_SHARE * result.limit_minutes * 60},
            local_addr=several.address,
            max_restarts=0,
            logs_specs=DefaultLogsSpecs(log_dir=logs),
        )
        job = json.dumps({"run": asdict(result), "cores": cores, "served": served})
        crash = None
        try:
            elastic_launch(config, sys.executable)(
                "-m", "scripts.measure.one_rank", "--job", job, "--folder", str(folder)
            )
        except ChildFailedError as error:
            number, first = error.get_first_failure()
            crash = number, first.exitcode
        except (RendezvousConnectionError, RendezvousTimeoutError) as error:
            reason = f"not all of {several.count} nodes met at {several.rendezvous}: {' '.join(str(error).split())}"
            return without_speed({**one_run.new_record(module, result), "ranks": None}, "failed", reason)
        if not hosts:
            return None
        return joined(module, result, [_left(folder, number) for number in range(world)], folder, crash)


def _left(folder: Path, number: int) -> dict[str, Any] | None:
    place = folder / f"{number}.json"
    return read_json(place) if place.is_file() else None


def joined(
    module: ModuleType,
    result: Result,
    left: Sequence[Mapping[str, Any] | None],
    folder: Path,
    crash: tuple[int, int] | None,
) -> dict[str, Any]:
    """Return the one record of what the ranks `left`, None of those that were ended before they could.

    `crash`: the rank that ended first of those that did not end well, and its status.
    """
    world = ranks_of(result.settings)
    unwell = [(rank, found["record"]) for rank, found in enumerate(left) if found and found["record"]["status"] != "ok"]
    if unwell:
        rank, record = min(unwell, key=lambda one: one[1]["reason_code"] == Cause.FOLLOWS)
        if crash and record["reason_code"] == Cause.FOLLOWS and left[crash[0]] is None:
            return without_speed({**record, "ranks": None}, "failed", "rank {} ended with status {}".format(*crash))
        reason = record["reason"] if record["status"] == "skipped" else f"rank {rank}: {record['reason']}"
        return without_speed({**record, "ranks": None}, record["status"], reason, record["reason_code"])
    if None in left:
        begun = {**one_run.new_record(module, result), "ranks": None}
        return without_speed(begun, "failed", f"rank {left.index(None)} ended without a record: see the log")
    records, orders = [found["record"] for found in left], [found["orders"] for found in left]
    items = {item.index for item in Corpus(Path(result.corpus)).items(SPLIT)}
    sharing = records[0]["declared"].get("sharing", EXACT)
    problems, counts = records[0]["verification"]["problems"], {}
    own = own_ranks.together([one["own"] for one in records], orders) if records[0].get("own") else None
    expected = len(items)
    if own:
        expected, named = own["expected"] or own["items"], {"repeated": "doubled", "missing": "missing"}
        counts = {name: own[of] for name, of in named.items() if own[of] is not None}
    elif world > 1:
        problems, counts = across.check(orders, items, sharing, result.settings["batch_size"])
    delivered = sum(len(of_rank[0]) for of_rank in orders)
    cores = [found["cores"] for found in left]
    record = {
        **records[0],
        "verification": {"ok": not problems, "expected": expected, "delivered": delivered, "problems": problems},
        "ranks": {"world": world, "nodes": nodes_of(result).count, "cores": cores, "sharing": sharing, **counts},
        "warnings": [*_each_once(chain(*(one["warnings"] for one in records))), *_over_budget(result, cores)],
    }
    if own:
        record |= {"own": own, "warnings": [*record["warnings"], *own_items.warnings_of(own)]}
    if problems:
        record["times"]["epochs"] = []
        return without_speed(record, "failed", "verification: " + " | ".join(problems), VERIFICATION)
    if result.mode == "proof":
        of_all = (checksums.load(folder / f"checksums-{rank}.npy") for rank in range(world))
        if result.path:
            kept = Path(result.path).with_suffix(".npy")
            checksums.save(kept, dict(chain(*(one.items() for one in of_all))))
            record["checksums_hash"] = checksums.hash_of(kept)
        return record
    if result.proof:
        proof = read_json(Path(result.proof))
        record |= {"proof": facts.relied_on(vars(result), proof), "order": proof["order"]}
    return {**record, **_speeds(records, record)}


def _speeds(records: Sequence[Mapping[str, Any]], record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a record that are of all ranks: an epoch of theirs ends with that of the slowest."""
    rates = [one["items_per_second"] for one in records]
    slowest = min(range(len(rates)), key=rates.__getitem__)
    epochs = [_epoch(same, slowest) for same in zip(*(one["times"]["epochs"] for one in records), strict=True)]
    items, seconds = (sum(epoch[key] for epoch in epochs) for key in ("items", "seconds"))
    used = record["resources"]  # by the tree of all ranks of its node, which the first looked at
    of_node = items / record["ranks"]["nodes"]
    moments = [one["sampled"] for one in records]
    ceilings = [one["ceiling"] for one in records if one["ceiling"]]  # of reading, at the same two moments
    return {
        "items_per_second": items / seconds,
        "au_percent": records[slowest]["au_percent"],
        "ceiling": {at: sum(one[at] for one in ceilings) for at in ("before", "after")} if ceilings else None,
        "times": {**record["times"], "epochs": epochs},
        "ranks": {
            **record["ranks"],
            "items_per_second": rates,
            "slowest_items_per_second": rates[slowest],
            "spread_percent": 100 * (max(rates) / min(rates) - 1),
        },
        "resources": {**used, "cpu_seconds_per_1000_items": 1000 * used["cpu_seconds"] / of_node},
        "sampled": {
            "begin": min(one["begin"] for one in moments),
            "end": max(one["end"] for one in moments),
            "epoch_ends": [],
            "readings": list(chain(*(one["readings"] for one in moments))),
        },
    }


def _epoch(same: Sequence[Mapping[str, Any]], slowest: int) -> dict[str, Any]:
    """Return the times of one epoch of all ranks, which began together."""
    arrived = sorted(
        (at, items, rank)
        for rank, one in enumerate(same)
        for at, items in zip(one["arrivals_seconds"], one["batch_items"], strict=True)
    )
    return {
        **same[slowest],
        "seconds": max(one["seconds"] for one in same),
        "gap_seconds": max(one["gap_seconds"] for one in same),
        "items": sum(one["items"] for one in same),
        "arrivals_seconds": [at for at, _, _ in arrived],
        "batch_items": [items for _, items, _ in arrived],
        "batch_ranks": [rank for _, _, rank in arrived],
    }


def _each_once(warnings: Any) -> list[Mapping[str, str]]:
    return list({one["code"]: one for one in warnings}.values())


def _over_budget(result: Result, cores: Sequence[Sequence[int]]) -> list[dict[str, str]]:
    """Return a warning where a rank has more workers than cores, or cores that another rank has too."""
    cores = cores[: len(cores) // nodes_of(result).count]  # of one node: each has the same
    workers, each = result.settings.get("workers") or 0, len(cores[0])
    together = len(set(chain(*cores))) < sum(map(len, cores))
    if workers <= each and not together:
        return []
    seen = f"{len(cores)} ranks with {workers} workers each had {len(set(chain(*cores)))} cores, {each} each"
    cause = "more ranks than cores" if together else "world x workers is above the number of cores"
    hint = "use fewer workers or ranks; otherwise this is the result of an oversubscribed machine"
    return [warning("over-budget", seen, cause, hint)]
