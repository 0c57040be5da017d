"""pause: stop at the next step boundary and wait for a person."""

from __future__ import annotations

from vitalsdsl.actions.base import Action, Effect


class Pause(Action):
    """Save a checkpoint, stop at the next step boundary, wait for a person. The checkpoint counts as suspect."""

    name = "pause"
    effect = Effect.REQUEST
    rank = 1
    announced = True
    asks = "pause"
