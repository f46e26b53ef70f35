"""A process that has imported torch once and forks for each proof of a call of Snakemake: it ends with the call.

A proof takes a second or two, of which an interpreter of its own would add two to import torch, on all cores. Nothing
is timed in a proof, and what it can see is fresh as in a visit (`fork_server.py`).

The first proof starts the server; all of one call of Snakemake find it by its name, an abstract socket (unix(7)). It
ends with that Snakemake, or when for IDLE_SECONDS nothing has been asked of it. On a cluster each job has a Snakemake
of its own, and so a server. What is not run by Snakemake, or cannot fork, has an interpreter of its own
(`run_loader.py`): so has a proof whose server is gone.
"""

import argparse
import contextlib
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.common.errors import run_main
from scripts.common.files import write_json
from scripts.measure import child, forking, proofs
from scripts.plan.runs import Run

IDLE_SECONDS = 2.0  # shorter than a session takes to its first visit
WAITING = 4096  # proofs that may wait for it, which the kernel may have be fewer


@dataclass
class Proof:
    """A fork at work, and who asked for it."""

    process: int
    pidfd: int
    client: socket.socket


class Server:
    """Forks for each job, several at a time."""

    def __init__(self, listener: socket.socket, call: int) -> None:
        self.listener, self.call = listener, os.pidfd_open(call)
        self.events = selectors.DefaultSelector()
        self.proofs: dict[int, Proof] = {}  # by pidfd

    def serve(self) -> None:
        """Serve until the call has ended, or nobody asks; whatever ends it, no proof is left at work."""
        self.events.register(self.listener, selectors.EVENT_READ)
        self.events.register(self.call, selectors.EVENT_READ)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        try:
            while ready := self.events.select(None if self.proofs else IDLE_SECONDS):
                if any(key.fd == self.call for key, _ in ready):
                    return
                for key, _ in ready:
                    self._answer(key)
        finally:
            for proof in self.proofs.values():
                child.end_session(proof.process)

    def _answer(self, key: selectors.SelectorKey) -> None:
        """Do what an event asks for; that of a proof that has just been finished asks for nothing."""
        if key.fileobj is self.listener:
            try:
                self._begin()
            except (OSError, EOFError, ValueError) as error:  # whoever asked has an interpreter of its own
                print(f"proof server: {error}", file=sys.stderr)
        elif key.fd in self.proofs:
            self._finish(self.proofs.pop(key.fd))
        elif (proof := self.proofs.get(key.data)) and proof.client is key.fileobj:  # who asked is gone
            self.events.unregister(proof.client)
            self._end(proof)

    def _begin(self) -> None:
        """Take a job, and fork for it. Raises OSError, EOFError or ValueError where it cannot."""
        client, _ = self.listener.accept()
        descriptors: list[int] = []
        try:
            if proofs.user_of(client) != os.getuid():
                raise PermissionError("another user asks")
            client.settimeout(10)
            heard, descriptors, _, _ = socket.recv_fds(client, 1 << 16, 2)
            while not heard.endswith(b"\n"):
                if not (more := client.recv(1 << 16)):
                    raise EOFError("the job is cut")
                heard += more
            self._fork(json.loads(heard), client, descriptors)
        except BaseException:
            client.close()
            raise
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _fork(self, job: Mapping[str, Any], client: socket.socket, descriptors: Sequence[int]) -> None:
        """Fork for a job, and tell who asked which process it is."""
        server = os.getpid()
        number = os.fork()
        if number == 0:

            def work() -> None:
                self._leave(client)
                _prove(job, descriptors)

            forking.as_child(server, work)
        try:
            proof = Proof(number, os.pidfd_open(number), client)
        except OSError:
            os.kill(number, signal.SIGKILL)
            os.waitpid(number, 0)
            raise
        self.proofs[proof.pidfd] = proof
        self.events.register(proof.pidfd, selectors.EVENT_READ)
        self.events.register(client, selectors.EVENT_READ, proof.pidfd)
        _say(client, {"pid": number})

    def _leave(self, client: socket.socket) -> None:
        """Close in a fork what is the server's: whatever holds a socket keeps it from being seen to end."""
        self.events.close()
        os.close(self.call)
        for one in (self.listener, client, *(proof.client for proof in self.proofs.values())):
            one.close()
        for pidfd in self.proofs:
            os.close(pidfd)

    def _end(self, proof: Proof) -> None:
        """Kill a proof and all that it has started."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(proof.pidfd, signal.SIGKILL)  # also one that leads no session yet
        child.end_session(proof.process)

    def _finish(self, proof: Proof) -> None:
        """Say how a proof ended, after all that it had started."""
        child.end_session(proof.process)  # until it is waited for, its number is nobody else's
        _, status = os.waitpid(proof.process, 0)
        self.events.unregister(proof.pidfd)
        os.close(proof.pidfd)
        with contextlib.suppress(KeyError):  # who asked is gone
            self.events.unregister(proof.client)
        _say(proof.client, {"status": os.waitstatus_to_exitcode(status)})
        proof.client.close()


def _say(client: socket.socket, message: Mapping[str, int]) -> None:
    """Send a line to who asked, unless that is gone."""
    with contextlib.suppress(OSError):
        client.sendall(json.dumps(message).encode() + b"\n")


def _prove(job: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Be a proof: measure, and write the record."""
    from scripts.measure import one_run

    for descriptor, own in zip(descriptors, (1, 2), strict=True):
        os.dup2(descriptor, own)
        os.close(descriptor)
    os.environ.clear()  # what serves its tier, for one, is known from there (common/serving.py)
    os.environ.update(job["environment"])
    run = Run(**job["run"])
    record = one_run.measure(one_run.loader_of(run), run)
    write_json(Path(job["out"]), {**record, "started_by": "fork"})


def main() -> None:
    """Serve the proofs of a call."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", required=True, help="of the abstract socket")
    parser.add_argument("--call", required=True, type=int, help="process of the Snakemake with which it ends")
    arguments = parser.parse_args()
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(f"\0{arguments.name}")
    except OSError:  # another proof was faster
        return
    listener.listen(WAITING)
    server = Server(listener, arguments.call)
    forking.import_all()
    server.serve()
    os._exit(0)


if __name__ == "__main__":
    run_main(main)
