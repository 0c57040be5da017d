"""How often a run may go back before a person is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vitalsdsl_torch.history import Turn


@dataclass(frozen=True)
class Limits:
    """At most `total` rollbacks in a run, and `window` within `per` updates (those that were taken back count as well).

    Trouble within `near` steps of where an earlier rollback was for is the same trouble again: the second time the run
    goes back one healthy checkpoint further, passes over twice as much data and lowers the rate to 80% instead of what
    was asked; the third time it pauses. The learning rate's factor never comes below `floor`.
    """

    total: int = 3
    window: int = 2
    per: int = 5_000
    near: int = 500
    floor: float = 0.5

    def ladder(self, rollbacks: Sequence[Turn], trip_step: int) -> int:
        """Which time this is for the same trouble: 1 is the first."""
        count = 1
        for turn in reversed(rollbacks):
            if trip_step > turn.trip_step + self.near:
                break
            count += 1
        return count

    def spent(self, rollbacks: Sequence[Turn], trip_step: int, lived: int, factor: float) -> str:
        """Why no further rollback is made; nothing where one may be."""
        if len(rollbacks) >= self.total:
            return f"the run has gone back {len(rollbacks)} times"
        recent = sum(lived - turn.lived < self.per for turn in rollbacks)
        if recent >= self.window:
            return f"the run has gone back {recent} times within {self.per} steps"
        if self.ladder(rollbacks, trip_step) > 2:
            return "going back twice did not get the run past this"
        if rollbacks and factor <= self.floor:
            return f"the learning rate is at {factor:.0%} already"
        return ""

    def lowered(self, factor: float, by: float) -> float:
        """A factor after it was multiplied, not below the floor, and not raised by that either.

        >>> Limits().lowered(1.0, 0.9), Limits().lowered(0.6, 0.5), Limits().lowered(0.4, 0.9)
        (0.9, 0.5, 0.4)
        """
        return max(factor * by, min(self.floor, factor))
