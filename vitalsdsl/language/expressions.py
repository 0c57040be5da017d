"""What stands inside a condition: frozen objects, each with its place in the file.

Numbers, lengths and conditions share one set of nodes, as they share one grammar; the checker tells them apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ForwardRef, Literal, get_args

from vitalsdsl.ground.source import Span
from vitalsdsl.language import model

if TYPE_CHECKING:
    from pydantic import BaseModel as Base
    from typing_extensions import Self
else:
    Base = model.base()

Unit = Literal["steps", "samples", "epochs", "tokens", "s", "min", "h", "d"]
SECONDS: dict[str, float] = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

_new = object.__new__
_set = object.__setattr__
_known_defaults: dict[type[Node], dict[str, Any]] = {}
_known_inner: dict[type[Node], tuple[str, ...]] = {}


class Node(Base):
    """A piece of a policy, a pydantic model (see `model.base`). Equal pieces at different places are different nodes:
    compare their text instead."""

    model_config = {"frozen": True, "extra": "forbid", "arbitrary_types_allowed": True, "defer_build": True}

    span: Span

    @classmethod
    def build(cls, span: Span, **fields: Any) -> Self:
        """A node from parts already known to be right: what parsers use, since validation would double their time."""
        values = {**(_known_defaults.get(cls) or cls._defaults()), **fields, "span": span}
        node = _new(cls)
        _set(node, "__dict__", values)
        _set(node, "__pydantic_fields_set__", {"span", *fields})
        _set(node, "__pydantic_extra__", None)
        _set(node, "__pydantic_private__", None)
        return node

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """The fields in their order, for `children` goes by it."""
        found = {name: None if f.is_required() else f.get_default() for name, f in cls.model_fields.items()}
        _known_defaults[cls] = found
        return found

    def children(self) -> list[Node]:
        """The nodes directly inside this one, in the order in which they are written."""
        cls, values = self.__class__, self.__dict__
        found: list[Node] = []
        inner = _known_inner.get(cls)
        for name in cls._inner() if inner is None else inner:
            value = values[name]
            if value.__class__ is tuple:
                found += [item for item in value if isinstance(item, Node)]
            elif isinstance(value, Node):
                found.append(value)
        return found

    @classmethod
    def _inner(cls) -> tuple[str, ...]:
        """The fields that hold nodes, by their types: most of what one has are words, numbers and its place."""
        found = tuple(name for name, field in cls.model_fields.items() if _holds_nodes(field.annotation))
        _known_inner[cls] = found
        return found

    def walk(self) -> Iterator[Node]:
        """This node and all nodes inside it, outermost first."""
        stack: list[Node] = [self]
        while stack:
            node = stack.pop()
            yield node
            stack += node.children()[::-1]

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


_SIMPLE = frozenset({"Level", "None", "Source", "Span", "Unit", "bool", "float", "int", "str", "tuple"})


def _holds_nodes(annotation: Any) -> bool:
    """One that names a class that comes later in its file may hold anything. In a plain node each is as it is written."""
    if isinstance(annotation, str):
        return not _SIMPLE.issuperset(re.findall(r"\w+", annotation))
    if isinstance(annotation, ForwardRef) or isinstance(annotation, type) and issubclass(annotation, Node):
        return True
    return any(map(_holds_nodes, get_args(annotation)))


class Expression(Node):
    """Anything with a value: a number, a length, or a condition. `grouped` where it is written in parentheses."""

    grouped: bool = False


class Number(Expression):
    """`3`, `1e-4`, `20k`; with `ratio`, `30%`, whose value is 0.30. `text` is how it was written."""

    value: float
    text: str
    ratio: bool = False


class Length(Expression):
    """`500 steps`, `10 min`: a number with a unit."""

    amount: Number
    unit: Unit

    @property
    def is_time(self) -> bool:
        return self.unit in SECONDS

    @property
    def size(self) -> float:
        """The amount in its unit; times in seconds."""
        return self.amount.value * SECONDS.get(self.unit, 1.0)


class Name(Expression):
    """A metric, let, event, phase, param, counter, or the member name of an `each`."""

    path: str
    quoted: bool = False


class Family(Expression):
    """`act/layer_*` or `act/layer_{0..3}/absmax`: all metrics of that shape."""

    path: str


class Negative(Expression):
    """`-x`."""

    operand: Expression


class Arithmetic(Expression):
    """`a + b - c` or `a * b / c`, from the left to the right: one operator less than operands."""

    operands: tuple[Expression, ...]
    operators: tuple[Literal["+", "-", "*", "/"], ...]

    @property
    def operator(self) -> str:
        """What joins `left` and `right`."""
        return self.operators[-1]

    @property
    def left(self) -> Expression:
        """All but the last operand."""
        if len(self.operands) == 2:
            return self.operands[0]
        inner = self.operands[:-1]
        return Arithmetic.build(inner[0].span.to(inner[-1].span), operands=inner, operators=self.operators[:-1])

    @property
    def right(self) -> Expression:
        """The last operand."""
        return self.operands[-1]


class Comparison(Expression):
    """`a > b`, or a chain such as `0.1 < x < 5`: one operator less than operands."""

    operands: tuple[Expression, ...]
    operators: tuple[str, ...]


class Not(Expression):
    """`not c`."""

    operand: Expression


class And(Expression):
    """`a and b and c`."""

    operands: tuple[Expression, ...]


class Or(Expression):
    """`a or b or c`."""

    operands: tuple[Expression, ...]


class Is(Expression):
    """`x is nan`, `x is not finite`: looks at a metric's newest raw point."""

    operand: Expression
    state: Literal["nan", "inf", "finite"]
    negated: bool = False


class Missing(Expression):
    """`missing x for 100 steps`."""

    target: Name
    length: Expression


class Stalled(Expression):
    """`stalled for 10 min`: the whole run, by wall time."""

    length: Expression


class For(Node):
    """A span: `for 20 steps`, `for 20 samples and 100 steps`, or `for 3 of 5 samples` (then `k` and `n`)."""

    lengths: tuple[Expression, ...] = ()
    k: int = 0
    n: int = 0


class Held(Expression):
    """`(c for 3 samples)`: a condition that has held."""

    condition: Expression
    span_: For


class AtLeast(Expression):
    """`2 of (a, b, c)`."""

    count: int
    conditions: tuple[Expression, ...]


class Then(Expression):
    """`A then B within D`, or with `absent`, `A then no B within D`."""

    first: Expression
    second: Expression
    within: Expression
    absent: bool = False


class Before(Expression):
    """`E before 100 steps`, `E before 2 samples`, `E before EVENT` (a bare name is a length param or an event)."""

    operand: Expression
    shift: Expression


class AtStep(Expression):
    """`E at step 1000`."""

    operand: Expression
    step: Number


class AtEvent(Expression):
    """`E at EVENT`."""

    operand: Expression
    event: Name


class AtEnd(Expression):
    """`E at end of PHASE`."""

    operand: Expression
    phase: Name


class Argument(Node):
    """One argument of a call, by place or by keyword (`unless: spike`)."""

    value: Expression
    keyword: str | None = None


class Call(Expression):
    """`mean(loss, 500 steps)`."""

    function: str
    arguments: tuple[Argument, ...] = ()
