"""lr: change the learning rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vitalsdsl.actions.base import Accepts, Action, Effect, Parameter


class Lr(Action):
    """Multiply the learning rate, on top of whatever its schedule says, from the next step boundary on."""

    name = "lr"
    effect = Effect.REQUEST
    parameters = (Parameter("factor", Accepts.RATIO, required=True, example="50%"),)
    announced = True
    asks = "lr_scale"

    @classmethod
    def requested(cls, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {"lr_factor": arguments["factor"]}
