"""Glance: whether a condition is surely true or surely false, as a line of Python.

Numbers are worked out near enough (`vitalsdsl.kernels.pieces`), each with a bound on its error. A comparison whose two sides
are farther apart than their errors comes out as the exact one does; any other is left open, and so is all that is unknown.
"""

from __future__ import annotations

import functools
import keyword
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vitalsdsl.ground.types import TIME
from vitalsdsl.kernels.accepted import Accepted
from vitalsdsl.kernels.ahead import Late
from vitalsdsl.kernels.deferred import Deferred
from vitalsdsl.kernels.pieces import InReference, InWindow, Piece, in_window
from vitalsdsl.kernels.preceding import Preceding
from vitalsdsl.kernels.smoothed import Smoothed
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes import operations as op
from vitalsdsl.nodes.signals import Feed, Push, Root
from vitalsdsl.ops.abs import Abs
from vitalsdsl.ops.greatest import Greatest
from vitalsdsl.ops.least import Least
from vitalsdsl.streaming.part import below

HUGE = "1e300"
"""Farther apart than that no two numbers are surely known."""

ROUNDED = "9e-16"
"""What one operation may lose of its result, and more than that: the bounds are rounded, too."""


RESERVED = frozenset(
    """
    abs accumulate any at away back before bisect_left bounded bring_up changed counters down due each inf iter len map max min more mul nan next odd restart row
    sorted sqrt stale step stride sum time touched up was_young watch
    """.split()
)
"""Words that generated code uses itself."""

NUMBERED = re.compile(
    r"(again|awake|calm|close|feed|gate|hand_over|inside|is|lapsed|leaf|look|near|noise|off_noise|off_usual|reference|renew|restless|rule|run|see|source|stands|still|tell|unit|usual|was)(_\d+)*"
)
"""Those that it numbers."""


ASKED = "(step, time)"
"""How a value is asked for that is not evaluated at each step."""


class CannotSay(Exception):
    """A condition rests on a window in a way for which there is no bound."""


@dataclass(frozen=True)
class Surely:
    """Lines of Python: true where a condition surely is so. As unknown counts here only what stands on a window of which
    the span has not been lived yet, or on numbers that are the graph's own."""

    false: str
    true: str
    not_true: str
    not_false: str
    never: str | None = None
    """True where it surely stays false in a chunk of points to come, if these lie where most do."""


