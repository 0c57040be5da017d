"""Ahead: what the windows of a stream will come to at its next points, as far as it is known today.

Of a window over 5,000 points, all but the newest few stay in it for a while. Here the older ones are summed once for a whole
block of points to come: for each of these the sum, the sum of squares and the extremes of what will be left of them then.
With what has come meanwhile added, that is the window: nothing is ever taken away, so nothing drifts and no spike lingers.

The answers are near, not exact, and each comes with a bound on its error. Whoever compares them with something that is no
farther off than that asks the window itself.
"""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vitalsdsl.kernels.deferred import Deferred
from vitalsdsl.kernels.trail import numbers
from vitalsdsl.types import STEPS

LONGEST, SHORTEST = 256, 32
"""So many points to come are prepared at once: no more than stay in the shortest window. For fewer it does not pay."""

REACH = 8.0
"""Points so many times farther from the pivot than all before them end a block: its bounds are those of smaller numbers."""

POOR, POORLY, RESTS = 16, 4, 1024
"""Where so few points use a block, so many times in a row, it is left for a while: gaps and steps that come and go."""

_U = 2.0**-53
_NEVER = (math.nan,)

Array = Any


@dataclass(frozen=True)
class Piece:
    """A number in generated code: how it is written, how large it can be, and how far it may be from what is exact. All
    are written; `stands` where the last two do for a whole block. It is surely unknown where one of `unknown` is true."""

    code: str
    size: str
    error: str = "0.0"
    stands: bool = True
    unknown: tuple[str, ...] = ()


@dataclass
class InWindow:
    """The pieces of one window in generated code, by the names that its columns have there; asked for, they are made."""

    stream: str
    number: int
    columns: list[str] = field(default_factory=list)
    lines: dict[str, str] = field(default_factory=dict)
    """How what is shared by several pieces is worked out, by its name."""
    settled: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What is worked out once for a block, by its name: a level, with an error."""

    @property
    def standing(self) -> list[str]:
        """The names of what stands for a whole block."""
        return [self.young, *(name for key in self.settled for name in (key, f"off_{key}"))]

    @property
    def young(self) -> str:
        """The name of whether the window's span has not been lived yet."""
        return f"young__{self.stream}_{self.number}"

    def _column(self, name: str) -> str:
        if name not in self.columns:
            self.columns.append(name)
        return f"{name}__{self.stream}_{self.number}"

    def _line(self, name: str, code: str) -> str:
        name = f"{name}__{self.stream}_{self.number}"
        self.lines.setdefault(name, code)
        return name

    def _total(self) -> str:
        return self._line("total", f"{self._column('older')} + sum__{self.stream}")

    def mean(self) -> Piece:
        share = self._column("share")
        code = self._line("mean", f"{self._total()} * {share} + pivot__{self.stream}")
        return Piece(code, f"size__{self.stream}", f"off_mean__{self.stream}", unknown=(self.young,))

    def var(self) -> Piece:
        squares, share, spare = self._column("squares"), self._column("share"), self._column("spare")
        total = self._total()
        code = self._line("var", f"({squares} + squares__{self.stream} - {total} * {total} * {share}) * {spare}")
        return Piece(code, f"size_var__{self.stream}", f"off_var__{self.stream}", unknown=(self.young,))

    def std(self) -> Piece:
        var = self.var().code
        code = self._line("std", f"0.0 if {var} < 0.0 else sqrt({var})")
        return Piece(code, f"size_std__{self.stream}", f"off_std__{self.stream}", unknown=(self.young,))

    def least(self) -> Piece:
        low, new = self._column("low"), f"low__{self.stream}"
        code = self._line("least", f"{low} if {low} < {new} else {new}")
        return Piece(code, f"size__{self.stream}", unknown=(self.young,))

    def greatest(self) -> Piece:
        high, new = self._column("high"), f"high__{self.stream}"
        code = self._line("greatest", f"{high} if {high} > {new} else {new}")
        return Piece(code, f"size__{self.stream}", unknown=(self.young,))

    def quantile(self, above: int, below: int) -> Piece:
        return self._settled("quantile", (above, below))

    def mad(self) -> Piece:
        return self._settled("mad", ())

    def _settled(self, what: str, of: tuple[int, ...]) -> Piece:
        name = "_".join([what, *map(str, of), "", self.stream, str(self.number)])
        self.settled[name] = (what, *map(str, of))
        return Piece(name, f"abs({name})", f"off_{name}", unknown=(self.young,))


