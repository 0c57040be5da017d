"""The k-th smallest of several sorted sequences, without merging them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Ascending = tuple[int, Callable[[int], float]]
"""A sorted sequence: how many numbers it has, and the number at an index."""


def kth_smallest(sequences: Sequence[Ascending], k: int) -> tuple[float, float | None]:
    """The k-th smallest number of all (k from 1), and the one after it (None where there is none).

    Of m sequences each is looked at k/m places on. What is before the smallest number found there is surely among the
    first k: it is left behind, and the search goes on for the rest. O(m² log k) looks.

    >>> kth_smallest([(3, [1.0, 4.0, 9.0].__getitem__), (2, [2.0, 3.0].__getitem__)], 3)
    (3.0, 4.0)
    """
    begins = [0] * len(sequences)
    while True:
        left = [i for i, (size, _) in enumerate(sequences) if begins[i] < size]
        stride = 1 if k < len(left) else k // len(left)
        best, best_i, best_size = 0.0, -1, 0
        for i in left:
            size, at = sequences[i]
            step = min(stride, size - begins[i])
            value = at(begins[i] + step - 1)
            if best_i < 0 or value < best:
                best, best_i, best_size = value, i, step
        begins[best_i] += best_size
        k -= best_size
        if not k:
            heads = [at(begin) for begin, (size, at) in zip(begins, sequences) if begin < size]
            return best, min(heads, default=None)
