"""Two expressions of one shape: which of their numbers, lengths and names differ, and what these are there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vitalsdsl.language import expressions as ex
from vitalsdsl.language.formatter import BY_VALUE, places_of
from vitalsdsl.ops.base import Takes, registry

_LOOKS = frozenset({"span", "grouped", "text"})
_LEAVES = (ex.Number, ex.Length, ex.Name, ex.Family, ex.For)
_WINDOW = "window"


@dataclass(frozen=True)
class Leaf:
    """One place at which two expressions differ, with the nodes above it in the older, innermost last."""

    before: ex.Node
    after: ex.Node
    above: tuple[ex.Node, ...]

    @property
    def texts(self) -> tuple[str, str]:
        return BY_VALUE.text(self.before), BY_VALUE.text(self.after)

    @property
    def is_amount(self) -> bool:
        """Whether numbers, lengths or spans differ, and not names."""
        amounts = (ex.Number, ex.Length, ex.For)
        return isinstance(self.before, amounts) and isinstance(self.after, amounts)


class OtherShape(Exception):
    """Two expressions differ in more than their leaves."""


def unequal(before: ex.Node, after: ex.Node) -> list[Leaf] | None:
    """The leaves in which two expressions differ; None where more does.

    >>> from vitalsdsl.language.parser import parse_expression
    >>> from vitalsdsl.ground.source import Locator, Source
    >>> a, b, c = (parse_expression(t, Locator(Source("a", t)))[0] for t in ("x > 3", "x > (4.0)", "x > 3 or y > 3"))
    >>> [leaf.texts for leaf in unequal(a, b)], unequal(a, c)
    ([('3', '4')], None)
    """
    try:
        return list(_unequal(before, after, ()))
    except OtherShape:
        return None


def _unequal(before: ex.Node, after: ex.Node, above: tuple[ex.Node, ...]) -> Iterator[Leaf]:
    if isinstance(before, _LEAVES) or isinstance(after, _LEAVES):
        if not (isinstance(before, _LEAVES) and isinstance(after, _LEAVES)):
            raise OtherShape
        if BY_VALUE.text(before) != BY_VALUE.text(after):
            yield Leaf(before, after, above)
        return
    if type(before) is not type(after):
        raise OtherShape
    for name, value in before.__dict__.items():
        other = after.__dict__[name]
        if isinstance(value, ex.Node) and isinstance(other, ex.Node):
            yield from _unequal(value, other, (*above, before))
        elif isinstance(value, tuple) and isinstance(other, tuple) and len(value) == len(other):
            for mine, theirs in zip(value, other):
                if isinstance(mine, ex.Node):
                    yield from _unequal(mine, theirs, (*above, before))
                elif mine != theirs:
                    raise OtherShape
        elif name not in _LOOKS and value != other:
            raise OtherShape


def in_words(leaf: Leaf) -> str:
    """What changed at an amount: `from 3x to 2.5x baseline`, `threshold 3 -> 4`, `window of mean 100 steps -> 50 steps`."""
    before, after = leaf.texts
    parent = leaf.above[-1] if leaf.above else None
    if isinstance(parent, ex.Arithmetic) and parent.operator == "*":
        other = parent.right if parent.left is leaf.before else parent.left
        named = other.function if isinstance(other, ex.Call) else BY_VALUE.text(other)
        return f"from {before}x to {after}x {named}"
    if isinstance(parent, ex.Argument) and len(leaf.above) > 1:
        call = leaf.above[-2]
        assert isinstance(call, ex.Call)
        role = _role(call, parent)
        if role == _WINDOW:  # bare, it is in steps
            before, after = (f"{text} steps" if text.isdigit() else text for text in (before, after))
        return f"{role} of {call.function} {before} -> {after}"
    if isinstance(parent, ex.Comparison):
        return f"threshold {before} -> {after}"
    return f"{before} -> {after}"


def _role(call: ex.Call, argument: ex.Argument) -> str:
    """What an argument is to its function, in a word."""
    if argument.keyword is not None:
        return argument.keyword
    places = places_of(call, registry().get(call.function))
    place = next((p for a, p in zip(call.arguments, places) if a is argument), None)
    if place is None:
        return "argument"
    return _WINDOW if place.takes is Takes.EXTENT else {"x": "subject"}.get(place.name, place.name)
