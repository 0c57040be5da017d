"""What a function of the language is: one class in one file, found by its file, known to the checker, the evaluator and
the reference alike. Adding one needs no edit anywhere else.
"""

from __future__ import annotations

import functools
import importlib
import math
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar, cast

from vitalsdsl.kernels.state import State
from vitalsdsl.kernels.window import Window

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column, Rows
    from vitalsdsl.kernels.pieces import InWindow, Piece
    from vitalsdsl.kernels.sliding import Windows
    from vitalsdsl.kernels.spread_out import Points
    from vitalsdsl.kernels.told import Told
from vitalsdsl.ground.types import SAMPLES, STEPS, TIME, Extent, Kind


class Takes(Enum):
    """What may stand at the place of a parameter."""

    STREAM = "a metric, let or expression"
    CONDITION = "a condition"
    EVENT = "the name of an event"
    EXTENT = "a length"
    NUMBER = "a number"
    OPERAND = "a number at this step"
    ORIGIN = "a length or an event"
    FREEZING = "a condition or an event"
    WORD = "a word"


class Parameter(NamedTuple):
    """One place in a call. With `keyword` it is written `name: value`; with a default it may be left out.

    `units` are the units that an extent may have; a bare whole number is of the first one. `many`: it may be repeated.
    """

    name: str
    takes: Takes
    keyword: bool = False
    required: bool = True
    default: Any = None
    units: tuple[str, ...] = (STEPS, SAMPLES, TIME)
    words: tuple[str, ...] = ()
    many: bool = False

    def written(self) -> str:
        text = f"{self.name}: …" if self.keyword else self.name
        if self.keyword and self.default is not None:
            text = f"{self.name}: {self.default_text()}"
        return text if self.required else f"[{text}]"

    def default_text(self) -> str:
        return f"{self.default:.0%}" if isinstance(self.default, float) else str(self.default)


X = Parameter("x", Takes.STREAM)
WINDOW = Parameter("W", Takes.EXTENT)
EVENT = Parameter("EVENT", Takes.EVENT)
CONDITION = Parameter("cond", Takes.CONDITION)

Arguments = Mapping[str, Any]
"""Parameter name to what is fixed at load: an `Extent`, a float, a word. Streams and events are not among them."""


class Function:
    """The base of all functions. A subclass's docstring is its page: `vitals functions NAME` prints it.

    `name` is what people write; `parameters` its places; `result` its kind. `example` is a whole rule that uses it.
    """

    name: ClassVar[str]
    parameters: ClassVar[tuple[Parameter, ...]]
    result: ClassVar[Kind] = Kind.NUMBER
    example: ClassVar[str]
    phrase: ClassVar[str] = ""
    """How it is read out, with the parameters' names in braces; without one the call itself is."""
    implicit_subject: ClassVar[bool] = False
    """Whether x may be left out where the other side of the comparison is one bare metric or let."""

    counts_edges: ClassVar[bool] = False
    """Whether it counts how often its event began."""

    @classmethod
    def signature(cls) -> str:
        """As it is written: `quantile(x, q, W)`."""
        inside = ", ".join(p.written() + (", …" if p.many else "") for p in cls.parameters)
        return f"{cls.name}({inside})"

    @classmethod
    def positional(cls) -> tuple[Parameter, ...]:
        return tuple(p for p in cls.parameters if not p.keyword)

    @classmethod
    def keywords(cls) -> dict[str, Parameter]:
        return {p.name: p for p in cls.parameters if p.keyword}

    @classmethod
    def check(cls, arguments: Arguments) -> str | None:
        """What is wrong with arguments of the right kinds, in one sentence; None where nothing is."""
        return None

    @classmethod
    def warm_up(cls, arguments: Arguments) -> tuple[Extent, ...]:
        """How long after its stream's first point it can be known at the earliest: lengths one after the other. By
        default what all its lengths come to, the first point's own step or sample being one of them."""
        lengths = [given for given in arguments.values() if isinstance(given, Extent)]
        if not lengths or lengths[0].unit == TIME:
            return tuple(lengths)
        return (Extent(max(lengths[0].size - 1, 0), lengths[0].unit), *lengths[1:])

    @classmethod
    def known_from_start(cls, arguments: Arguments) -> bool:
        """Whether it is known even before its stream has a point, or while that is unknown."""
        return False


