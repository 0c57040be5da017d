"""all: whether a condition is true for every member of a family."""

from __future__ import annotations

from vitalsdsl.ground.types import Kind
from vitalsdsl.ops.base import Aggregate, Parameter, Takes


class AllOfMembers(Aggregate):
    """True where the condition is true for every member of a family that has been logged so far.

    False where it is false for one; else unknown, also over a family without members. Windows, `usual`, `baseline` and
    `for` inside the brackets run member by member.

    One member that stopped reporting can keep it unknown for ever; `count(x/* > 5)` beside a number leaves it out.

    >>> AllOfMembers.value([True, True]), AllOfMembers.value([True, None]), AllOfMembers.value([None, False])
    (True, None, False)
    """

    name = "all"
    parameters = (Parameter("F", Takes.CONDITION),)
    result = Kind.CONDITION
    example = "when all(grad_norm/layer_* < 1e-6) for 20 steps -> orange"

    @staticmethod
    def value(members: list[bool | None]) -> bool | None:
        return False if False in members else None if None in members else True
