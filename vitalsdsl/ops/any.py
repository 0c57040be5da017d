"""any: whether a condition is true for a member of a family."""

from __future__ import annotations

from vitalsdsl.ground.types import Kind
from vitalsdsl.ops.base import Aggregate, Parameter, Takes


class AnyOfMembers(Aggregate):
    """True where the condition is true for one member of a family or more: `any(act_absmax/layer_* > 1e4)`.

    False where it is false for all; else unknown, also over a family without members. Windows, `usual`, `baseline` and
    `for` inside the brackets run member by member.

    `any(x/* > 5) for 20 steps` is true while some member is above, each step perhaps another one. For one member that
    stays above put the span inside: `any(x/* > 5 for 20 steps)`.

    >>> AnyOfMembers.value([False, None, True]), AnyOfMembers.value([False, None]), AnyOfMembers.value([False, False])
    (True, None, False)
    """

    name = "any"
    parameters = (Parameter("F", Takes.CONDITION),)
    result = Kind.CONDITION
    example = "when any(act_absmax/layer_* > 1e4 for 2 samples) -> orange"

    @staticmethod
    def value(members: list[bool | None]) -> bool | None:
        return True if True in members else None if None in members else False
