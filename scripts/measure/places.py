"""Where pieces were cut from their recordings, and whether two workers or two epochs cut them at the same places.

Places are compared by their share of the room: one number of a generator gives the same share of recordings of any
length. They tell nothing where they are no random ones: all at the start, the middle or the end.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

LEAST_PAIRS = 8
LEAST_ROOM = 16  # in which two places are the same by chance no more than once in eight times
NEARLY_ALL = 0.9
MOST_CONSTANT = 0.5  # of places that may be the same


class Place(NamedTuple):
    """Where a piece of an item begins."""

    item: int
    worker: int
    turn: int  # how many items the worker made before, in the epoch
    start: int
    room: int  # the last place where it could begin, above 0


def starts(whole: np.ndarray, piece: np.ndarray) -> list[int]:
    """Return the first two places where a piece is in a recording, bit by bit."""
    held, wanted, size, found = whole.tobytes(), piece.tobytes(), whole.itemsize, []
    place = held.find(wanted)
    while place >= 0 and len(found) < 2:
        if place % size == 0:  # else between two values
            found.append(place // size)
        place = held.find(wanted, place + 1)
    return found


def workers_alike(places: Iterable[Place]) -> list[int] | None:
    """Return two workers whose pieces begin at the same places, one after the other; or None."""
    by_worker: dict[int, dict[int, Place]] = {}
    for place in places:
        by_worker.setdefault(place.worker, {})[place.turn] = place
    return next(([*pair] for pair in combinations(sorted(by_worker), 2) if _alike(*map(by_worker.get, pair))), None)


def epochs_alike(first: Sequence[Place], second: Sequence[Place]) -> bool:
    """Return whether pieces of a second epoch begin where those of the same items do, or of the same turns."""
    keys = (lambda place: place.item), (lambda place: (place.worker, place.turn))
    return any(_alike(*({key(place): place for place in epoch} for epoch in (first, second))) for key in keys)


def _alike(some: dict, others: dict) -> bool:
    pairs = [(some[key], others[key]) for key in some.keys() & others.keys()]
    pairs = [pair for pair in pairs if min(place.room for place in pair) >= LEAST_ROOM]
    if len(pairs) < LEAST_PAIRS or not all(map(_random, zip(*pairs, strict=True))):
        return False
    near = [
        abs(one.start / one.room - other.start / other.room) <= 1 / min(one.room, other.room) for one, other in pairs
    ]
    return sum(near) >= NEARLY_ALL * len(near)


def _random(places: Sequence[Place]) -> bool:
    """Return whether places are no constant ones: from the start, from the end, or by their share of the room."""
    start, room = np.array([place[-2:] for place in places]).T
    by = (start, 1), (room - start, 1), (start / room, 1 / room)
    return all((np.abs(value - np.median(value)) <= near).mean() <= MOST_CONSTANT for value, near in by)
