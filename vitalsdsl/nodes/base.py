"""What a plan is made of: nodes that hold their value at the step that closes.

A number is a float, unknown NaN; a condition is True, False or None. `run` is called once at each closed step at which
something above needs the value, after its inputs. Reasons and margins are worked out only when somebody asks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from vitalsdsl.ground.types import Reason
from vitalsdsl.kernels.state import State


class Clock:
    """The step that closes, its time, and the run's own counters."""

    __slots__ = ("counters", "first_step", "first_time", "step", "time", "total_steps")

    def __init__(self) -> None:
        self.step = -1
        self.time = math.nan
        self.first_step: int | None = None
        self.first_time = math.nan
        self.total_steps = math.nan
        self.counters: dict[str, float] = {}

    def counter(self, name: str) -> float:
        if name == "step":
            return float(self.step)
        if name == "elapsed":
            return self.time - self.first_time
        value = self.counters.get(name, math.nan)
        if name == "progress" and value != value:
            total = (
                self.counters.get("total_steps", math.nan) if self.total_steps != self.total_steps else self.total_steps
            )
            return self.step / total if total > 0 else math.nan
        return value


class Node:
    """The base. `inputs` run before this node; `pacers` are those whose metrics say when it is evaluated."""

    __slots__ = ("inputs", "pacers", "text", "value")

    is_root: ClassVar[bool] = False
    """A root is evaluated at its own pace and keeps its value between; all other nodes go with what stands round them."""
    is_condition: ClassVar[bool] = False

    def __init__(self, text: str, inputs: Sequence[Node] = (), pacers: Sequence[Node] | None = None) -> None:
        self.text = text
        self.inputs: Sequence[Node] = tuple(inputs)
        self.pacers: Sequence[Node] = self.inputs if pacers is None or pacers == inputs else tuple(pacers)
        self.value: Any = None if self.is_condition else math.nan

    def run(self, step: int, time: float) -> None:
        raise NotImplementedError

    def own_reads(self) -> frozenset[str]:
        """The metrics that this node itself reads."""
        return frozenset()

    def needs_every_step(self) -> bool:
        """Whether time alone can change it (`missing`)."""
        return False

    @property
    def is_unknown(self) -> bool:
        return self.value is None or self.value != self.value

    def why(self) -> Reason:
        """The reason of an unknown: its own, or that of the first unknown input."""
        for node in self.inputs:
            if node.is_unknown:
                return node.why()
        return Reason.UNDEFINED


class Constant(Node):
    """A number that the policy fixes."""

    __slots__ = ()

    def __init__(self, text: str, value: float) -> None:
        super().__init__(text)
        self.value = value

    def run(self, step: int, time: float) -> None:
        """Nothing changes it."""


class MetricNode(Node):
    """The newest point of a metric. Its points go to `subscribers` as they are, NaN and ±inf included."""

    __slots__ = ("name", "own_step", "step", "subscribers", "time")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name
        self.step: int | None = None
        self.own_step: int | None = None
        self.time = math.nan
        self.subscribers: list[Callable[[int, float, float], None]] = []

    def receive(self, step: int, time: float, value: float, own_step: int) -> None:
        self.step, self.own_step, self.time, self.value = step, own_step, time, value
        for push in self.subscribers:
            push(step, time, value)

    def run(self, step: int, time: float) -> None:
        """`receive` has done it."""

    def own_reads(self) -> frozenset[str]:
        return frozenset((self.name,))

    def why(self) -> Reason:
        return Reason.ABSENT if self.step is None else Reason.NONFINITE

    def save(self) -> list[Any]:
        return [self.step, self.own_step, self.time, self.value]

    def load(self, saved: list[Any]) -> None:
        self.step, self.own_step, self.time, self.value = saved


Limit = tuple[MetricNode, float, bool]
"""A metric, how old its newest point may be, and whether that is in seconds."""


class Fresh(Node):
    """A metric or let that is unknown once one of the metrics behind it is too old."""

    __slots__ = ("limits", "source")

    def __init__(self, source: Node) -> None:
        super().__init__(source.text, (source,))
        self.source = source
        self.limits: list[Limit] = []

    def is_stale(self, step: int, time: float) -> bool:
        for metric, limit, by_time in self.limits:
            if metric.step is not None and (time - metric.time if by_time else step - metric.step) > limit:
                return True
        return False

    def run(self, step: int, time: float) -> None:
        self.value = math.nan if self.is_stale(step, time) else self.source.value

    def why(self) -> Reason:
        return self.source.why() if self.source.is_unknown else Reason.STALE


class CounterNode(Node):
    """`step`, `epoch`, …: the run's own counters; they set no pace."""

    __slots__ = ("clock",)

    def __init__(self, name: str, clock: Clock) -> None:
        super().__init__(name)
        self.clock = clock

    def run(self, step: int, time: float) -> None:
        self.value = self.clock.counter(self.text)

    def why(self) -> Reason:
        return Reason.ABSENT


class Shown(Node):
    """An event, phase or let as an expression reads it: its latest value. A phase sets no pace."""

    __slots__ = ("is_number", "source")

    def __init__(self, text: str, source: Node, sets_pace: bool = True) -> None:
        super().__init__(text, (source,), None if sets_pace else ())
        self.source = source
        self.value = source.value

    def run(self, step: int, time: float) -> None:
        self.value = self.source.value

    def why(self) -> Reason:
        return self.source.why()


class ShownCondition(Shown):
    """An event or a phase as a condition reads it."""

    __slots__ = ()
    is_condition = True


class Function(Node):
    """A function with a memory, read at the close of a step."""

    __slots__ = ("call", "event", "read", "state", "step", "streams", "time")

    def __init__(
        self,
        text: str,
        inputs: Sequence[Node],
        pacers: Sequence[Node],
        state: State,
        read: Callable[[int, float], Any] | None,
        streams: Sequence[Node] = (),
        call: tuple[Any, Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__(text, inputs, pacers)
        self.state = state
        self.read = read
        """None where the function reads its window at each step by what it says of itself: most calls, and the smallest."""
        self.streams = self.inputs if streams == inputs else tuple(streams)
        """Where the points of its memory come from."""
        self.call = call
        """The function of the language that it is a call of, and what is fixed at load; None of `x before D`."""
        self.event: Any = None
        """The event at whose edges it has its points, where that is so."""
        self.step, self.time = -1, math.nan

    def run(self, step: int, time: float) -> None:
        self.step, self.time = step, time
        read = self.read
        if read is not None:
            self.value = read(step, time)
        else:
            function, arguments = self.call  # type: ignore[misc]
            self.value = function.at(self.state, arguments, step, time)

    def why(self) -> Reason:
        return self.state.reason(self.step, self.time)


class ConditionFunction(Function):
    """A function that gives a condition: `rising`, `monotone_up`."""

    __slots__ = ()
    is_condition = True
