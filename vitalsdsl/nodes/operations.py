"""The nodes of a plan that work something out at one step: sums, comparisons, conditions, functions over members."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from vitalsdsl.ground.types import Reason
from vitalsdsl.nodes.base import Clock, MetricNode, Node


class Elementwise(Node):
    """A function of values at one step."""

    __slots__ = ("compute",)

    def __init__(self, text: str, inputs: Sequence[Node], compute: Callable[..., Any]) -> None:
        super().__init__(text, inputs)
        self.compute = compute

    def run(self, step: int, time: float) -> None:
        self.value = self.compute(*[node.value for node in self.inputs])


class ElementwiseCondition(Elementwise):
    """`surely(c)`."""

    __slots__ = ()
    is_condition = True


def _divide(left: float, right: float) -> float:
    return left / right if right != 0.0 else math.nan


ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
}


class Pair(Node):
    """Of two inputs."""

    __slots__ = ()

    @property
    def left(self) -> Node:
        return self.inputs[0]

    @property
    def right(self) -> Node:
        return self.inputs[1]


class Arithmetic(Pair):
    """Two numbers. An infinite result of finite numbers is undefined."""

    __slots__ = ("compute", "symbol")

    def __init__(self, text: str, symbol: str, left: Node, right: Node) -> None:
        super().__init__(text, (left, right))
        self.symbol = symbol
        self.compute = ARITHMETIC[symbol]

    def run(self, step: int, time: float) -> None:
        one, other = self.inputs
        left, right = one.value, other.value
        value = self.compute(left, right)
        if value - value != 0.0 and value == value and left - left == 0.0 and right - right == 0.0:
            value = math.nan
        self.value = value

    def why(self) -> Reason:
        if self.left.is_unknown or self.right.is_unknown:
            return super().why()
        finite = math.isfinite(self.left.value) and math.isfinite(self.right.value)
        return Reason.UNDEFINED if finite or self.right.value == 0 else Reason.NONFINITE


class ArithmeticChain(Node):
    """More than two numbers, from the left to the right, each step as `Arithmetic` takes it."""

    __slots__ = ("steps", "symbols")

    def __init__(self, text: str, symbols: Sequence[str], operands: Sequence[Node]) -> None:
        super().__init__(text, operands)
        self.symbols = tuple(symbols)
        self.steps = list(zip([ARITHMETIC[symbol] for symbol in symbols], self.inputs[1:]))

    def run(self, step: int, time: float) -> None:
        left = self.inputs[0].value
        for compute, operand in self.steps:
            right = operand.value
            value = compute(left, right)
            if value - value != 0.0 and value == value and left - left == 0.0 and right - right == 0.0:
                value = math.nan
            left = value
        self.value = left

    def why(self) -> Reason:
        if any(node.is_unknown for node in self.inputs):
            return super().why()
        # As soon as a step of finite numbers is unknown, that is the reason; else infinities met.
        left = self.inputs[0].value
        for compute, operand in self.steps:
            right = operand.value
            value = compute(left, right)
            if not math.isfinite(value):
                finite = math.isfinite(left) and math.isfinite(right)
                if finite or (value != value and right == 0):
                    return Reason.UNDEFINED
            left = value
        return Reason.NONFINITE


class Negative(Node):
    """-x."""

    __slots__ = ()

    def run(self, step: int, time: float) -> None:
        self.value = -self.inputs[0].value


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}


class Comparison(Pair):
    """`a > b`: unknown where a side is."""

    __slots__ = ("compare", "symbol")
    is_condition = True

    def __init__(self, text: str, symbol: str, left: Node, right: Node) -> None:
        super().__init__(text, (left, right))
        self.symbol = symbol
        self.compare = COMPARISONS[symbol]

    def run(self, step: int, time: float) -> None:
        one, other = self.inputs
        left, right = one.value, other.value
        self.value = None if left != left or right != right else self.compare(left, right)


class And(Node):
    """Kleene: false where one is false, else unknown where one is unknown."""

    __slots__ = ()
    is_condition = True

    def run(self, step: int, time: float) -> None:
        value: bool | None = True
        for node in self.inputs:
            if node.value is False:
                value = False
                break
            if node.value is None:
                value = None
        self.value = value


class Or(Node):
    """Kleene: true where one is true, else unknown where one is unknown."""

    __slots__ = ()
    is_condition = True

    def run(self, step: int, time: float) -> None:
        value: bool | None = False
        for node in self.inputs:
            if node.value is True:
                value = True
                break
            if node.value is None:
                value = None
        self.value = value


class Not(Node):
    """True where the condition is false; unknown stays unknown."""

    __slots__ = ()
    is_condition = True

    def run(self, step: int, time: float) -> None:
        value = self.inputs[0].value
        self.value = None if value is None else not value


class AtLeast(Node):
    """`2 of (…)`: false only where it would be false even if every unknown were true."""

    __slots__ = ("count",)
    is_condition = True

    def __init__(self, text: str, inputs: Sequence[Node], count: int) -> None:
        super().__init__(text, inputs)
        self.count = count

    def run(self, step: int, time: float) -> None:
        values = [node.value for node in self.inputs]
        true = values.count(True)
        self.value = True if true >= self.count else False if true + values.count(None) < self.count else None


IS_STATE: dict[str, Callable[[float], bool]] = {
    "nan": lambda x: x != x,
    "inf": math.isinf,
    "finite": math.isfinite,
}


class Is(Node):
    """`x is nan`: about the newest raw point; unknown only where there is none."""

    __slots__ = ("metric", "negated", "test")
    is_condition = True

    def __init__(self, text: str, metric: MetricNode, state: str, negated: bool) -> None:
        super().__init__(text, (metric,))
        self.metric = metric
        self.test = IS_STATE[state]
        self.negated = negated

    def run(self, step: int, time: float) -> None:
        known = self.metric.step is not None
        self.value = self.test(self.metric.value) != self.negated if known else None

    def why(self) -> Reason:
        return Reason.ABSENT


class Missing(Node):
    """`missing x for D`: no point of x for that long."""

    __slots__ = ("by_time", "clock", "counts_from_start", "limit", "target")
    is_condition = True

    def __init__(
        self, text: str, target: Any, limit: float, by_time: bool, clock: Clock, counts_from_start: bool
    ) -> None:
        super().__init__(text, (target,))
        self.target = target
        self.limit = limit
        self.by_time = by_time
        self.clock = clock
        self.counts_from_start = counts_from_start

    def needs_every_step(self) -> bool:
        return True

    def run(self, step: int, time: float) -> None:
        newest, newest_time = self.target.step, self.target.time
        if newest is None and self.counts_from_start:
            newest, newest_time = self.clock.first_step, self.clock.first_time
        if newest is None:
            self.value = None
        elif self.by_time:
            age = time - newest_time
            self.value = None if age != age else age >= self.limit
        else:
            self.value = step - newest >= self.limit

    def why(self) -> Reason:
        return Reason.ABSENT


class Stalled(Node):
    """`stalled for D`: false at every close; true when the clock finds the run silent for that long."""

    __slots__ = ("limit", "now")
    is_condition = True

    def __init__(self, text: str, limit: float) -> None:
        super().__init__(text)
        self.limit = limit
        self.now = False

    def run(self, step: int, time: float) -> None:
        self.value = self.now


class AggregateNode(Node):
    """A function over the members of a family; members join as they are first logged."""

    __slots__ = ("compute", "members", "of_conditions")

    def __init__(self, text: str, compute: Callable[[list[Any]], Any], of_conditions: bool) -> None:
        super().__init__(text)
        self.inputs: list[Node] = []
        self.pacers = self.inputs
        self.compute = compute
        self.of_conditions = of_conditions
        self.members: dict[str, Node] = {}

    def join(self, star: str, node: Node) -> None:
        self.members[star] = node
        self.inputs.append(node)

    def run(self, step: int, time: float) -> None:
        values = [node.value for node in self.members.values()]
        unknown = None if self.is_condition else math.nan
        if self.of_conditions:
            self.value = unknown if all(v is None for v in values) else self.compute(values)
        else:
            known = [v for v in values if v == v]
            self.value = self.compute(known) if known else unknown

    def why(self) -> Reason:
        return super().why() if self.members else Reason.ABSENT


class AggregateCondition(AggregateNode):
    """`any`, `all`."""

    __slots__ = ()
    is_condition = True


class Stream(Protocol):
    """A metric or let: its newest point, and the step of that."""

    value: Any
    step: int | None


class Share(Node):
    """`share(F, of: G)`: unknown until every member known so far has reported at this step."""

    __slots__ = ("compute", "of", "parts")

    def __init__(self, text: str, compute: Callable[[list[float], list[float]], float]) -> None:
        super().__init__(text)
        self.inputs: list[Node] = []
        self.pacers = self.inputs
        self.compute = compute
        self.parts: list[Stream] = []
        self.of: list[Stream] = []

    def run(self, step: int, time: float) -> None:
        members = (*self.parts, *self.of)
        if not self.parts or not self.of or any(m.step != step for m in members):
            self.value = math.nan
        else:
            self.value = self.compute([m.value for m in self.parts], [m.value for m in self.of])

    def why(self) -> Reason:
        return Reason.ABSENT