class Names:
    """Names for generated code that say what they stand for, each once."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def new(self, text: str) -> str:
        """A name, in which two underscores never follow each other: those are for what belongs to a stream.

        >>> names = Names()
        >>> names.new("train/loss"), names.new("train__loss"), names.new("3 x"), names.new("if")
        ('train_loss', 'train_loss_2', 'm_3_x', 'm_if')
        """
        name = re.sub(r"[\W_]+", "_", text, flags=re.ASCII).strip("_")[:40].strip("_") or "m"
        if not name[0].isalpha() or keyword.iskeyword(name) or name in RESERVED or NUMBERED.fullmatch(name):
            name = f"m_{name}"
        count, taken = 1, name
        while taken in self._given:
            count += 1
            taken = f"{name}_{count}"
        self._given.add(taken)
        return taken


@dataclass
class Stream:
    """A metric that has a point at the step, or a feed that is evaluated, as generated code has it: its name there, and the
    windows over it."""

    name: str
    node: nd.MetricNode | Feed
    is_ahead: bool = False
    """Whether it is a number whose windows are prepared ahead."""
    windows: dict[Late, InWindow] = field(default_factory=dict)

    def piece(self) -> Piece:
        if self.is_ahead:
            name = self.name
            between = f"lowest__{name}", f"highest__{name}"
            return Piece(name, f"size__{name}", range=between, lacking=(f"{name} != {name}",))
        return Piece(self.name, f"abs({self.name})", stands=False, is_plain=True)


class Glance:
    """Writes conditions of one plan for steps at which certain metrics have a point."""

    def __init__(
        self,
        streams: Mapping[nd.Node, Stream],
        names: Names,
        given: Collection[nd.Node] = (),
        lets: Collection[nd.Node] = (),
    ) -> None:
        self._streams = streams
        self._names = names
        self._given = given
        self._lets = lets
        self.leaves: dict[nd.Node, str] = {}
        """What is evaluated exactly at each step, by the name of its value."""
        self.answers: dict[nd.Node, str] = {}
        """What is evaluated exactly where somebody asks, likewise."""
        self.references: dict[Accepted, InReference] = {}
        self.nears: dict[str, tuple[str, set[str]]] = {}
        """How far apart two sides must be: name to how it is written, and the streams on which it rests."""
        self.lines: dict[str, str] = {}
        """What is worked out at each step before it is compared, by its name."""

    def surely(self, node: nd.Node) -> Surely:
        """When a condition is surely so. Raises CannotSay."""
        if isinstance(node, op.Comparison) and node.symbol in _TESTS:
            return self._comparison(node)
        if isinstance(node, (op.And, op.Or)):
            parts = [self.surely(inner) for inner in node.inputs]
            some, every = (" or ", " and ") if isinstance(node, op.And) else (" and ", " or ")
            return Surely(
                _joined(some, [part.false for part in parts]),
                _joined(every, [part.true for part in parts]),
                _joined(some, [part.not_true for part in parts]),
                _joined(every, [part.not_false for part in parts]),
                _never(some, [part.never for part in parts]),
            )
        if isinstance(node, op.Not):
            inner = self.surely(node.inputs[0])
            return Surely(inner.true, inner.false, inner.not_false, inner.not_true)
        leaf = self._leaf(node)
        return Surely(f"{leaf} is False", f"{leaf} is True", f"{leaf} is not True", f"{leaf} is not False")

    def _comparison(self, node: op.Comparison) -> Surely:
        left, right = self.number(node.left), self.number(node.right)
        above, below = f"{left.code} - {_inner(right.code)}", f"{right.code} - {_inner(left.code)}"
        if node.symbol in ("<", "<="):
            above, below = below, above
        false, true = (">=", ">") if node.symbol in (">", "<") else (">", ">=")
        near = "0.0"
        if left.error != "0.0" or right.error != "0.0":
            near = self._near(left, right)
            if not (left.stands and right.stands):
                # An error without bound is not surely less than a distance without one; and what may have grown too large
                # for a float may be unknown.
                above, below, false, true = f"{HUGE} > {above}", f"{HUGE} > {below}", ">", ">"
        false, true = f"{below} {false} {near}", f"{above} {true} {near}"
        unknown = list(dict.fromkeys([*left.unknown, *right.unknown, *left.lacking, *right.lacking]))
        unknown += [
            f"{_inner(side.code)} != {_inner(side.code)}"
            for side in (left, right)
            if side.is_plain and not _is_number(side.code)
        ]
        never = None
        if left.range is not None and right.range is not None:
            (_, most), (least, _) = (left.range, right.range) if node.symbol[0] == ">" else (right.range, left.range)
            never = " or ".join(
                [f"{least} - {_inner(most)} > 2.0 * {near}", *dict.fromkeys([*left.unknown, *right.unknown])]
            )
        return Surely(false, true, " or ".join([false, *unknown]), " or ".join([true, *unknown]), never)

    def _near(self, left: Piece, right: Piece) -> str:
        code = _sum(left.error, right.error)
        if not (left.stands and right.stands):
            return f"({code})"
        streams = {stream.name for stream in self._streams.values() if _names_of(code, stream.name)}
        if not streams:  # numbers alone, which no block renews
            return f"bounded({code})"
        names = {known: name for name, (known, _) in self.nears.items()}
        name = names.get(f"bounded({code})", f"near_{len(self.nears) + 1}")
        self.nears[name] = f"bounded({code})", streams
        return name

    # ---------------------------------------------------------------- numbers

    def number(self, node: nd.Node) -> Piece:
        """A number near its value. Raises CannotSay."""
        if _is_fixed(node):
            code = repr(float(node.value))
            if math.isfinite(node.value):
                return Piece(code, repr(abs(float(node.value))), is_plain=True, range=(code, code))
            return self._plain(node)
        stream = self._streams.get(node)
        if stream is not None:
            return stream.piece()
        if isinstance(node, nd.Fresh) and all(metric in self._streams for metric, _, _ in node.limits):
            return self.number(node.source)
        if node in self._lets:
            return self.number(node.inputs[0])
        if isinstance(node, nd.Function):
            prepared = self._windowed(node) or self._referenced(node)
            if prepared is not None:
                return prepared
        if isinstance(node, op.Negative):
            inner = self.number(node.inputs[0])
            between = None if inner.range is None else (f"-{_inner(inner.range[1])}", f"-{_inner(inner.range[0])}")
            return replace(inner, code=f"-{_inner(inner.code)}", range=between)
        if isinstance(node, op.Arithmetic):
            return self._together(node.symbol, self.number(node.left), self.number(node.right))
        if isinstance(node, op.ArithmeticChain):
            piece = self.number(node.inputs[0])
            for symbol, operand in zip(node.symbols, node.inputs[1:]):
                piece = self._together(symbol, piece, self.number(operand))
            return piece
        if isinstance(node, op.Elementwise) and node.compute in _ELEMENTWISE:
            return _ELEMENTWISE[node.compute]([self.number(operand) for operand in node.inputs])
        return self._plain(node)

    def _plain(self, node: nd.Node) -> Piece:
        """What is evaluated exactly."""
        leaf = self._leaf(node)
        return Piece(leaf, f"abs({leaf})", stands=False, is_plain=True)

    def _referenced(self, node: nd.Function) -> Piece | None:
        """What a reference says, between brackets."""
        if node.call is None or not isinstance(node.state, Accepted):
            return None
        reference = self.references.setdefault(node.state, InReference(len(self.references) + 1))
        piece: Piece = node.call[0].ahead(reference)
        return piece

    def _windowed(self, node: nd.Function) -> Piece | None:
        """A window that is prepared ahead."""
        if not self._is_prepared(node):
            return None
        stream, state = self._streams[node.streams[0]], node.state
        assert node.call is not None and isinstance(state, (Deferred, Smoothed))
        window = stream.windows.setdefault(state, in_window(state, stream.name, len(stream.windows) + 1))
        stream.is_ahead = True
        function, arguments = node.call
        piece: Piece | None = function.ahead(window, arguments)
        return piece

    def _leaf(self, node: nd.Node) -> str:
        known = self.leaves if node in self._given or self._has_its_own_pace(node) else self.answers
        if node not in known:
            if any(self._is_prepared(inner) for inner in below(node, self._lets)):
                raise CannotSay(node.text)
            known[node] = self._names.new(node.text)
        return known[node] if known is self.leaves else f"{known[node]}{ASKED}"

    def _has_its_own_pace(self, node: nd.Node) -> bool:
        return isinstance(node, (Root, nd.MetricNode)) and node not in self._lets

    def _is_prepared(self, node: nd.Node) -> bool:
        if not isinstance(node, nd.Function) or node.call is None or len(node.streams) != 1:
            return False
        function, arguments = node.call
        stream, state = self._streams.get(node.streams[0]), node.state
        if stream is None or state not in ahead_of(stream.node) or not hasattr(function, "ahead"):
            return False
        return function.ahead(in_window(state, "", 0), arguments) is not None

    # ---------------------------------------------------------------- arithmetic

    def _together(self, symbol: str, left: Piece, right: Piece) -> Piece:
        """Two numbers under an operator, with what is known of the result."""
        lacking = tuple(dict.fromkeys((*left.lacking, *right.lacking)))
        return replace(
            self._near_together(symbol, left, right), range=_range_together(symbol, left, right), lacking=lacking
        )

    def _near_together(self, symbol: str, left: Piece, right: Piece) -> Piece:
        stands, unknown = left.stands and right.stands, tuple(dict.fromkeys((*left.unknown, *right.unknown)))
        is_plain = left.is_plain and right.is_plain
        code = f"{_inner(left.code)} {symbol} {_inner(right.code)}"
        if symbol in "+-":
            size = _sum(left.size, right.size)
            return Piece(code, size, _sum(left.error, right.error, f"{ROUNDED} * ({size})"), stands, unknown, is_plain)
        if symbol == "*":
            size = f"{_inner(left.size)} * {_inner(right.size)}"
            pairs = [(left.error, right.size), (left.size, right.error), (left.error, right.error)]
            errors = (f"{_inner(a)} * {_inner(b)}" for a, b in pairs if "0.0" not in (a, b))
            return Piece(code, size, _sum(*errors, f"{ROUNDED} * {size}"), stands, unknown, is_plain)
        if _is_number(right.code) and float(right.code):
            size = f"{_inner(left.size)} / {right.size}"
            error = f"{_inner(left.error)} / {right.size}" if left.error != "0.0" else "0.0"
            return Piece(code, size, _sum(error, f"{ROUNDED} * ({size})"), stands, unknown, is_plain)
        if left.error == right.error == "0.0":
            name = self._names.new("ratio")
            self.lines[name] = f"{code} if {_inner(right.code)} else nan"
            return Piece(name, f"abs({name})", f"{ROUNDED} * abs({name})", False, unknown, is_plain)
        raise CannotSay("a window that something is divided by")


_TESTS = (">", ">=", "<", "<=")


def _size_of(operands: Sequence[Piece]) -> Piece:
    between = operands[0].range
    if between is not None:
        low, high = between
        between = f"max({low}, -{_inner(high)}, 0.0)", f"max({high}, -{_inner(low)})"
    return replace(operands[0], code=f"abs({operands[0].code})", range=between)


def _range_together(symbol: str, left: Piece, right: Piece) -> tuple[str, str] | None:
    """Between what the result lies, of a product or a ratio only where one side never changes."""
    if left.range is None or right.range is None:
        return None
    (least, most), (low, high) = left.range, right.range
    if symbol == "+":
        return f"{least} + {_inner(low)}", f"{most} + {_inner(high)}"
    if symbol == "-":
        return f"{least} - {_inner(high)}", f"{most} - {_inner(low)}"
    if symbol == "*" and _is_number(least) and least == most:
        least, most, low, high = low, high, least, most
    if low != high or not _is_number(low):
        return None
    ends = [f"{_inner(end)} {symbol} {low}" for end in (least, most)]
    return (ends[0], ends[1]) if float(low) > 0 else (ends[1], ends[0])


def _extreme(word: str, operands: Sequence[Piece]) -> Piece:
    """The greatest or the least: as far off as they are together. A NaN among them is not to be passed over."""
    codes = [operand.code for operand in operands]
    code = f"{word}({', '.join(codes)}) + 0.0 * ({' + '.join(map(_inner, codes))})"
    stands = all(operand.stands for operand in operands)
    unknown = tuple(dict.fromkeys(name for operand in operands for name in operand.unknown))
    size, error = _sum(*(operand.size for operand in operands)), _sum(*(operand.error for operand in operands))
    ranges = [operand.range for operand in operands if operand.range is not None]
    between = None
    if len(ranges) == len(operands):
        lows, highs = zip(*ranges)
        between = (
            f"{word}({', '.join(lows)}) + 0.0 * ({_sum(*lows)})",
            f"{word}({', '.join(highs)}) + 0.0 * ({_sum(*highs)})",
        )
    lacking = tuple(dict.fromkeys(name for operand in operands for name in operand.lacking))
    return Piece(code, size, error, stands, unknown, range=between, lacking=lacking)


_ELEMENTWISE: dict[Callable[..., float], Callable[[Sequence[Piece]], Piece]] = {
    Abs.value: _size_of,
    Greatest.value: functools.partial(_extreme, "max"),
    Least.value: functools.partial(_extreme, "min"),
}


def subscribers(node: nd.MetricNode | Feed) -> list[Push]:
    """Who is handed the points of a metric, or those of a feed's evaluations that are known."""
    return node.subscribers if isinstance(node, nd.MetricNode) else node.known


