"""stop: end the run."""

from __future__ import annotations

from vitalsdsl.actions.base import Action, Effect


class Stop(Action):
    """End the run in good order at the next step boundary."""

    name = "stop"
    effect = Effect.REQUEST
    rank = 3
    announced = True
    asks = "stop"
