"""Measures one loader by ranks on several nodes: the same command on each of them, at about the same time.

    python -m scripts.measure.run_on_nodes --nodes 2 --rendezvous head:29400 --together /shared/first -- \\
        --loader npy --corpus results/corpus/demo --data results/formats/demo/npy \\
        --settings '{"batch_size": 32, "workers": 2, "world": 4}' --out record.json

What follows `--` is for `scripts.measure.run_loader`, whose `world` counts the ranks of all nodes. Under Slurm:
srun --nodes 2 --ntasks-per-node 1 python -m scripts.measure.run_on_nodes ... The node `head` writes the record.
"""

import argparse
import ipaddress
import json
import os
import re
import socket
import sys
from dataclasses import asdict

from scripts.common.errors import UserError, run_main
from scripts.measure.nodes import Nodes

PROGRAM = "scripts.measure.run_loader"


def main() -> None:
    """Become run_loader, told of the nodes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, required=True, help="their number, 2 or more")
    parser.add_argument("--rendezvous", required=True, help="HOST:PORT of one of them, at which they meet")
    parser.add_argument("--together", required=True, help="a new folder on a file system that all nodes share")
    parser.add_argument("run", nargs=argparse.REMAINDER, help="after --: the options of run_loader")
    arguments = parser.parse_args()
    if arguments.nodes < 2:
        raise UserError(
            f"--nodes: found {arguments.nodes}, allowed is 2 or more. One node alone: python -m {PROGRAM} ..."
        )
    if not re.fullmatch(r"[^:\s]+:[1-9]\d{0,4}", arguments.rendezvous):
        raise UserError(
            f"--rendezvous: found {arguments.rendezvous!r}, allowed is HOST:PORT of a node. Write head:29400."
        )
    check_name(arguments.rendezvous.rpartition(":")[0])
    nodes = Nodes(arguments.nodes, arguments.rendezvous, os.path.abspath(arguments.together))
    run = [word for number, word in enumerate(arguments.run) if (number, word) != (0, "--")]
    os.execv(sys.executable, [sys.executable, "-m", PROGRAM, *run, "--nodes", json.dumps(asdict(nodes))])


def check_name(host: str) -> None:
    """Raise UserError where a node's name leads nowhere, or to this machine by an address that is no other's way."""
    do = "Write its address, as `ip -brief address` there shows it."
    try:
        address = socket.gethostbyname(host)
    except OSError:
        raise UserError(f"--rendezvous: found {host!r}, which is no name that is known on this machine. {do}") from None
    if ipaddress.ip_address(address).is_loopback and host not in (address, "localhost"):
        raise UserError(
            f"--rendezvous: found {host!r}, which is {address} on this machine (/etc/hosts): the other nodes do not "
            f"reach it there. {do}"
        )


if __name__ == "__main__":
    run_main(main)
