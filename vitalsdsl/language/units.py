"""What numbers are measured in, as far as a policy says so, and which units a length may have where it stands."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence

from vitalsdsl.ground.types import EPOCHS, SAMPLES, STEPS, TIME, TOKENS
from vitalsdsl.language import expressions as ex
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.language.scope import Meaning, Scope
from vitalsdsl.ops.base import registry

Report = Callable[..., None]
"""How a finding is reported: code, message, place, word under the caret, help."""

PLAIN = ""
"""The unit of a number that is written down: 3, 1e-4, 30%."""

METRIC = "?"
"""The unit of a metric that is declared without one: nothing is known of it, but that it is no length."""

LASTS = (STEPS, SAMPLES, EPOCHS, TOKENS, TIME)
"""What a `for`, an `after` and the like may be measured in."""

_LENGTHS = frozenset(LASTS)
_COUNTERS = {"step": STEPS, "elapsed": TIME, "epoch": EPOCHS, "tokens": TOKENS, "progress": "a share of the run"}
_LONGEST = 1e12
_EXAMPLES = {TIME: "2 h", STEPS: "500 steps", EPOCHS: "2 epochs", TOKENS: "1B tokens", SAMPLES: "5 samples"}
_DECLARED = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), TIME),
    **dict.fromkeys(("step", "steps"), STEPS),
    **dict.fromkeys(("epoch", "epochs"), EPOCHS),
    **dict.fromkeys(("token", "tokens"), TOKENS),
}

_OF_EDGES = frozenset(("since", "interval"))
_LIKE_THEIR_ARGUMENT = frozenset(
    "mean median min max sum std mad quantile delta ema baseline usual noise lowest highest resid_std"
    " abs least greatest clamp".split()
)
_ALIKE = frozenset(("least", "greatest", "clamp"))
"""Functions of numbers that have to be of one unit. Of functions in none of these sets no unit is known."""


class Units:
    """Reads off what expressions are measured in, and holds comparisons, sums and lengths to it."""

    def __init__(self, scope: Scope, report: Report, broken: frozenset[str]) -> None:
        self.scope = scope
        self.report = report
        self.broken = broken
        self._lets: dict[str, str | None] = {}

    # ---------------------------------------------------------------- what it is measured in

    def of(self, node: ex.Expression, member: str | None = None) -> str | None:
        """`steps`, `time`, a declared unit, `PLAIN`, `METRIC`; None where nothing is known."""
        if isinstance(node, (ex.Number, ex.Length)):
            return self.of_length(node)
        if isinstance(node, ex.Negative):
            return self.of(node.operand, member)
        if isinstance(node, ex.Arithmetic):
            return self._of_arithmetic(node, member)
        if isinstance(node, ex.Name):
            return self._of_name(node, member)
        if isinstance(node, (ex.Before, ex.AtStep, ex.AtEvent, ex.AtEnd)):
            return self.of(node.operand, member)
        if isinstance(node, ex.Call):
            if node.function in _OF_EDGES:
                return STEPS
            first = node.arguments[0].value if node.arguments else None
            if node.function in _LIKE_THEIR_ARGUMENT and first is not None and not _lacks_subject(node):
                return self.of(first, member)
        return None

    def _of_name(self, node: ex.Name, member: str | None) -> str | None:
        meaning = self.scope.meaning(node, member)
        if meaning is Meaning.COUNTER:
            return _COUNTERS[node.path]
        if meaning is Meaning.PARAM:
            return self.of_length(self.scope.params[node.path].value)
        if meaning is Meaning.LET:
            return self._of_let(node.path)
        if meaning is Meaning.METRIC:
            metric = self.scope.metrics.get(node.path)
            if metric is None or metric.unit is None:
                return METRIC if node.path not in self.broken else None
            return _DECLARED.get(metric.unit.strip().lower(), metric.unit)
        return None

    def _of_let(self, path: str) -> str | None:
        let = self.scope.lets.get(path)
        if let is None or let.family:
            return None
        if path not in self._lets:
            self._lets[path] = None
            self._lets[path] = self.of(let.expression)
        return self._lets[path]

    def _of_arithmetic(self, node: ex.Arithmetic, member: str | None) -> str | None:
        unit = self.of(node.operands[0], member)
        for operator, operand in zip(node.operators, node.operands[1:]):
            unit = _joined(unit, operator, self.of(operand, member))
        return unit

    def of_length(self, node: ex.Node) -> str:
        """The unit of what is written where a length or a number stands."""
        if isinstance(node, ex.Name) and node.path in self.scope.params:
            return self.of_length(self.scope.params[node.path].value)
        if isinstance(node, ex.Length):
            return TIME if node.is_time else node.unit
        return PLAIN

    def size_of(self, node: ex.Expression) -> float:
        """The number in a length, a number, or a param; times in seconds."""
        if isinstance(node, ex.Name) and node.path in self.scope.params:
            return self.size_of(self.scope.params[node.path].value)
        return node.size if isinstance(node, ex.Length) else getattr(node, "value", 0.0)

    # ---------------------------------------------------------------- whether two go together

    def compare(self, left: ex.Expression, right: ex.Expression, member: str | None) -> None:
        """Report two sides of a comparison that cannot be compared."""
        clash = self._clash(left, right, member)
        if clash is not None:
            texts = [f"`{expression_text(n)}`" for n in (left, right)]
            self.report("V003", f"{texts[0]} cannot be compared with {texts[1]}", left.span.to(right.span), *clash)

    def add(self, node: ex.Arithmetic, member: str | None) -> None:
        """Report a sum or a difference of what is measured in different units."""
        left = node.operands[0]
        for operator, right in zip(node.operators, node.operands[1:]):
            clash = self._clash(left, right, member) if operator in "+-" else None
            if clash is not None:
                texts = [f"`{expression_text(n)}`" for n in (left, right)]
                verb = "added to" if operator == "+" else "taken from"
                one, other = texts if operator == "+" else reversed(texts)
                self.report("V003", f"{one} cannot be {verb} {other}", left.span.to(right.span), *clash)
            # The sum so far is measured in what its first operand with a unit is.
            left = right if self.of(left, member) == PLAIN else left

    def alike(self, call: ex.Call, member: str | None) -> None:
        """Report a `greatest` of what is measured in different units."""
        if call.function not in _ALIKE:
            return
        values = [argument.value for argument in call.arguments]
        for left, right in zip(values, values[1:]):
            clash = self._clash(left, right, member)
            if clash is not None:
                self.report("V003", f"`{call.function}` of different units", left.span.to(right.span), *clash)
                return

    def _clash(self, left: ex.Expression, right: ex.Expression, member: str | None) -> tuple[str, str] | None:
        """A word under the caret, and the help; None where they go together."""
        one, other = self.of(left, member), self.of(right, member)
        if one is None or other is None or one == other:
            return None
        if METRIC in (one, other):
            unit = one if other == METRIC else other
            length = right if one == METRIC else left
            if unit not in _LENGTHS or not self._is_written_length(length):
                return None
            fitting = {STEPS: "`step`, `since(…)` or `interval(…)`", TIME: "`elapsed`"}.get(unit, f"`{_counter(unit)}`")
            help_ = f"write a plain number; {fitting} can be compared with a length"
            return f"a metric against {unit}", help_
        if PLAIN in (one, other):
            if TIME not in (one, other):
                return None
            plain = left if one == PLAIN else right
            text = expression_text(plain)
            return f"{text} what?", f"write `{text} s`, `{text} min` or `{text} h`"
        return f"{_spoken(one)} against {_spoken(other)}", "units never convert into one another by themselves"

    def _is_written_length(self, node: ex.Node) -> bool:
        """Whether a length, or a param that is one, is a part of this number (and not only of a window in it)."""
        if isinstance(node, (ex.Length, ex.Name)):
            return self.of_length(node) != PLAIN
        return not isinstance(node, ex.Call) and any(map(self._is_written_length, node.children()))

    # ---------------------------------------------------------------- lengths

    def length(self, node: ex.Expression | None, what: str, units: Sequence[str], bare: str = "") -> bool:
        """Whether a length stands where one has to, in one of some units; what is wrong is reported.

        `bare` is the unit of a whole number without one, where that is allowed.
        """
        if node is None:
            return True
        if isinstance(node, ex.Name) and node.path not in self.scope.params:
            return self._unknown_length(node, what, units)
        unit, size = self.of_length(node), self.size_of(node)
        text = expression_text(node)
        number = self.scope.params[node.path].value if isinstance(node, ex.Name) else node
        if unit == PLAIN and not (bare and isinstance(number, ex.Number) and not number.ratio):
            self._without_unit(node, number, what, units)
        elif unit != PLAIN and unit not in units:
            shown = "wall time" if unit == TIME else unit
            self.report("V003", f"`{what}` cannot be measured in {shown}", node.span, "another unit",
                        f"measure it in {_listed(units)}")  # fmt: skip
        elif size <= 0:
            self.report("V048", f"a length of `{text}` is no length", node.span, "more than nothing",
                        f"write `{_EXAMPLES[unit or bare]}`")  # fmt: skip
        elif size > _LONGEST:
            self.report("V048", f"no run lasts `{text}`", node.span, "too long", f"write `{_EXAMPLES[unit or bare]}`")
        elif unit in (PLAIN, STEPS, SAMPLES) and size != int(size):
            counted = unit or bare
            self.report("V048", f"`{text}` is no whole number of {counted}", node.span, "whole numbers only",
                        f"write `{max(1, round(size))} {counted}`")  # fmt: skip
        else:
            return True
        return False

    def _without_unit(self, node: ex.Expression, number: ex.Expression, what: str, units: Sequence[str]) -> None:
        text = expression_text(number)
        if not isinstance(number, ex.Number):
            help_ = f"such as `{_EXAMPLES[units[0]]}`"
        elif number.ratio or number.value <= 0:
            help_ = f"a length is a number and a unit, such as `{_EXAMPLES[units[0]]}`"
        else:
            unit = "min" if units[0] == TIME else units[0]
            help_ = f"write `{text} {unit}`" if node is number else f"give the param a unit: `{text} {unit}`"
        self.report("V001", f"`{what}` needs a length", node.span, f"{expression_text(node)} what?", help_)

    def _unknown_length(self, node: ex.Name, what: str, units: Sequence[str]) -> bool:
        if node.path in self.broken:
            return False
        near = difflib.get_close_matches(node.path, self.scope.params, 1)
        help_ = f"did you mean `{near[0]}`?" if near else f"define it: `param {node.path} = {_EXAMPLES[units[0]]}`"
        self.report("V314", f"there is no length called `{node.path}`", node.span, f"`{what}` needs one", help_)
        return False

    def one_unit(self, nodes: Sequence[ex.Expression]) -> bool:
        """Whether lengths or numbers are all of one unit."""
        return len({self.of_length(node) for node in nodes}) <= 1


def _lacks_subject(call: ex.Call) -> bool:
    """Whether this is `baseline(500 steps)`, whose subject stands elsewhere."""
    function = registry().get(call.function)
    return (
        function is not None
        and function.implicit_subject
        and sum(a.keyword is None for a in call.arguments) < len(function.positional())
    )


def _listed(units: Sequence[str]) -> str:
    names = [name for unit in units for name in (("s", "min", "h", "d") if unit == TIME else (unit,))]
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]


def _spoken(unit: str) -> str:
    return "wall time" if unit == TIME else unit


def _counter(unit: str) -> str:
    return {EPOCHS: "epoch", TOKENS: "tokens"}.get(unit, "step")


def _joined(left: str | None, operator: str, right: str | None) -> str | None:
    """What a sum, a difference, a product or a quotient of two is measured in."""
    if operator in "+-":
        return right if left == PLAIN else left if left == right or right == PLAIN else None
    if right == PLAIN:
        return left
    return right if left == PLAIN and operator == "*" else None
