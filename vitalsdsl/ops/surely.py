"""surely: whether a condition is known to be true."""

from __future__ import annotations

from vitalsdsl.ground.types import Kind
from vitalsdsl.ops.base import CONDITION, Arguments, Elementwise


class Surely(Elementwise):
    """True where a condition is true; false where it is false or unknown.

    For witnesses that not every run logs: `loss > 5 and not surely(rising(lr, 100 steps))` works in a run without `lr`,
    where `not rising(lr, 100 steps)` would be unknown for ever and the rule silent.

    It hides what is unknown, NaN included, so it may not be the whole of a `when` or `clear when`.

    >>> Surely.value(True), Surely.value(False), Surely.value(None)
    (True, False, False)
    """

    name = "surely"
    parameters = (CONDITION,)
    result = Kind.CONDITION
    example = "when loss > 5 and not surely(rising(lr, 100 steps)) for 20 steps -> yellow"

    @classmethod
    def known_from_start(cls, arguments: Arguments) -> bool:
        return True

    @staticmethod
    def value(*operands: bool | None) -> bool:
        return operands[0] is True
