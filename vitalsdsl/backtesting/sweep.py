"""The values of a param that a sweep goes through: `k=1.5..6`, `k=1.5..6:4`, `k=2,3,4`, `window=50..200 steps`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vitalsdsl.ground.errors import UsageError

POINTS = 10
"""How many values of a range, where nobody says."""

MOST = 200
"""Each run is judged once for each value: more is a slip."""

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(
    rf"(?P<low>{_NUMBER})\s*(?P<one>[a-z%]*)\s*\.\.\s*(?P<high>{_NUMBER})\s*(?P<two>[a-z%]*)\s*(?::\s*(?P<points>\d+))?"
)


@dataclass(frozen=True)
class Sweep:
    """A param and the values that it is to have, as they would be written."""

    name: str
    values: tuple[str, ...]


def parse_sweep(text: str) -> Sweep:
    """What `NAME=…` means. A range has ten values where `:N` does not say how many, at equal distances, whole ones where it
    is a length in steps or samples, of which each is taken once. Raises UsageError.

    >>> parse_sweep("k=1.5..3:4")
    Sweep(name='k', values=('1.5', '2', '2.5', '3'))
    >>> parse_sweep("window=10..12 steps").values, parse_sweep("k=2, 3").values
    (('10 steps', '11 steps', '12 steps'), ('2', '3'))
    """
    name, equals, rest = text.partition("=")
    name, rest = name.strip(), rest.strip()
    if not equals or not name or not rest:
        raise UsageError(f"`{text}`: write a sweep as k=1.5..6, k=1.5..6:4 (four values) or k=2,3,4")
    if ".." not in rest:
        values = [part.strip() for part in rest.split(",") if part.strip()]
        return Sweep(name, _counted(text, values))
    found = _RANGE.fullmatch(rest)
    if found is None or found["one"] and found["one"] != found["two"]:
        raise UsageError(f"`{rest}` is no range: write 1.5..6, 1.5..6:4 (four values) or 50..200 steps")
    low, high, points = float(found["low"]), float(found["high"]), int(found["points"] or POINTS)
    if not low < high or points < 2:
        raise UsageError(f"`{rest}`: a range goes upward, and has two values at least")
    if points > MOST:
        raise UsageError(f"`{text}`: {points} values are too many: {MOST} at most")
    return Sweep(name, _counted(text, _spread(low, high, points, found["two"])))


def _spread(low: float, high: float, points: int, unit: str) -> list[str]:
    numbers = [low + (high - low) * at / (points - 1) for at in range(points)]
    if unit and unit != "%":
        numbers = [float(round(number)) for number in numbers]
    else:
        numbers = [float(f"{number:.4g}") for number in numbers]
    behind = f" {unit}" if unit and unit != "%" else unit
    return list(dict.fromkeys(f"{number:.15g}{behind}" for number in numbers))


def _counted(text: str, values: list[str]) -> tuple[str, ...]:
    distinct = tuple(dict.fromkeys(values))
    if len(distinct) < 2:
        raise UsageError(f"`{text}`: a sweep has two values at least; for one there is --set")
    if len(distinct) > MOST:
        raise UsageError(f"`{text}`: {len(distinct)} values are too many: {MOST} at most")
    return distinct