def ahead_of(node: nd.MetricNode | Feed) -> list[Late]:
    """The windows of a metric or a feed that can be prepared ahead, and may be handed their points late."""
    states = [getattr(push, "__self__", None) for push in subscribers(node)]
    return [
        state
        for state in states
        if isinstance(state, Smoothed)
        or isinstance(state, Deferred)
        and state.unit != TIME
        and (type(state).push is Deferred.push or isinstance(state, Preceding))
    ]


def _is_fixed(node: nd.Node) -> bool:
    """Whether it is worked out from numbers that never change; it has its value, then."""
    if isinstance(node, nd.Constant):
        return True
    if not isinstance(node, (op.Arithmetic, op.ArithmeticChain, op.Negative, op.Elementwise)) or node.is_condition:
        return False
    if not all(map(_is_fixed, node.inputs)):
        return False
    node.run(0, math.nan)
    return True


def _is_number(code: str) -> bool:
    return re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", code) is not None


def _sum(*terms: str) -> str:
    return " + ".join(term for term in terms if term != "0.0") or "0.0"


def _inner(code: str) -> str:
    return code if re.fullmatch(r"[\w.]+|abs\(\w+\)", code) else f"({code})"


def _never(word: str, nevers: Sequence[str | None]) -> str | None:
    """Of all that must be so one is enough; of several that may, none may ever be."""
    said = [f"({never})" for never in nevers if never is not None]
    if not said or word == " and " and len(said) < len(nevers):
        return None
    return word.join(said)


def _joined(word: str, tests: Sequence[str]) -> str:
    """What has to be looked up comes last: mostly the rest decides."""
    return word.join(f"({test})" for test in sorted(tests, key=lambda test: test.count(ASKED)))


def _names_of(code: str, stream: str) -> bool:
    """Whether a bound rests on a stream."""
    return re.search(rf"__{re.escape(stream)}(?:_\d+)?\b", code) is not None
