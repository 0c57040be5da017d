"""usual: what x usually is, learnt only while nothing is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vitalsdsl.ground.types import Extent
from vitalsdsl.kernels.accepted import Accepted
from vitalsdsl.ops.base import WINDOW, Arguments, Parameter, Stateful, Takes, X

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column, Rows
    from vitalsdsl.kernels.pieces import InReference, Piece
    from vitalsdsl.kernels.sliding import Windows
    from vitalsdsl.kernels.spread_out import Points

UNLESS = Parameter("unless", Takes.FREEZING, keyword=True, required=False)


class Usual(Stateful):
    """What x usually is: the median of the accepted points of the last W steps, samples or time, in x's own unit.

    Points are accepted while the conditions that use the reference are false: in a rule its `when` conditions, in an
    event the event's own, or what `unless:` names. So the reference freezes during an anomaly, and a slow anomaly
    cannot teach the rule that it is normal. It does not freeze for ever: when the condition has gone on for four times
    W, and for twice each `for` and `after` of the rule, points are let in again, and a lasting new level is learnt.

    NaN and ±inf are never accepted. Unknown until W has been lived since x's first point (W samples: until that many
    are accepted) and five accepted points are in the window. What is read at a step is made of earlier steps' points.

    In a `let` the freezing condition must be named. A condition that is true in healthy running (`recovered`) must name
    another with `unless`, or the reference never learns.

    >>> from vitalsdsl.kernels.accepted import Accepted
    >>> from vitalsdsl.ground.types import Extent
    >>> reference = Accepted(Extent(5, "steps"))
    >>> for step, x in enumerate([1.0, 1.2, 1.1, 1.0, 1.3, 9.0]):
    ...     reference.push(step, 0.0, x)
    ...     print(reference.usual(step, 0.0))
    ...     reference.decide(accept=x < 5)
    nan
    nan
    nan
    nan
    nan
    1.1
    """

    name = "usual"
    phrase = "what {x} usually is ({W})"
    parameters = (X, WINDOW, UNLESS)
    example = "when loss > 1.5 * usual(loss, 500 steps) for 5 steps -> yellow"

    @classmethod
    def warm_up(cls, arguments: Arguments) -> tuple[Extent, ...]:
        return (arguments["W"],)  # what is read at a step is made of earlier steps' points

    @classmethod
    def sharing(cls, arguments: Arguments) -> tuple[Any, ...]:
        return ("accepted", arguments["W"])

    @classmethod
    def new(cls, arguments: Arguments) -> Accepted:
        return Accepted(arguments["W"])

    @classmethod
    def reader(cls, state: Accepted, arguments: Arguments) -> Callable[[int, float], float]:
        return state.usual

    @classmethod
    def columns(cls, points: Points, rows: Rows, arguments: Arguments) -> Column | None:
        return cls.over(cls.windows(points, rows, arguments), arguments)

    @classmethod
    def windows(cls, points: Points, rows: Rows, arguments: Arguments) -> Windows:
        return points.accepted(rows, arguments["W"])

    @classmethod
    def over(cls, windows: Windows, arguments: Arguments) -> Column | None:
        return windows.usual()

    @classmethod
    def ahead(cls, reference: InReference) -> Piece:
        """How generated code finds it, near enough to say of most comparisons how they come out."""
        return reference.usual()
