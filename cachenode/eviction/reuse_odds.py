"""
How soon blocks of a kind are used again, learnt from those that were. Pure.

Ages are in units of weight used meanwhile, not in seconds: the odds of a reuse then depend less on
how busy the node is, and no clock is needed. They are told apart in steps, two an octave.
"""

from collections.abc import Container, Iterable, Sequence
from itertools import pairwise

GRAIN_BITS = 6
"""Ages below 2**6 are one step."""

STEPS = 40

KEPT_SHARE = 0.9
"""Share of what was observed before that counts on at each lesson."""

COMMON_SHARE = 0.01
"""Weight of what all kinds have in common, so that a kind rarely seen has an opinion, too."""


def step_of(age: int) -> int:
    """Return the step that an age is in."""
    grains = age >> GRAIN_BITS
    if grains < 2:
        return grains
    octave = grains.bit_length() - 1
    return min(2 * octave + (grains >> octave - 1 & 1), STEPS - 1)


def start_of(step: int) -> int:
    """Return the lowest age of a step."""
    if step < 2:
        return step << GRAIN_BITS
    return (2 | step & 1) << step // 2 - 1 + GRAIN_BITS


WIDTHS = tuple(later - earlier for earlier, later in pairwise(map(start_of, range(STEPS + 1))))


class ReuseOdds:
    """
    Counts what was used again at which age, and says what a place in the cache is worth.

    The worth of an entry of some kind and age is its hit density: hits to be had, per unit of
    weight and age that it must be kept for them, up to the later age where that is best. (This is
    the Gittins index of a job that ends with its first hit.) While nothing is known, it falls with
    the age, and ranks by last use.

    Args:
        kind_count: Kinds are numbered from 0.
        hopeless: Kinds of which no reuse is expected before some is seen.
    """

    def __init__(self, kind_count: int, hopeless: Container[int] = ()) -> None:
        self._waiting = [0.0] * kind_count
        self._reused = [[0.0] * STEPS for _ in range(kind_count)]
        first_guess = [1 / start_of(step + 1) for step in range(STEPS)]
        self._densities = [
            [0.0] * STEPS if kind in hopeless else first_guess for kind in range(kind_count)
        ]

    def began(self, kind: int, weight: int) -> None:
        """Count an entry that was used, and may be used again."""
        self._waiting[kind] += weight

    def withdrawn(self, kind: int, weight: int) -> None:
        """Take back a beginning: the entry is of another kind, as was learnt meanwhile."""
        self._waiting[kind] -= weight

    def reused(self, kind: int, age: int, weight: int) -> None:
        """Count the next use of an entry that had begun as this kind."""
        self._reused[kind][step_of(age)] += weight

    def density(self, kind: int, step: int) -> float:
        """The hit density as of the last lesson."""
        return self._densities[kind][step]

    def learn(self) -> None:
        """Reckon the densities from what was counted, which counts less from now on."""
        common = [COMMON_SHARE * sum(steps) for steps in zip(*self._reused, strict=True)]
        common_waiting = COMMON_SHARE * sum(self._waiting)
        self._densities = [
            hit_densities(
                [own + shared for own, shared in zip(reused, common, strict=True)],
                waiting + common_waiting,
            )
            for reused, waiting in zip(self._reused, self._waiting, strict=True)
        ]
        self._reused = [[KEPT_SHARE * weight for weight in steps] for steps in self._reused]
        self._waiting = [KEPT_SHARE * weight for weight in self._waiting]


def hit_densities(reused: Sequence[float], begun: float) -> list[float]:
    """
    Return the hit density at the start of each step.

    Args:
        reused: Weight used again at each step.
        begun: Weight that could have been; what is above the sum of `reused` never was.
    """
    points = list(_hits_and_costs(reused, max(begun, sum(reused))))
    densities = []
    # The best later age is a corner of the upper hull of what is yet to come.
    hull = [points.pop()]
    while points:
        point = points.pop()
        while len(hull) > 1 and _slope(point, hull[-1]) <= _slope(hull[-1], hull[-2]):
            hull.pop()
        densities.append(_slope(point, hull[-1]))
        hull.append(point)
    return densities[::-1]


def _hits_and_costs(reused: Iterable[float], begun: float) -> Iterable[tuple[float, float]]:
    """Hits so far, and weight times age spent on them, at the start of each step and the end."""
    hits = cost = 0.0
    yield hits, cost
    for weight, width in zip(reused, WIDTHS, strict=True):
        # Those that are used within a step have waited half of it.
        cost += (begun - hits - weight / 2) * width
        hits += weight
        yield hits, cost


def _slope(early: tuple[float, float], late: tuple[float, float]) -> float:
    cost = late[1] - early[1]
    return (late[0] - early[0]) / cost if cost > 0 else 0.0
