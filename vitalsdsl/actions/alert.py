"""alert: tell people."""

from __future__ import annotations

from vitalsdsl.actions.base import Action, Effect


class Alert(Action):
    """A message on the run, wherever the tracker shows its alerts: which rule, which level, at which step, and why."""

    name = "alert"
    effect = Effect.ALERT
