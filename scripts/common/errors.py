"""The one error type for a user's mistakes, and how a program shows it."""

import difflib
import sys
from collections.abc import Callable, Iterable


class UserError(Exception):
    """Something the user can put right: shown as its text, without a traceback.

    Every text says what was found, what is allowed and what to type next.
    """


def nearest(found: str, allowed: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the allowed name closest to `found`, or an empty string."""
    match = difflib.get_close_matches(str(found), list(allowed), n=1, cutoff=0.5)
    return f" Did you mean {match[0]!r}?" if match else ""


def run_main(main: Callable[[], None]) -> None:
    """Call `main`; on a UserError print its text to stderr and exit with status 2."""
    try:
        main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
