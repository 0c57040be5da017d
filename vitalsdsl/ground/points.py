"""What a run is made of: rows of metric values at a step, and rewinds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vitalsdsl.ground.words import TOTAL_STEPS

_NON_FINITE = {
    "nan": math.nan,
    "+nan": math.nan,
    "-nan": math.nan,
    "inf": math.inf,
    "+inf": math.inf,
    "-inf": -math.inf,
    "infinity": math.inf,
    "+infinity": math.inf,
    "-infinity": -math.inf,
}


@dataclass(frozen=True)
class Row:
    """The values that one step logged: metric name to value. `time` is wall time in seconds, NaN where unknown."""

    step: int
    values: Mapping[str, float]
    time: float = math.nan


@dataclass(frozen=True)
class Rewind:
    """The run went back: what was logged after `step` no longer counts."""

    step: int


@dataclass(frozen=True)
class RunInfo:
    """What a reader knows of a run beside its points.

    `name` is its id, `title` what people call it. `total_steps` feeds `progress`; `url` is where a person can look;
    `notes` are what the reader decided and says aloud.
    """

    name: str = "run"
    total_steps: float = math.nan
    url: str = ""
    notes: tuple[str, ...] = field(default=())
    title: str = ""

    @property
    def label(self) -> str:
        """What people read: the title, where there is one, with the beginning of the id.

        >>> RunInfo("8cd8f91f0a7b4a7e9f0c3d1e5b6a7c8d", title="small-lm").label
        'small-lm (8cd8f91f)'
        """
        return f"{self.title} ({self.name[:8]})" if self.title and self.title != self.name else self.name


def planned_steps(said: Mapping[str, object]) -> float:
    """How many steps a run plans, by what its params or its configuration say; NaN where they do not.

    >>> planned_steps({"lr": 3e-4, "max_steps": "1000"}), planned_steps({"max_steps": -1})
    (1000.0, nan)
    """
    for name in TOTAL_STEPS:
        steps = number(said.get(name))
        if steps is not None and 0 < steps < math.inf:
            return steps
    return math.nan


def number(value: object) -> float | None:
    """A logged value as a float, or None where it is no number.

    Numbers, NumPy scalars, arrays and tensors of one number (anything with `item`), and the texts that loggers write
    for numbers count; booleans, None, masked entries, lists and media do not.

    >>> number("NaN"), number(3), number("1e-4"), number(True), number("high")
    (nan, 3.0, 0.0001, None, None)
    """
    kind = value.__class__
    if kind is float:
        return value  # type: ignore[return-value]
    if kind is int:
        return _to_float(value)
    if kind is bool or value is None:
        return None
    if kind is str:
        text = value.strip().lower()  # type: ignore[attr-defined]
        if text in _NON_FINITE:
            return _NON_FINITE[text]
        return _to_float(text) if text[:1].isdigit() or text[:1] in "+-." and "_" not in text else None
    if isinstance(value, (int, float)):
        return _to_float(value)
    if isinstance(value, str):
        return number(str.__str__(value))
    item = getattr(value, "item", None)
    if item is None or getattr(value, "ndim", 0) != 0 and _size(value) != 1:
        return None
    try:
        mask = getattr(value, "mask", False)
        if not callable(mask) and bool(mask):  # an entry that NumPy masks holds a number all the same, which is none
            return None
        inner = item()
    except Exception:  # a foreign object's own failure is not a number
        return None
    return number(inner) if inner.__class__ in (float, int) or isinstance(inner, (int, float)) else None


def _size(value: Any) -> object:
    """How many numbers an array holds; of a tensor `size` is a method."""
    size = getattr(value, "size", 0)
    return value.numel() if callable(size) and hasattr(value, "numel") else size


def _to_float(value: object) -> float | None:
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]
    except (TypeError, ValueError):
        return None
