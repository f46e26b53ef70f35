"""The one error type for a user's mistakes, what a machine's own errors ask for, and how a program shows both."""

import csv
import difflib
import errno
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

AGAIN = "then type the same command again"
# What to do where the machine refuses, which no line of a program can help.
ADVICE = {
    errno.ENOSPC: f"Free some space there, or set a path on a larger file system; {AGAIN}.",
    errno.EDQUOT: f"Free some space there, or have the quota raised; {AGAIN}.",
    errno.EIO: f"The device failed, or the server behind it: see what dmesg says, replace what it names; {AGAIN}.",
    errno.EROFS: f"Mount it for writing (dmesg says whether its device failed), or set another path; {AGAIN}.",
    errno.EMFILE: f"Raise the limit of open files (ulimit -n), or use fewer workers; {AGAIN}.",
    errno.ENFILE: f"End other programs: the machine has no open files left; {AGAIN}.",
    errno.ENOMEM: f"End other programs, or use fewer --jobs, --cores or workers; {AGAIN}.",
    errno.EAGAIN: f"Raise the limit of processes (ulimit -u), or use fewer workers; {AGAIN}.",
    errno.ESTALE: f"The server has put other files there: mount it again; {AGAIN}.",
}


class UserError(Exception):
    """Something the user can put right: shown as its text, without a traceback.

    Every text says what was found, what is allowed and what to type next.
    """


def nearest(found: str, allowed: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the allowed name closest to `found`, or an empty string."""
    match = difflib.get_close_matches(str(found), list(allowed), n=1, cutoff=0.5)
    return f" Did you mean {match[0]!r}?" if match else ""


@contextmanager
def reading(path: Path, made_by: str, delete: Path | None = None) -> Iterator[None]:
    """Read a file of our own in the block: UserError where it is damaged, and errors of the machine say which it was.

    `delete`: what to delete to have it made again, where that is another file.
    """
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, csv.Error) as error:
        raise UserError(
            f"{path}: found it damaged ({type(error).__name__}: {error}); allowed is the whole file, as {made_by} "
            f"wrote it. Delete {delete or 'it'}, {AGAIN}."
        ) from error


def advice(error: BaseException | None) -> str:
    """Return what to do about an error of the machine, or of what it was raised from; empty for any other."""
    while error is not None:
        said = re.search(r"\[Errno (\d+)\]", str(error))  # all that is left of an error of a worker process
        number = getattr(error, "errno", None) or (said and int(said[1]))
        if type(error).__name__ == "MemoryError":
            number = errno.ENOMEM
        if number in ADVICE:
            return ADVICE[number]
        error = error.__cause__
    return ""


def run_main(main: Callable[[], None]) -> None:
    """Call `main`; print a UserError, or what the machine refused, to stderr and exit with status 2."""
    try:
        main()
    except (UserError, OSError, MemoryError) as error:
        if not (said := str(error) if isinstance(error, UserError) else refused(error)):
            raise
        print(f"error: {said}", file=sys.stderr)
        sys.exit(2)


def refused(error: OSError | MemoryError) -> str:
    """Return what the machine refused and what to do about it; empty where nobody knows."""
    hint = advice(error)
    place = f"{error.filename}: " if getattr(error, "filename", None) else ""
    said = getattr(error, "strerror", None) or f"out of memory ({error})"
    return f"{place}{said}. {hint}" if hint else ""
