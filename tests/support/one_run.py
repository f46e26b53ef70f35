"""One run of numpy_memmap, as real runs are made (fresh process, protocol, sink), perhaps slower by some percent.

    python -m tests.support.one_run --folder FOLDER --slower 5 --seconds 2

Prints clips/s. `FOLDER` holds `corpus` and `memmap`, as tests/bench/selftest.py makes them.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scripts.common import plugins
from scripts.common.corpus import Corpus
from scripts.measure import protocol
from scripts.measure.sink import Sink
from scripts.measure.verify import Verifier
from tests.support.loader_cases import request_for


@contextmanager
def slowed(opened: Callable[[], Any], percent: float) -> Iterator[protocol.Epoch]:
    """Open a loader with which each batch takes so many percent longer, consuming it included."""
    with opened() as epoch:

        def slower(number: int) -> Iterator[Any]:
            last = time.perf_counter()
            for batch in epoch(number):
                now = time.perf_counter()
                end = now + (now - last) * percent / 100
                while time.perf_counter() < end:
                    pass
                last = time.perf_counter()
                yield batch

        yield slower


def main() -> None:
    """Print the clips/s of one run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--slower", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    import torch

    from scripts.machine.host import cores_allowed

    torch.set_num_threads(cores_allowed())
    corpus = Corpus(arguments.folder / "corpus")
    module = plugins.load("loaders", "numpy_memmap")
    request = request_for(corpus, "numpy_memmap", arguments.folder / "memmap", batch_size=32)
    verifier = Verifier(corpus, "train", 32, 1)
    times = protocol.run(
        lambda: slowed(lambda: module.open_epochs(request), arguments.slower),
        verifier,
        Sink("cpu"),
        2,
        time.perf_counter,
        arguments.seconds,
    )
    assert verifier.ok, verifier.problems
    print(protocol.rate(times))


if __name__ == "__main__":
    main()
