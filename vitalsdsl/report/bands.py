"""The level of a run as stretches of steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vitalsdsl.language.rules import Level


@dataclass(frozen=True)
class Band:
    """From one step to another the run stood at a level."""

    first: int
    last: int
    level: Level


class Bands:
    """The stretches of one run. Where it went back to a step, what came after that step is as if it had not been."""

    def __init__(self) -> None:
        self._bands: list[Band] = []

    def see(self, step: int, level: Level) -> None:
        """The run stands at a level at a closed step."""
        last = self._bands[-1] if self._bands else None
        if last is not None and last.level is level:
            self._bands[-1] = Band(last.first, step, level)
            return
        if last is not None:
            self._bands[-1] = Band(last.first, step, last.level)
        self._bands.append(Band(step, step, level))

    def rewind(self, to: int) -> None:
        """The run went back to a step."""
        self._bands = [Band(b.first, min(b.last, to), b.level) for b in self._bands if b.first <= to]

    def __iter__(self) -> Iterator[Band]:
        return iter(self._bands)

    def share(self, level: Level) -> float:
        """Which part of the run's steps stood at a level, 0 to 1.

        >>> bands = Bands()
        >>> for step, level in ((0, Level.GREEN), (75, Level.YELLOW), (100, Level.YELLOW)):
        ...     bands.see(step, level)
        >>> bands.share(Level.GREEN), bands.share(Level.YELLOW)
        (0.75, 0.25)
        """
        whole = sum(band.last - band.first for band in self._bands)
        return sum(b.last - b.first for b in self._bands if b.level is level) / whole if whole else 0.0