class Elementwise(Function):
    """A function of numbers at one step, without memory. NaN in gives NaN out."""

    @staticmethod
    def value(*operands: Any) -> Any:
        """NaN where it is undefined."""
        raise NotImplementedError


class Stateful(Function):
    """A function with a memory. Calls with equal `sharing` keys on the same streams have one memory between them."""

    points_at_edges: ClassVar[bool] = False
    """Whether, as a stream, it has a point only where its event has an edge, not at each evaluation."""

    @classmethod
    def sharing(cls, arguments: Arguments) -> tuple[Any, ...]:
        return (cls.name, *sorted((k, v) for k, v in arguments.items() if v is not None))

    @classmethod
    def new(cls, arguments: Arguments) -> State:
        """A fresh memory."""
        raise NotImplementedError

    @classmethod
    def reader(cls, state: Any, arguments: Arguments) -> Callable[[int, float], Any]:
        """How the value at the close of a step is read from the memory."""
        read: Callable[[int, float], Any] = state.read
        return read

    @classmethod
    def columns(cls, points: Points, rows: Rows, arguments: Arguments) -> Column | None:
        """The vectorised form: its values at all closed steps of a run. None where there is none for these points: they
        are then gone through one by one. Of a condition the values are 1, 0 and NaN; a slack says that either is possible."""
        return None

    @classmethod
    def roughly(cls, points: Points, rows: Rows, arguments: Arguments) -> Column | None:
        """The same between bounds that are much sooner had; None where there are none."""
        return None

    @classmethod
    def columns_of_edges(cls, told: Told, rows: Rows, arguments: Arguments) -> Column | None:
        """The same of a function of an event alone."""
        return None

    @classmethod
    def windows(cls, points: Points, rows: Rows, arguments: Arguments) -> Windows | None:
        """The windows of which its vectorised form is read, where it is nothing but read `over` them."""
        return None

    @classmethod
    def over(cls, windows: Windows, arguments: Arguments) -> Column | None:
        """The values of all windows of a run; None where going through the points is as quick."""
        return None


class Windowed(Stateful):
    """A function of the points in a window: a kernel shared with its sisters, and what is read from it."""

    parameters: ClassVar[tuple[Parameter, ...]] = (X, WINDOW)
    kernel: ClassVar[type[Window]]
    minimum: ClassVar[int] = 1
    """How many usable points it needs once the window is warm."""

    @staticmethod
    def value(window: Any, arguments: Arguments) -> Any:
        """The value of a warm window with enough points; NaN where undefined."""
        raise NotImplementedError

    @classmethod
    def columns(cls, points: Points, rows: Rows, arguments: Arguments) -> Column | None:
        return cls.over(cls.windows(points, rows, arguments), arguments)

    @classmethod
    def windows(cls, points: Points, rows: Rows, arguments: Arguments) -> Windows:
        return points.windows(rows, arguments["W"], cls.kernel.with_infinite)

    @classmethod
    def ahead(cls, window: InWindow, arguments: Arguments) -> Piece | None:
        """How generated code finds it, near enough to say of most comparisons how they come out. None where it cannot."""
        return None

    @classmethod
    def sharing(cls, arguments: Arguments) -> tuple[Any, ...]:
        return (cls.kernel.__name__, arguments["W"])

    @classmethod
    def new(cls, arguments: Arguments) -> State:
        return cls.kernel(arguments["W"])

    @classmethod
    def reader(cls, state: Any, arguments: Arguments) -> Callable[[int, float], Any]:
        return functools.partial(cls.at, state, arguments)

    @classmethod
    def at(cls, window: Window, arguments: Arguments, step: int, time: float) -> Any:
        """What is read of its window at the close of a step."""
        window.advance(step, time)
        if window.usable < cls.minimum or not window.is_warm(step, time):
            return None if cls.result is Kind.CONDITION else math.nan
        return cls.value(window, arguments)


