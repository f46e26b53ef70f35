"""What a server that forks has imported before, and what it forks does: of visits (`fork_server.py`) and of proofs."""

import atexit
import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

from scripts.common.errors import run_main
from scripts.measure import child


def import_all() -> None:
    """Import what every visit and every proof needs."""
    import torch

    from scripts.measure import one_run, run  # noqa: F401

    torch.set_num_threads(1)
    one_run.preload()


def as_child(server: int, work: Callable[[], None]) -> NoReturn:
    """Be what a server has forked: the leader of a session, that ends with the server, or when its work is done."""
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()
        ctypes.CDLL(None, use_errno=True).prctl(child.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:
            os._exit(1)
        run_main(work)
        code = 0
        atexit._run_exitfuncs()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
