"""How often and how far a run may go back, and past how much data, before a person is asked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vitalsdsl_torch.history import Turn

_OF_ONE_TROUBLE = 3
"""How many times `skip` two rollbacks for one trouble pass over: the second passes over twice as much."""


@dataclass(frozen=True)
class Limits:
    """At most `total` rollbacks in a run, and `window` within `per` updates (those that were taken back count as well).

    Trouble before the run has come `near` steps past the furthest step at which it was in trouble before is the same
    trouble again: the second time the run goes back one healthy checkpoint further, passes over twice as much data and
    lowers the rate to 80% instead of what was asked; the third time it pauses. The learning rate's factor never comes
    below `floor`.

    Of the data a share `passed` may be passed over without ever having been trained on: of the batches of all steps that
    are planned, or of those made so far where that is not known or more; but never less than three times what one
    rollback passes over by default (`Guard(skip=)`), which is what one trouble may take by the second time. Nor does a
    run go back more than `back` steps, but to a checkpoint that a person names.
    """

    total: int = 3
    window: int = 2
    per: int = 5_000
    near: int = 500
    floor: float = 0.5
    passed: float = 0.01
    back: int = 5_000

    def ladder(self, rollbacks: Sequence[Turn], trip_step: int) -> int:
        """Which time this is for the same trouble: 1 is the first."""
        count, furthest = 0, -math.inf
        for trip in [*(turn.trip_step for turn in rollbacks), trip_step]:
            count = count + 1 if trip <= furthest + self.near else 1
            furthest = trip if count == 1 else max(furthest, trip)
        return count

    def too_much(self, rollbacks: Sequence[Turn], passing: int, steps: float, skip: int, batches_a_step: int) -> str:
        """Why `passing` more batches are not passed over, in a run of so many steps; nothing where they may be."""
        budget = int(max(self.passed * steps, _OF_ONE_TROUBLE * skip) * batches_a_step)
        before = sum(turn.passed_over for turn in rollbacks)
        if not passing or before + passing <= budget:
            return ""
        beside = f" beside the {before} that were" if before else ""
        return f"it would pass over {passing} batches{beside}, and of this run no more than {budget} may be"

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