class Ahead:
    """The windows of one metric, and its points since they were last handed over.

    `values` takes the points of a block, which are finite but for a first one, at steps that are equally far apart.
    """

    def __init__(self, windows: Sequence[Deferred], wanted: Sequence[tuple[Deferred, InWindow]]) -> None:
        self.values: list[float] = []
        self._windows = list(windows)
        self._wanted = list(wanted)
        self._first = self._stride = 0
        self._given = 0
        """How many of the block's points the windows have been handed."""
        self._poor = 0
        self._rest = 0

    # ---------------------------------------------------------------- points

    def hand_over(self) -> None:
        """Let the windows have the points that have come."""
        given, count = self._given, len(self.values)
        if given == count:
            return
        self._given = count
        stride = self._stride
        newest = self._first + (count - 1) * stride
        if not given and not math.isfinite(self.values[0]):
            for window in self._windows:
                window.push(self._first, math.nan, self.values[0])
            given = 1
            if given == count:
                return
        if count - given == 1:
            for window in self._windows:
                window.push(newest, math.nan, self.values[-1])
            return
        values = array("d", self.values[given:] if given else self.values)
        steps = numbers(range(self._first + given * stride, newest + 1, stride))
        for window in self._windows:
            window.push_finite(steps, values)

    # ---------------------------------------------------------------- blocks

    def renew(self, step: int, value: float, stride: int, place: int, among: int) -> tuple[Any, ...]:
        """Begin a block at a point, others to come every so many steps. Of several streams that begin one at the same step
        each has another place: their blocks are of different lengths, so that they do not do so again.

        The pivot, the reach, the bounds on sizes and errors (`NAMES`), what stands for the whole block, and its rows.
        """
        self.hand_over()
        used = len(self.values)
        self.values.clear()
        self._given = 0
        self._first, self._stride = step, stride
        self._poor = self._poor + 1 if used < POOR else 0
        if self._poor >= POORLY:
            self._poor, self._rest = 0, RESTS
        self._rest = max(0, self._rest - used)
        if self._rest or not math.isfinite(value):
            return self._blank(value)
        with np.errstate(all="ignore"):
            return self._block(value, place, among)

    def _blank(self, value: float) -> tuple[Any, ...]:
        """A block that says nothing: every comparison is left to the windows themselves."""
        stands = [each for _, asked in self._wanted for each in (False, *_NEVER * 2 * len(asked.settled))]
        row = _NEVER * max(1, sum(len(asked.columns) for _, asked in self._wanted))
        rows = itertools.repeat(row, RESTS if math.isfinite(value) else 1)
        return (0.0, math.inf, *_NEVER * 6, *stands, rows)

    def _block(self, value: float, place: int, among: int) -> tuple[Any, ...]:
        pasts: dict[tuple[str, bool], _Past] = {}
        for window in sorted((window for window, _ in self._wanted), key=lambda window: -window.size):
            pasts.setdefault((window.unit, window.with_infinite), _Past(window, self._first, self._stride))
        tracks = [_Track(window, pasts[window.unit, window.with_infinite]) for window, _ in self._wanted]
        length = min(LONGEST, *(track.stays for track in tracks))
        if length < SHORTEST:
            return self._blank(value)
        length = min(max(1, length * (place + 1) // among), *(track.until_lived for track in tracks))
        pivot = _middle(value, *(past.edges() for past in pasts.values()))
        largest = max(abs(value - pivot), *(past.look(length, pivot) for past in pasts.values()))
        leaving = length
        columns: list[list[float]] = []
        stands: list[float | bool] = []
        for track, (_, asked) in zip(tracks, self._wanted):
            track.look(length)
            leaving = max(leaving, track.leaving)
            columns += [track.column(name) for name in asked.columns]
            stands.append(not track.is_warm)
            for what in asked.settled.values():
                stands += track.settled(what, length)
        reach = REACH * largest
        roundings = (length + leaving + 80) * _U
        size = abs(pivot) + reach
        off_var = 8 * roundings * reach * reach
        bounds = (size, 3 * reach * reach, 2 * reach, roundings * reach + 4 * _U * size, off_var, math.sqrt(off_var))
        rows: Iterator[tuple[float, ...]] = zip(*columns) if columns else itertools.repeat(_NEVER, length)
        return (pivot, reach, *bounds, *stands, rows)


NAMES = ("pivot", "reach", "size", "size_var", "size_std", "off_mean", "off_var", "off_std")
"""What `renew` gives before that which stands for a block."""


class _Past:
    """The points behind windows of one unit, which are those of the longest of them; and the places of those to come."""

    def __init__(self, longest: Deferred, step: int, stride: int) -> None:
        self.places, self.values = map(np.asarray, longest.trail.columns())
        self.begin, self.stride = (step, stride) if longest.unit == STEPS else (longest.seen, 1)
        self.first = longest.first

    def edges(self) -> tuple[float, ...]:
        return (float(self.values[0]), float(self.values[-1])) if len(self.values) else ()

    def look(self, length: int, pivot: float) -> float:
        """Prepare for so many points to come; how far the farthest point is from the pivot."""
        self.coming: Array = self.begin + self.stride * np.arange(length)
        self.counting: Array = np.arange(1, length + 1)
        self.away: Array = self.values - pivot
        self.squared: Array = self.away * self.away
        return math.sqrt(self.squared.max()) * (1 + 4 * _U) if len(self.values) else 0.0


class _Track:
    """One window and the points to come: which of its points are left in it at each of them."""

    def __init__(self, window: Deferred, past: _Past) -> None:
        self.window = window
        self.past = past
        self.stays = int(window.size // past.stride)
        """So many points to come are all still in the window when the last of them has come."""
        warm = window.size + (past.first - 1 if window.unit == STEPS else -1)
        self.is_warm = past.begin >= warm
        self.until_lived = LONGEST if self.is_warm else math.ceil((warm - past.begin) / past.stride)
        """So many points come before its span has been lived."""

    def look(self, length: int) -> None:
        past, window = self.past, self.window
        bounds = past.coming - math.floor(window.size)
        if past.places.dtype.kind == "i":  # places of another type would all be converted first
            bounds = bounds.astype(past.places.dtype)
        left = past.places.searchsorted(bounds, side="right")
        self.begin, self.end = int(left[0]), int(left[-1])
        self.leaving = self.end - self.begin
        """So many points are in it at the first of them and not at the last."""
        self.left = left - self.begin
        self.counts = past.counting + len(past.values) - left

    def column(self, name: str) -> list[float]:
        if not self.is_warm:
            return [math.nan] * len(self.counts)
        told: list[float] = getattr(self, f"_{name}")().tolist()
        return told

    def _older(self) -> Array:
        return self._sums(self.past.away)

    def _squares(self) -> Array:
        return self._sums(self.past.squared)

    def _sums(self, terms: Array) -> Array:
        begin, end, leaving = self.begin, self.end, self.leaving
        sums = np.empty(leaving + 1)
        sums[leaving] = 0.0
        np.add.accumulate(terms[begin:end][::-1], out=sums[:leaving][::-1])
        sums += terms[end:].sum()
        return sums[self.left]

    def _share(self) -> Array:
        return 1.0 / self.counts

    def _spare(self) -> Array:
        return 1.0 / (self.counts - 1)

    def _high(self) -> Array:
        return self._extremes(np.maximum, -math.inf)

    def _low(self) -> Array:
        return self._extremes(np.minimum, math.inf)

    def _extremes(self, greater: Any, none: float) -> Array:
        begin, end, leaving = self.begin, self.end, self.leaving
        values = self.past.values
        best = np.empty(leaving + 1)
        best[leaving] = none
        greater.accumulate(values[begin:end][::-1], out=best[:leaving][::-1])
        return greater(best[self.left], greater.reduce(values[end:], initial=none))

    # ---------------------------------------------------------------- order

    def settled(self, what: tuple[str, ...], length: int) -> tuple[float, float]:
        """The middle of what a value of order may be during a block, and how far it may be from there: so many points
        come, as many go, and no rank moves farther than that."""
        if not self.is_warm:
            return math.nan, math.nan
        ordered = np.sort(self.past.values[self.begin :])
        if what[0] == "mad":
            low, high = self._between(ordered, length, 1, 2)
            if not math.isfinite(low) or not math.isfinite(high):
                return math.nan, math.nan
            middle, off = low / 2 + high / 2, high / 2 - low / 2
            low, high = self._between(np.sort(np.abs(ordered - middle)), length, 1, 2)
            low, high = 1.4826 * max(0.0, low - off) * (1 - 8 * _U), 1.4826 * (high + off) * (1 + 8 * _U)
        else:
            low, high = self._between(ordered, length, int(what[1]), int(what[2]))
        return low / 2 + high / 2, (high / 2 - low / 2) * (1 + 8 * _U) + 8 * _U * max(abs(low), abs(high))

    def _between(self, ordered: Array, length: int, above: int, below: int) -> tuple[float, float]:
        fewest, most = int(self.counts.min()), int(self.counts.max())
        lowest = (fewest - 1) * above // below - length
        highest = -((most - 1) * -above // below) + self.leaving
        low = float(ordered[lowest]) if lowest >= 0 else -math.inf
        return low, float(ordered[highest]) if highest < len(ordered) else math.inf


def _middle(value: float, *edges: tuple[float, ...]) -> float:
    """A level in the midst of the points: exactly theirs where all are equal."""
    known = sorted([value, *itertools.chain.from_iterable(edges)])
    middle = known[len(known) // 2]
    return middle if math.isfinite(middle) else 0.0
