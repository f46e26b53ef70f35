"""Passes connections on to a server, later and no faster than asked for, until it is ended; prints its endpoint.

    python -m scripts.machine.delay_proxy 127.0.0.1:8333 --latency-ms 20 --total-mbps 500

What a client sends first, or after an answer, is a request and waits for the latency; bytes go by splice(2), untouched,
so that signatures stay valid: a client signs for the address of this proxy, and the server must take the Host header
as it is.
"""

import argparse
import contextlib
import fcntl
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from scripts.common.errors import run_main
from scripts.machine.pacing import CHUNK, Emulated, Pace
from scripts.machine.traffic import Traffic

PIPE_BYTES = 1024 * 1024


def main() -> None:
    """Read the command line and pass on."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", help="HOST:PORT")
    parser.add_argument("--latency-ms", type=float, default=0.0, help="hold each request so long")
    parser.add_argument("--stream-mbps", type=float, default=0.0, help="10^6 bytes a second of a connection; 0: all")
    parser.add_argument("--total-mbps", type=float, default=0.0, help="10^6 bytes a second of all; 0: all")
    parser.add_argument("--traffic", type=Path, required=True, help="file of counters: requests, bytes of answers")
    args = parser.parse_args()
    host, _, port = args.server.rpartition(":")
    emulated = Emulated(args.latency_ms, args.stream_mbps, args.total_mbps)
    total, traffic = emulated.total(), Traffic(args.traffic)
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        while True:
            client, _ = listening.accept()
            passing = (client, (host, int(port)), emulated, total, traffic)
            threading.Thread(target=_connect, args=passing, daemon=True).start()


def _connect(
    client: socket.socket, server: tuple[str, int], emulated: Emulated, total: Sequence[Pace], traffic: Traffic
) -> None:
    """Pass one connection on, both ways, until either end closes it."""
    with client, contextlib.suppress(OSError), socket.create_connection(server) as upstream:
        for link in (client, upstream):
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answered = threading.Event()  # since the client has sent anything: what it sends next is another request
        answered.set()

        def hold(_size: int) -> None:
            if answered.is_set():
                answered.clear()
                traffic.add(requests=1)
                time.sleep(emulated.latency_ms / 1000)

        paces = (*total, *emulated.stream())

        def pace(size: int) -> None:
            answered.set()
            traffic.add(sent=size)
            for line in paces:
                line.wait(size)

        asking = threading.Thread(target=_pass_on, args=(client, upstream, hold, PIPE_BYTES), daemon=True)
        asking.start()
        _pass_on(upstream, client, pace, CHUNK if paces else PIPE_BYTES)
        asking.join()


def _pass_on(source: socket.socket, sink: socket.socket, before: Callable[[int], None], most: int) -> None:
    """Move bytes from one socket to the other until the first one ends; `before` is called with how many have come."""
    reader, writer = os.pipe()
    try:
        with contextlib.suppress(OSError):  # a user may have too many large pipes already
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        while size := os.splice(source.fileno(), writer, most):
            before(size)
            while size:
                size -= os.splice(reader, sink.fileno(), size)
    except OSError:
        pass
    finally:
        os.close(reader)
        os.close(writer)
        for link in (source, sink):
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    run_main(main)
