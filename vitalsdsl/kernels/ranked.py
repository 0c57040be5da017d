"""Numbers in order of size, in eight bytes each."""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

MOST = 2048
"""Numbers in one piece. To move half of them is quicker than to look a few more pieces through."""


class Ranked(Sequence[float]):
    """A multiset of floats without NaN, read by rank: the lowest is at 0.

    It is kept in pieces of plain doubles. A list of Python's floats takes four times the memory, and its comparisons
    run all over it: with 50,000 numbers that alone doubles the time.

    >>> ranked = Ranked([3.0, 1.0, 2.0])
    >>> ranked.add(2.0)
    >>> ranked.remove(3.0)
    >>> list(ranked), ranked[0], len(ranked)
    ([1.0, 2.0, 2.0], 1.0, 3)
    """

    __slots__ = ("_greatest", "_pieces", "_size")

    def __init__(self, numbers: Iterable[float] = ()) -> None:
        ordered = array("d", sorted(numbers))
        self._size = len(ordered)
        self._pieces = [ordered[i : i + MOST // 2] for i in range(0, len(ordered), MOST // 2)] or [array("d")]
        self._greatest = [piece[-1] for piece in self._pieces if piece]
        """The greatest number of each piece; of none where there are no numbers."""

    def add(self, number: float) -> None:
        greatest = self._greatest
        self._size += 1
        if not greatest:
            self._pieces[0].append(number)
            greatest.append(number)
            return
        i = bisect_left(greatest, number)
        if i == len(greatest):
            i -= 1
            greatest[i] = number
        piece = self._pieces[i]
        insort(piece, number)
        if len(piece) > MOST:
            self._pieces[i : i + 1] = [piece[: MOST // 2], piece[MOST // 2 :]]
            greatest[i : i + 1] = [piece[MOST // 2 - 1], piece[-1]]

    def remove(self, number: float) -> None:
        """Take away one of this size. Raises ValueError where there is none."""
        greatest = self._greatest
        i = bisect_left(greatest, number)
        piece = self._pieces[i] if i < len(greatest) else array("d")
        at = bisect_left(piece, number)
        if at == len(piece) or piece[at] != number:
            raise ValueError(f"{number} is not among them")
        del piece[at]
        self._size -= 1
        if piece:
            greatest[i] = piece[-1]
        else:
            del greatest[i]
            if len(self._pieces) > 1:
                del self._pieces[i]

    def whole(self) -> Sequence[float]:
        """The same to read from, more quickly where there is but one piece, until a number comes or goes."""
        return self._pieces[0] if len(self._pieces) == 1 else self

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, at: int) -> float: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[float]: ...
    def __getitem__(self, at: int | slice) -> float | Sequence[float]:
        if isinstance(at, slice):
            return list(self)[at]
        rest = at if at >= 0 else at + self._size
        if rest >= 0:
            for piece in self._pieces:
                size = len(piece)
                if rest < size:
                    return piece[rest]
                rest -= size
        raise IndexError(at)

    def __iter__(self) -> Iterator[float]:
        for piece in self._pieces:
            yield from piece
