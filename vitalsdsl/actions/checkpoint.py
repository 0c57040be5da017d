"""checkpoint: save now."""

from __future__ import annotations

from vitalsdsl.actions.base import Action, Effect


class Checkpoint(Action):
    """Save a checkpoint at the next step boundary and go on."""

    name = "checkpoint"
    effect = Effect.REQUEST
    asks = "save"
