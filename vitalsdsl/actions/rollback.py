"""rollback: back to the newest healthy checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vitalsdsl.actions.base import Accepts, Action, Effect, Parameter


class Rollback(Action):
    """Back to the newest healthy checkpoint, the learning rate lowered, the data position kept.

    `lr` is what the learning rate is multiplied by, 90% unless said otherwise (100% leaves it alone). `skip` passes
    over that many steps' batches beyond the position at which the rule tripped; without it the training side's own
    setting counts.
    """

    name = "rollback"
    effect = Effect.REQUEST
    parameters = (
        Parameter("lr", Accepts.RATIO, default=0.9, most=1.0, example="90%"),
        Parameter("skip", Accepts.STEPS, example="500 steps"),
    )
    rank = 2
    announced = True
    asks = "rollback"

    @classmethod
    def requested(cls, arguments: Mapping[str, Any]) -> dict[str, Any]:
        params: dict[str, Any] = {"target": "last_healthy", "lr_factor": arguments["lr"]}
        if arguments.get("skip") is not None:
            params["skip_batches"] = int(arguments["skip"])
        return params
