"""The k-th smallest of several sorted sequences, without merging them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from vitalsdsl.kernels.exact import midpoint

Ascending = tuple[int, Callable[[int], float]]
"""A sorted sequence: how many numbers it has, and the number at an index."""

_NEAR = 32
"""So many steps from where it was, the place is worth looking for; beyond, a search from nothing is as quick."""


class Selection:
    """Finds the k-th smallest (k from 1) and the one after it, the more quickly the less has changed since last time.

    It remembers how many numbers of each sequence were among the first k. The answer depends on the sequences alone.

    >>> odd, even = [1.0, 3.0, 5.0, 7.0], [2.0, 4.0, 6.0]
    >>> selection = Selection()
    >>> [selection.find([(4, odd.__getitem__), (3, even.__getitem__)], k) for k in (3, 4, 7)]
    [(3.0, 4.0), (4.0, 5.0), (7.0, inf)]
    """

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken: list[int] = []

    def find(self, sequences: Sequence[Ascending], k: int) -> tuple[float, float]:
        """The k-th smallest, and the next (inf where there is none)."""
        found = self._walk(sequences, k) if len(self._taken) == len(sequences) else None
        if found is None:
            self._taken = _search(sequences, k)
            last, following = _ends(sequences, self._taken)
            found = max(last), min(following)
        return found

    def _walk(self, sequences: Sequence[Ascending], k: int) -> tuple[float, float] | None:
        """Mend the split of last time by one number at a time; None where it has moved too far."""
        taken = self._taken = [min(count, size) for count, (size, _) in zip(self._taken, sequences)]
        last, following = _ends(sequences, taken)
        missing = k - sum(taken)
        for _ in range(_NEAR):
            greatest, least = max(last), min(following)
            if not missing and greatest <= least:
                return greatest, least
            if missing > 0:
                i = following.index(least)
                size, at = sequences[i]
                if taken[i] == size:
                    return None  # only infinite distances are left, and they look like an end
                taken[i] += 1
                missing -= 1
                last[i], following[i] = least, at(taken[i]) if taken[i] < size else math.inf
            else:
                i = last.index(greatest)
                taken[i] -= 1
                missing += 1
                last[i], following[i] = sequences[i][1](taken[i] - 1) if taken[i] else -math.inf, greatest
        return None


def _ends(sequences: Sequence[Ascending], taken: Sequence[int]) -> tuple[list[float], list[float]]:
    """The last number taken of each sequence, and the first one not taken."""
    return (
        [at(count - 1) if count else -math.inf for count, (_, at) in zip(taken, sequences)],
        [at(count) if count < size else math.inf for count, (size, at) in zip(taken, sequences)],
    )


def _search(sequences: Sequence[Ascending], k: int) -> list[int]:
    """How many numbers of each sequence are among the k smallest.

    Each of m sequences is looked at k/m places on. What is up to the smallest number found there is surely among the
    first k: it is taken, and the search goes on for the rest. O(m² log k) looks.
    """
    taken = [0] * len(sequences)
    while k:
        left = [i for i, (size, _) in enumerate(sequences) if taken[i] < size]
        stride = max(1, k // len(left))
        best, best_i, best_size = 0.0, -1, 0
        for i in left:
            size, at = sequences[i]
            step = min(stride, size - taken[i])
            value = at(taken[i] + step - 1)
            if best_i < 0 or value < best:
                best, best_i, best_size = value, i, step
        taken[best_i] += best_size
        k -= best_size
    return taken


def outwards(ordered: Sequence[float], low: float, high: float) -> tuple[Ascending, Ascending]:
    """Half the distances of sorted numbers from their median, going down from it and going up.

    Half, so that none is too large for a float.

    The median of an even number is kept as the middle two: rounded to one float, it would spoil small distances between
    large numbers. No number lies strictly between the two, so nothing cancels.
    """
    low, high = low / 2, high / 2
    n = len(ordered)
    half = (n + 1) // 2
    if low == high:
        return (half, lambda i: low - ordered[half - 1 - i] / 2), (n - half, lambda i: ordered[half + i] / 2 - low)
    return (
        (half, lambda i: midpoint(low - ordered[half - 1 - i] / 2, high - ordered[half - 1 - i] / 2)),
        (n - half, lambda i: midpoint(ordered[half + i] / 2 - low, ordered[half + i] / 2 - high)),
    )
