"""The least and the greatest of a window."""

from __future__ import annotations

from collections import deque

from vitalsdsl.kernels.deferred import Deferred


class Extremes(Deferred):
    """Two queues of candidates: a point that is neither newer nor more extreme than another can never be the answer."""

    with_infinite = True

    def clear(self) -> None:
        self._lows: deque[float] = deque()
        self._highs: deque[float] = deque()

    def add(self, step: int, value: float) -> None:
        lows, highs = self._lows, self._highs
        while lows and lows[-1] > value:
            lows.pop()
        lows.append(value)
        while highs and highs[-1] < value:
            highs.pop()
        highs.append(value)

    def drop(self, step: int, value: float) -> None:
        if self._lows and self._lows[0] == value:
            self._lows.popleft()
        if self._highs and self._highs[0] == value:
            self._highs.popleft()

    def least(self) -> float:
        self.learn()
        return self._lows[0]

    def greatest(self) -> float:
        self.learn()
        return self._highs[0]
