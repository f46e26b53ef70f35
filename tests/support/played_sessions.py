"""Sessions of planted speeds, several of which measured the same: each result has a state that lasts for a session."""

import numpy as np

from scripts.common.counting import Round

RESULTS, ROUNDS, NOISE = 10, 6, 0.05


def played(rng, sessions, state=0.02, rounds=ROUNDS, speeds=(1.0,) * RESULTS, noise="normal", every=1):
    """Speeds {result: {Round: items/s}}: equal results by default. Each has a state in each session, or one of `every`
    so many results; `state` is its standard deviation.
    """
    found = {number: {} for number in range(len(speeds))}
    for session in range(sessions):
        states = rng.normal(0, state, len(speeds)) * (np.arange(len(speeds)) % every == 0)
        for round_number in range(rounds):
            machine = rng.normal(0, 0.1)
            for one, speed in enumerate(speeds):
                taken = 0.3 * rng.random() * (rng.random() < 0.4) if noise == "a neighbour" else 0.0
                scatter = rng.standard_t(2.5) if noise == "t" else rng.normal()
                logs = states[one] + machine - taken + NOISE * scatter
                found[one][Round(f"main-{session}", session * rounds + round_number)] = 1000 * speed * np.exp(logs)
    return found


def false_difference(found):
    """Whether some of equal results differ significantly."""
    return any(found.rank_interval(one) != (1, len(found.place)) for one in found.place)
