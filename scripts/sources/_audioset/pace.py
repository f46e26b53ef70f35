"""One rate limit for all jobs and for the next start: requests per hour and a random pause, kept in a file."""

import fcntl
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HOUR = 3600.0


def in_words(hours: float) -> str:
    """Return a time as one reads it: minutes, hours, or hours and days."""
    if hours < 2:
        return f"{60 * hours:.0f} minutes"
    return f"{hours:.1f} hours" + (f" ({hours / 24:.1f} days)" if hours >= 48 else "")


def stretched(pause_seconds: tuple[float, float], requests_per_hour: float) -> tuple[float, float]:
    """Return the range of pauses, stretched so that their mean is that of the limit, in seconds.

    Otherwise an hour would begin with all of its requests, and end with a long pause.
    """
    each, mean = HOUR / requests_per_hour if requests_per_hour else 0.0, sum(pause_seconds) / 2
    if mean >= each:
        return pause_seconds
    if mean == 0:
        return each / 2, each * 3 / 2
    return pause_seconds[0] * each / mean, pause_seconds[1] * each / mean


class Pace:
    """Gives out the times at which a request may be sent.

    The file holds the times of the last hour's requests and when the next may follow; it is read and written under a
    lock, so that any number of processes keep one limit.
    """

    def __init__(
        self,
        path: Path,
        requests_per_hour: float,
        pause_seconds: tuple[float, float],
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.path = path
        self.most = max(1, int(requests_per_hour))  # requests in any `window` seconds
        self.window = max(HOUR, HOUR / requests_per_hour) if requests_per_hour else 0.0  # 0: no limit
        self.pause_seconds = stretched(pause_seconds, requests_per_hour)
        self._clock = clock
        self._sleep = sleep

    def wait(self, interrupted: Callable[[], bool] = lambda: False) -> bool:
        """Sleep until a request may be sent and note it; return False where `interrupted` became true meanwhile.

        A place is taken only when it is due, so that whoever is killed while waiting has used up none.
        """
        while not interrupted():
            seconds = self._take()
            if seconds <= 0:
                return True
            self._sleep(min(seconds, 1.0))
        return False

    def hold(self, seconds: float) -> None:
        """Let no one send a request for `seconds`: the server has asked for it."""
        with self._state() as state:
            state["next"] = max(state["next"], self._clock() + seconds)

    def _take(self) -> float:
        """Note a request now and return 0, or return how many seconds it is too early."""
        with self._state() as state:
            now = self._clock()  # the lock may have taken its time
            due = state["next"]
            if self.window and len(state["asked"]) >= self.most:
                due = max(due, state["asked"][-self.most] + self.window)
            if now < due:
                return due - now
            state["asked"].append(now)
            state["next"] = now + random.uniform(*self.pause_seconds)
            return 0.0

    @contextmanager
    def _state(self) -> Iterator[dict[str, Any]]:
        """Yield the file's content, that of the last hour or `window`, and write it back.

        Written in place under the lock: a torn file, from a machine that went down, starts again with a full pause.
        Where the clock was set back, requests of the future count as sent now, and what is left of a pause stays.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            text = file.read()
            now = self._clock()
            try:
                state = json.loads(text) if text else {"asked": [], "next": 0.0}
                asked, due = sorted(map(float, state["asked"])), float(state["next"])
            except (ValueError, TypeError, KeyError):
                asked, due = [], now + self.pause_seconds[1]
            set_back = max(0.0, asked[-1] - now) if asked else 0.0
            oldest = now - max(HOUR, self.window)
            state = {
                "asked": [min(sent, now) for sent in asked if oldest < sent],
                "next": min(due - set_back, now + 24 * HOUR),
            }
            yield state
            file.seek(0)
            file.write(json.dumps(state).encode())
            file.truncate()
