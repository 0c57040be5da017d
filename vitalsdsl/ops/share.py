"""share: what part of a total some members hold."""

from __future__ import annotations

import math

from vitalsdsl.ground.types import Kind
from vitalsdsl.kernels.exact import total
from vitalsdsl.ops.base import Function, Parameter, Takes


class Share(Function):
    """The sum over one family as a share of the sum over another: `share(dropped/*, of: tokens/*)`. A ratio: 5% is 0.05.

    Unknown until every member known so far, of both families, has reported at this step, so that half a report is never
    taken for the whole; and where the second sum is 0.

    For the share of members for which something is true write `count(F > 5) / count(F >= 0)`; for the share of time,
    `fraction(cond, W)`.

    >>> Share.value([1.0, 2.0], [10.0, 10.0]), Share.value([1.0], [0.0])
    (0.15, nan)
    """

    name = "share"
    parameters = (Parameter("F", Takes.STREAM), Parameter("of", Takes.STREAM, keyword=True))
    result = Kind.RATIO
    example = "when share(dropped_tokens/rank_*, of: tokens/rank_*) > 1% for 10 steps -> yellow"

    @staticmethod
    def value(numerators: list[float], denominators: list[float]) -> float:
        """NaN where it is undefined."""
        part, whole = total(numerators), total(denominators)
        share = part / whole if whole else math.nan
        return share if share - share == 0.0 or math.isinf(part) else math.nan
