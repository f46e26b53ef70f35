"""One rank of a run, as torchrun starts it (measure/ranks.py): joins the others, measures, leaves its record."""

import argparse
import json
import os
import sys
from datetime import timedelta
from pathlib import Path

from scripts.common.errors import run_main
from scripts.common.request import Share
from scripts.common.serving import served
from scripts.machine import gpu
from scripts.machine.server_process import end_with
from scripts.measure import one_run, ranks
from scripts.plan.results import Result


def main() -> None:
    """Measure as the rank that the environment says; end with status 1, which ends the others, without a speed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--job",
        required=True,
        type=json.loads,
        help="JSON: the run, and of this node the cores and what is served",
    )
    parser.add_argument("--folder", required=True, type=Path, help="where the record is left")
    arguments = parser.parse_args()
    end_with(os.getppid())
    number, world, node, here = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "GROUP_RANK", "LOCAL_RANK"))
    cores = arguments.job["cores"][here]
    os.sched_setaffinity(0, cores)  # before torch counts them
    result = Result(**arguments.job["run"])
    served.update(arguments.job["served"])

    import torch.distributed as dist

    limit = ranks.WAITING_SHARE * result.limit_minutes * 60
    dist.init_process_group(_backend(result.settings["device"]), timeout=timedelta(seconds=limit))
    rank = ranks.Rank(Share(number, world, node), cores, arguments.folder, limit)
    record = one_run.measure(one_run.loader_of(result), result, rank=rank)
    rank.leave({**record, "started_by": "interpreter"})
    if record["status"] != "ok":
        sys.stdout.flush()
        os._exit(1)
    dist.destroy_process_group()


def _backend(device: str) -> str:
    """Return the backend of a device's tensors; a rank on a GPU takes the one of its number."""
    if device == "cpu":
        return "gloo"
    gpu.use(int(os.environ["LOCAL_RANK"]))
    return "cpu:gloo,cuda:nccl"


if __name__ == "__main__":
    run_main(main)
