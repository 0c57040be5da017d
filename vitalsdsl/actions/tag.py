"""tag: mark the run."""

from __future__ import annotations

from vitalsdsl.actions.base import Action, Effect


class Tag(Action):
    """The run carries its level (`vitals:orange`) and the rules that fire, for as long as they do."""

    name = "tag"
    effect = Effect.TAG