class Aggregate(Function):
    """A function over the members of a family: `any(act/layer_* > 5)`, `median(act/layer_*)`.

    It may share its name with a function over a window; which one is meant is seen from the call.
    """

    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter("F", Takes.STREAM),)

    @staticmethod
    def value(members: list[Any]) -> Any:
        """From the members' values: numbers without the unknown ones (never empty), or True, False and None."""
        raise NotImplementedError


def stream(function: type[Stateful], points: Iterable[Any], **arguments: Any) -> list[Any]:
    """The values of a function over points at steps 0, 1, 2, …, a minute apart: to try it out.

    None is a step without a point; a pair feeds a function of two streams; for a function of an event or a condition the
    points are True, False and None (unknown). Lengths are written `W=(3, "samples")`.

    >>> stream(registry()["sum"], [1, 2, None, 4], W=(2, "steps"))
    [nan, 3.0, 2.0, 4.0]
    """
    fixed = {p.name: p.default for p in function.parameters if p.default is not None}
    fixed |= {name: Extent(*given) if isinstance(given, tuple) else given for name, given in arguments.items()}
    state = function.new(fixed)
    read = function.reader(state, fixed)
    of_event = any(p.takes is Takes.EVENT for p in function.parameters)
    values: list[Any] = []
    before: bool | None = False
    for step, point in enumerate(points):
        time = 60.0 * step
        if of_event:
            state.evaluated(step, time, point is not None)
            if point and not before:
                state.edge(step, time)
            before = before if point is None else point
        elif isinstance(point, tuple):
            state.push(step, time, float(point[0]))
            state.push_second(step, time, float(point[1]))
        elif point is not None:
            state.push(step, time, float(point))
        values.append(read(step, time))
    return values


Kept = TypeVar("Kept", bound=Function)


class Registry(Mapping[str, type[Kept]]):
    """Functions of the language by name. A file is loaded when its function is first asked for by name, or with all
    others when they are gone through: to check a policy, the functions that it does not call need not be read.
    """

    def __init__(self, is_kept: Callable[[type[Function]], bool]) -> None:
        self._is_kept = is_kept
        self._known: dict[str, type[Kept] | None] = {}

    def __getitem__(self, name: str) -> type[Kept]:
        if name not in self._known:
            self._known[name] = self._find(name)
        found = self._known[name]
        if found is None:
            raise KeyError(name)
        return found

    def _find(self, name: str) -> type[Kept] | None:
        if name not in _files():
            return None
        for value in vars(importlib.import_module(f"{_PACKAGE}.{name}")).values():
            if isinstance(value, type) and issubclass(value, Function) and value.__dict__.get("name") == name:
                if self._is_kept(value):
                    return cast("type[Kept]", value)
        return None

    def __iter__(self) -> Iterator[str]:
        return (name for name in _files() if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@functools.cache
def _files() -> tuple[str, ...]:
    """The names of all functions, which are those of their files."""
    package = importlib.import_module(_PACKAGE)
    return tuple(sorted(m.name for m in pkgutil.iter_modules(package.__path__) if m.name != "base"))


_PACKAGE = __name__.rpartition(".")[0]
_functions: Registry[Function] = Registry(lambda kind: not issubclass(kind, Aggregate))
_aggregates: Registry[Aggregate] = Registry(lambda kind: issubclass(kind, Aggregate))


def registry() -> Registry[Function]:
    """All functions that are not only aggregates, by name, from the files of this package."""
    return _functions


def aggregates() -> Registry[Aggregate]:
    """All functions over the members of a family, by name."""
    return _aggregates
