"""Serves a stand-in for object storage on a free port of loopback, until it is ended; prints its endpoint.

    python -m scripts.machine.object_server results/objects/standin --latency-ms 20 --stream-mbps 90

What it emulates of a network (latency before the first byte, MB/s of a connection and of all) is a what-if.
"""

import argparse
from pathlib import Path

from scripts.common.errors import run_main
from scripts.machine.object_protocol import ObjectServer
from scripts.machine.pacing import Emulated
from scripts.machine.traffic import Traffic


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the objects, which stay there")
    parser.add_argument("--latency-ms", type=float, default=0.0, help="wait so long before each answer")
    parser.add_argument("--stream-mbps", type=float, default=0.0, help="10^6 bytes a second of a connection; 0: all")
    parser.add_argument("--total-mbps", type=float, default=0.0, help="10^6 bytes a second of all; 0: all")
    parser.add_argument("--traffic", type=Path, help="file of counters: requests, and bytes that answer them")
    args = parser.parse_args()
    emulated = Emulated(args.latency_ms, args.stream_mbps, args.total_mbps)
    traffic = args.traffic and Traffic(args.traffic)
    with ObjectServer(args.folder, emulated, traffic=traffic) as server:
        print(server.endpoint, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    run_main(main)
