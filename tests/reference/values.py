"""Values of the language: numbers, unknowns, three-valued logic and IEEE arithmetic (section 4 of the page)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Unknown:
    """Every value is a number or **unknown**, and every unknown carries a reason."""

    reason: str

    def __bool__(self) -> bool:
        raise TypeError("an unknown is neither true nor false")


ABSENT = Unknown("absent")
WARMING = Unknown("warming")
STALE = Unknown("stale")
NONFINITE = Unknown("nonfinite")
UNDEFINED = Unknown("undefined")
TOO_FEW = Unknown("too few points")

Value = float | bool | Unknown

SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True)
class Length:
    """A duration: a number and a unit; units never convert into one another. Times are held in seconds, unit "s"."""

    amount: float
    unit: str

    @classmethod
    def of(cls, amount: float, unit: str) -> Length:
        """The length as written: `10 min` is 600 of unit "s"; singular forms become plural ones."""
        if unit in SECONDS:
            return cls(amount * SECONDS[unit], "s")
        return cls(amount, unit if unit.endswith("s") else unit + "s")


@dataclass(frozen=True)
class Part:
    """One part of a span: a length, or `k of n samples` (then k is set and amount is n)."""

    amount: float
    unit: str
    k: int | None = None


Span = tuple[Part, ...]


def number_of(text: str) -> float:
    """`3`, `1e-4`, `20k`, `1.5B`, `30%` (0.30), correctly rounded."""
    scale: dict[str, Fraction | int] = {"k": 1000, "M": 10**6, "B": 10**9, "T": 10**12, "%": Fraction(1, 100)}
    if text[-1] in scale:
        return float(Fraction(text[:-1]) * scale[text[-1]])
    return float(text)


def as_point(raw: object) -> float | None:
    """A logged value in canonical JSON lines form; None where there is no point."""
    if isinstance(raw, str):
        return {"nan": math.nan, "infinity": math.inf, "inf": math.inf, "-infinity": -math.inf, "-inf": -math.inf}.get(
            raw.strip().lower()
        )
    if isinstance(raw, (int, float)) and not isinstance(raw, bool):
        return float(raw)
    return None


def settle(result: float, operands: Iterable[float]) -> Value:
    """`undefined` is ±inf out of finite operands; a result that is NaN is unknown (`nonfinite`)."""
    if math.isnan(result):
        return NONFINITE
    if math.isinf(result) and all(math.isfinite(x) for x in operands):
        return UNDEFINED
    return result


def elementwise(function: Callable[..., float], *operands: Value) -> Value:
    """Arithmetic with an unknown is unknown."""
    for operand in operands:
        if isinstance(operand, Unknown):
            return operand
    try:
        result = function(*operands)
    except (OverflowError, ValueError, ZeroDivisionError):
        return UNDEFINED
    return settle(result, operands)  # type: ignore[arg-type]


def divide(a: float, b: float) -> float:
    """Division by zero is `undefined`."""
    if b == 0:
        raise ZeroDivisionError
    return a / b


def logarithm(x: float) -> float:
    """The log of zero or less is `undefined`."""
    if x <= 0:
        raise ValueError
    return math.log(x)


def negate(x: Value) -> Value:
    """`not unknown` is unknown."""
    return x if isinstance(x, Unknown) else not x


def all_of(values: Iterable[Value]) -> Value:
    """`false and unknown` is false."""
    seen = list(values)
    if any(v is False for v in seen):
        return False
    return next((v for v in seen if isinstance(v, Unknown)), True)


def any_of(values: Iterable[Value]) -> Value:
    """`true or unknown` is true."""
    seen = list(values)
    if any(v is True for v in seen):
        return True
    return next((v for v in seen if isinstance(v, Unknown)), False)


def at_least(n: int, values: Iterable[Value]) -> Value:
    """True when that many are true, false when it would be even if every unknown were true, else unknown."""
    seen = list(values)
    true = sum(v is True for v in seen)
    unknown = [v for v in seen if isinstance(v, Unknown)]
    if true >= n:
        return True
    return unknown[0] if true + len(unknown) >= n else False


def compare(operator: str, a: Value, b: Value) -> Value:
    """A comparison with an unknown or a NaN operand is unknown. ±inf compares as usual."""
    for operand in (a, b):
        if isinstance(operand, Unknown):
            return operand
    if math.isnan(a) or math.isnan(b):  # type: ignore[arg-type]
        return NONFINITE
    return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b, "!=": a != b}[operator]  # type: ignore
