"""What kinds of values there are, and why a value can be unknown."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """What an expression gives: the checker holds every place to its kind."""

    NUMBER = "number"
    RATIO = "ratio"
    LENGTH = "length"
    CONDITION = "condition"


class Reason(Enum):
    """Why a value is unknown. In numbers an unknown is NaN, in conditions None; the reason is asked for when needed."""

    ABSENT = "absent"
    WARMING = "warming"
    STALE = "stale"
    NONFINITE = "nonfinite"
    UNDEFINED = "undefined"
    TOO_FEW = "too few points"
    OUT_OF_PHASE = "out of phase"


STEPS, SAMPLES, TIME, EPOCHS, TOKENS = "steps", "samples", "time", "epochs", "tokens"
"""The five ways to measure a stretch; times are in seconds."""


class Extent(NamedTuple):
    """How long something is: a size in one of the five units."""

    size: float
    unit: str
