"""Going back: to which checkpoint, past which data, and when a person is asked instead."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from vitalsdsl.ground.errors import UsageError
from vitalsdsl.ground.points import number
from vitalsdsl_torch.checkpoint import Checkpoint
from vitalsdsl_torch.history import Turn
from vitalsdsl_torch.limits import Limits
from vitalsdsl_torch.requests import Asked
from vitalsdsl_torch.training import Training


class NotPossible(Exception):
    """A rollback that is not made; its text says why. Raised while it is planned, before anything has changed."""


@dataclass(frozen=True)
class Plan:
    """A rollback that can be made: all of it decided, the target read, nothing done."""

    turn: Turn
    target: Checkpoint
    remark: str = ""


_MILDER = 0.8
"""By what the second rollback for the same trouble lowers the rate, unless more was asked."""


def planned(asked: Asked, training: Training, limits: Limits, skip: int) -> Plan:
    """What a request for a rollback comes to. `skip` is how many steps' batches are passed over beyond the one at
    which the rule tripped, where the request does not say.

    The data is kept: it goes on where it is, or at the end of the bad stretch, whichever is later. Raises NotPossible.
    """
    history = training.history
    rollbacks = history.rollbacks
    trip = training.done if asked.trip_step is None else min(asked.trip_step, training.done)
    if not training.has_data:
        raise NotPossible("the guard was given no data, and could not get past the bad batches")
    ladder = limits.ladder(rollbacks, trip)
    remark = _of_the_state(rollbacks[-1], trip) if ladder > 1 else ""
    spent = limits.spent(rollbacks, trip, training.lived, history.factor)
    if spent:
        raise NotPossible("; ".join(filter(None, (spent, remark))))
    position = training.position
    tripped_at = training.position_at(trip)
    end = number(asked.params.get("skip_until_data_pos"))
    if end is None:
        steps = number(asked.params.get("skip_batches"))
        steps = skip if steps is None else steps
        end = tripped_at + steps * ladder * training.batches_a_step
    passing = max(0, int(end) - position)
    steps = max(training.lived, training.planned if math.isfinite(training.planned) else 0)
    beyond = limits.too_much(rollbacks, passing, steps, skip, training.batches_a_step)
    if beyond:
        raise NotPossible(beyond)
    target = _target(asked, training, rollbacks[-1].step if ladder > 1 else None, limits.back)
    by = asked.params["lr_factor"] if ladder == 1 else min(asked.params["lr_factor"], _MILDER)
    turn = Turn(
        history.attempt + 1, target.step, target.id, asked.id, target.position or 0, max(position, int(end)),
        tripped_at, trip, limits.lowered(history.factor, by), training.lived, ladder, position,
    )  # fmt: skip
    return Plan(turn, target, remark)


def _of_the_state(last: Turn, trip: int) -> str:
    """What it means that a run trips again although it went on in other data: about where it did before, rather than at once
    or elsewhere, it is the state and not the data that brings it about. About there is within half of the way back."""
    if 2 * abs(trip - last.trip_step) > last.trip_step - last.step:
        return ""
    return f"other data, and about the same step as before ({last.trip_step}): the trouble is in the state, not in the data"


def _target(asked: Asked, training: Training, below: int | None, back: int) -> Checkpoint:
    """The newest that is healthy, before the step `below`, and as it was written; or the one that was asked for. One that
    is more than `back` steps away is for a person to name."""
    wanted = str(asked.params.get("target") or "last_healthy")
    ring = training.ring
    onset = training.done if asked.onset is None else asked.onset
    if wanted == "last_healthy":
        candidates: Iterable[Checkpoint] = [
            one for one in ring.healthy() if one.step < onset and (below is None or one.step < below)
        ]
        lacking = "there is no healthy checkpoint from before it began"
    else:
        candidates = [one for one in ring.usable() if wanted in (one.id, f"step:{one.step}")]
        lacking = f"there is no checkpoint `{wanted}`"
    for one in candidates:
        away = training.done - one.step
        if away > back and (asked.rule or wanted == "last_healthy"):
            raise NotPossible(f"{one.id} would do, and is {away} steps back: more than {back} is for a person to ask, by its name")  # fmt: skip
        try:
            is_read = training.read(one)
        except UsageError as error:
            raise NotPossible(str(error)) from error
        if is_read:
            return one
    raise NotPossible(lacking)


def result(plan: Plan, before: float) -> dict[str, Any]:
    """What the answer to the request says of it."""
    turn = plan.turn
    return {
        "checkpoint": turn.checkpoint, "restored_step": turn.step, "segment": turn.attempt,
        "data_pos_after": turn.position, "lr_before": before, "lr_after": turn.factor,
    }  # fmt: skip
