"""Pieces of generated code: what a window comes to at the newest point, by the names of what has been prepared for it.

`vitalsdsl.kernels.ahead` prepares it: numbers for each point of a block to come, and some that stand for the whole block.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from vitalsdsl.ground.types import STEPS
from vitalsdsl.kernels.deferred import Deferred
from vitalsdsl.kernels.kept_in_order import FEW
from vitalsdsl.kernels.line import Line
from vitalsdsl.kernels.ordered import Ordered
from vitalsdsl.kernels.smoothed import Smoothed
from vitalsdsl.kernels.state import State

SHORT, SPARSE = 250, 100
"""Windows up to this size, or of so few points, are left sooner than a block is worth: they have blocks of their own."""

LINE = 100
"""From this size on blocks are made to fit a window for a line through it."""

MANY = 64
"""From this size on a window's values of order hardly move while some points come."""


@dataclass(frozen=True)
class Piece:
    """A number in generated code: how it is written, how large it can be, and how far it may be from what is exact. All
    are written; `stands` where the last two do for a whole block. It is surely unknown where one of `unknown` is true, and
    where it `is_plain` and comes out as NaN: nothing was prepared for it."""

    code: str
    size: str
    error: str = "0.0"
    stands: bool = True
    unknown: tuple[str, ...] = ()
    is_plain: bool = False
    range: tuple[str, str] | None = None
    """Between what it will be in a chunk of points to come, as long as these are between the `lowest` and `highest` of their
    streams. Where that can be said."""
    lacking: tuple[str, ...] = ()
    """It is surely unknown at the step where one of these is true, whatever the next ones bring."""


@dataclass
class InWindow:
    """The pieces of one window in generated code, by the names that its columns have there; asked for, they are made."""

    stream: str
    number: int
    size: float
    columns: list[str] = field(default_factory=list)
    lines: dict[str, str] = field(default_factory=dict)
    """How what is shared by several pieces is worked out, by its name."""
    outlook: dict[str, str] = field(default_factory=dict)
    """How what it can be in a chunk of points to come is worked out, by its name."""

    @property
    def in_rows(self) -> list[str]:
        """The columns that the rows of a block have for it."""
        return sorted(self.columns)

    @property
    def told(self) -> list[str]:
        """The names by which its pieces go: where nothing that was prepared stands, these are unknown."""
        return list(self.lines)

    @property
    def has_sums(self) -> bool:
        return "older" in self.columns

    @property
    def has_line(self) -> bool:
        return "lean" in self.columns

    @property
    def standing(self) -> list[str]:
        """The names of what stands for a whole block."""
        line = [f"{each}_slope__{self.stream}_{self.number}" for each in ("fewest", "size", "off")]
        return [self.young, self._share, self._spare, *(line if self.has_line else [])]

    @property
    def young(self) -> str:
        """The name of whether the window's span has not been lived yet."""
        return f"young__{self.stream}_{self.number}"

    @property
    def _share(self) -> str:
        return f"share__{self.stream}_{self.number}"

    @property
    def _spare(self) -> str:
        return f"spare__{self.stream}_{self.number}"

    def _column(self, name: str) -> str:
        if name not in self.columns:
            self.columns.append(name)
        return f"{name}__{self.stream}_{self.number}"

    def _line(self, name: str, code: str) -> str:
        name = f"{name}__{self.stream}_{self.number}"
        self.lines.setdefault(name, code)
        return name

    def held(self) -> str:
        """How many points it holds where some are missing."""
        return f"held__{self.stream}_{self.number} - missing__{self.stream}"

    def counted(self) -> list[str]:
        """The lines that share among so many points."""
        held, none = f"held__{self.stream}_{self.number}", [self._share, self._spare, *map(self._column, self.in_rows)]
        return [
            f"{held} = {self.held()}",
            f"if {held} >= {f'fewest_slope__{self.stream}_{self.number}' if self.has_line else 2}:",
            f"    {self._share}, {self._spare} = 1.0 / {held}, 1.0 / ({held} - 1)",
            "else:",
            f"    {' = '.join(none)} = nan",
        ]

    def _total(self) -> str:
        return self._line("total", f"{self._column('older')} + sum__{self.stream}")

    def mean(self) -> Piece:
        x = self.stream
        code = self._line("mean", f"{self._total()} * {self._share} + pivot__{x}")
        low, high = self._totals()
        fewest, most = f"to_{self._share}", f"from_{self._share}"  # of fewer points the share of one is greater
        between = self._between(
            "mean",
            f"{low} * ({most} if {low} > 0.0 else {fewest}) + pivot__{x}",
            f"{high} * ({fewest} if {high} > 0.0 else {most}) + pivot__{x}",
        )
        return Piece(code, f"size__{x}", f"off_mean__{x}", unknown=(self.young,), range=between)

    def var(self) -> Piece:
        x, squares, total = self.stream, self._column("squares"), self._total()
        code = self._line("var", f"({squares} + squares__{x} - {total} * {total} * {self._share}) * {self._spare}")
        return Piece(code, f"size_var__{x}", f"off_var__{x}", unknown=(self.young,), range=self._vars())

    def std(self) -> Piece:
        var = self.var()
        code = self._line("std", _root(var.code))
        between = None if var.range is None else self._between("std", _root(var.range[0]), _root(var.range[1]))
        return Piece(code, f"size_std__{self.stream}", f"off_std__{self.stream}", unknown=(self.young,), range=between)

    def slope(self) -> Piece | None:
        own = f"{self.stream}_{self.number}"
        lean, times = self._column("lean"), self._column("times")
        spread, total = self._column("spread"), self._total()
        x, share = self.stream, self._share
        mid = self._line("mid", f"({times} + times__{x}) * {share}")
        wide = self._line("wide", f"{spread} + spread__{x} - ({times} + times__{x}) * {mid}")
        code = self._line("slope", f"({lean} + lean__{x} - {total} * {mid}) / {wide} if {wide} else nan")
        return Piece(code, f"size_slope__{own}", f"off_slope__{own}", unknown=(self.young,))

    def least(self) -> Piece:
        # Where the older points are unknown (NaN), so is the result.
        x, low = self.stream, self._column("low")
        code = self._line("least", f"{low} if not {low} > low__{x} else low__{x}")
        from_, to = self._ends("low")
        between = self._between("least", f"min({from_}, low__{x}, lowest__{x})", f"min({to}, low__{x})")
        return Piece(code, f"size__{x}", unknown=(self.young,), range=between)

    def greatest(self) -> Piece:
        x, high = self.stream, self._column("high")
        code = self._line("greatest", f"{high} if not {high} < high__{x} else high__{x}")
        from_, to = self._ends("high")
        between = self._between("greatest", f"max({from_}, high__{x})", f"max({to}, high__{x}, highest__{x})")
        return Piece(code, f"size__{x}", unknown=(self.young,), range=between)

    @property
    def ends(self) -> list[str]:
        """Between what its columns lie in a chunk of points to come."""
        return [end for column in self.in_rows for end in self._ends(column)]

    @property
    def ends_of_shares(self) -> list[str]:
        """Between what the shares of its points lie there."""
        shares = [self._share, self._spare] if self.has_sums else []
        return [f"{end}_{share}" for share in shares for end in ("from", "to")]

    def _ends(self, column: str) -> tuple[str, str]:
        return f"from_{column}__{self.stream}_{self.number}", f"to_{column}__{self.stream}_{self.number}"

    def _between(self, name: str, low: str, high: str) -> tuple[str, str]:
        names = f"from_{name}__{self.stream}_{self.number}", f"to_{name}__{self.stream}_{self.number}"
        self.outlook.update(zip(names, (low, high)))
        return names

    def _totals(self) -> tuple[str, str]:
        x, (from_, to) = self.stream, self._ends("older")
        return self._between("total", f"{from_} + sum__{x} + fall__{x}", f"{to} + sum__{x} + rise__{x}")

    def _vars(self) -> tuple[str, str]:
        x, (from_, to), (low, high) = self.stream, self._ends("squares"), self._totals()
        nearest, farthest = self._between(
            "total_squared",
            f"0.0 if {low} <= 0.0 <= {high} else min({low} * {low}, {high} * {high})",
            f"max({low} * {low}, {high} * {high})",
        )
        return self._between(
            "var",
            f"({from_} + squares__{x} - {farthest} * to_{self._share}) * from_{self._spare}",
            f"({to} + squares__{x} + spread__{x} - {nearest} * from_{self._share}) * to_{self._spare}",
        )

    def quantile(self, above: int, below: int) -> Piece | None:
        return None

    def mad(self) -> Piece | None:
        return None

    def score(self) -> Piece | None:
        """How far the newest point is from the median of those before it, in units of their deviation."""
        return None


def _root(var: str) -> str:
    return f"0.0 if {var} < 0.0 else sqrt({var})"


@dataclass
class InShortWindow(InWindow):
    """The same of a window of few points. It has blocks of its own, each as long as itself: what the older points come to is
    worked out in Python, from the newest back, and taken from the end of a list as they leave."""

    @property
    def in_rows(self) -> list[str]:
        return []

    @property
    def standing(self) -> list[str]:
        return [*super().standing, self._count]

    @property
    def _count(self) -> str:
        return f"count__{self.stream}_{self.number}"

    @property
    def lists(self) -> list[str]:
        """The names of what is to come, one list a column: they are empty where a block of it ends."""
        return [f"coming_{column}__{self.stream}_{self.number}" for column in self.columns]

    def held(self) -> str:
        x, count = self.stream, self._count
        return f"{count} - len(missed__{x}) + bisect_left(missed__{x}, len(lately__{x}) - {count})"

    def begin(self) -> list[str]:
        """The lines that begin a block of it, the newest point having been taken in."""
        own = f"__{self.stream}_{self.number}"
        away, raw = (
            f"lately_away__{self.stream}[-2:-{self._count} - 1:-1]",
            f"lately__{self.stream}[-2:-{self._count} - 1:-1]",
        )
        begun = {
            "older": [f"coming_older{own} = [0.0, *accumulate({away})]", f"sum{own} = 0.0"],
            "squares": [f"back = {away}", f"coming_squares{own} = [0.0, *accumulate(map(mul, back, back))]",
                        f"squares_new{own} = 0.0"],
            "low": [f"coming_low{own} = [*accumulate({raw}, min, initial=inf)]", f"least_new{own} = inf"],
            "high": [f"coming_high{own} = [*accumulate({raw}, max, initial=-inf)]", f"greatest_new{own} = -inf"],
        }  # fmt: skip
        return [line for column in self.columns for line in begun[column]]

    def take(self) -> list[str]:
        """The lines that take the newest point in."""
        own, x = f"__{self.stream}_{self.number}", self.stream
        taken = {
            "older": [f"sum{own} += away"],
            "squares": [f"squares_new{own} += away * away"],
            "low": [f"if {x} < least_new{own}:", f"    least_new{own} = {x}"],
            "high": [f"if {x} > greatest_new{own}:", f"    greatest_new{own} = {x}"],
        }
        lines = [line for column in self.columns for line in taken[column]]
        return lines + [f"{column}{own} = coming_{column}{own}.pop()" for column in self.columns]

    def slope(self) -> Piece | None:
        return None

    def _total(self) -> str:
        return self._line("total", f"{self._column('older')} + sum__{self.stream}_{self.number}")

    def mean(self) -> Piece:
        return replace(super().mean(), range=None)

    def std(self) -> Piece:
        code = self._line("std", _root(self.var().code))
        return Piece(code, f"size_std__{self.stream}", f"off_std__{self.stream}", unknown=(self.young,))

    def var(self) -> Piece:
        squares, new, total = self._column("squares"), f"squares_new__{self.stream}_{self.number}", self._total()
        code = self._line("var", f"({squares} + {new} - {total} * {total} * {self._share}) * {self._spare}")
        return Piece(code, f"size_var__{self.stream}", f"off_var__{self.stream}", unknown=(self.young,))

    def least(self) -> Piece:
        low, new = self._column("low"), f"least_new__{self.stream}_{self.number}"
        return self._if_known("least", f"({low} if not {low} > {new} else {new})")

    def greatest(self) -> Piece:
        high, new = self._column("high"), f"greatest_new__{self.stream}_{self.number}"
        return self._if_known("greatest", f"({high} if not {high} < {new} else {new})")

    def quantile(self, above: int, below: int) -> Piece | None:
        if (above, below) != (1, 2) or self.size > FEW:
            return None
        part = f"lately__{self.stream}[-{self._count}:]"
        known = f"sorted(each for each in {part} if each == each) or [nan]"
        ordered = self._line("ordered", f"sorted({part}) if counts__{self.stream} is None else {known}")
        count = f"len({ordered})"
        return self._if_known("median", f"{ordered}[{count} // 2] / 2 + {ordered}[({count} - 1) // 2] / 2")

    def _if_known(self, name: str, code: str) -> Piece:
        """A block that says nothing has no share."""
        code = self._line(name, f"{code} + 0.0 * {self._share}")
        return Piece(code, f"size__{self.stream}", f"off_mean__{self.stream}", unknown=(self.young,))


@dataclass
class InOrderWindow(InWindow):
    """The pieces of a window that are values of order: between brackets, which are renewed after some points."""

    settled: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What is known between brackets, by its name."""

    @property
    def told(self) -> list[str]:
        return [*self.lines, *self.settled]

    @property
    def standing(self) -> list[str]:
        return [self.young]

    @property
    def names(self) -> list[str]:
        """The names of what `settle` gives: each with how far it may be off, and until when it stands."""
        own, numbers = f"{self.stream}_{self.number}", list[str]()
        for name, what in self.settled.items():
            numbers += [name, f"per__{own}"] if what[0] == "score" else [name]
        return [*(each for name in numbers for each in (name, f"off_{name}")), self.stands]

    @property
    def stands(self) -> str:
        return f"stands__{self.stream}_{self.number}"

    def settle(self) -> str:
        """The line that renews them."""
        return f"{', '.join(self.names)} = settle__{self.stream}_{self.number}(step)"

    def quantile(self, above: int, below: int) -> Piece:
        return self._near("quantile", str(above), str(below))

    def mad(self) -> Piece:
        return self._near("mad")

    def score(self) -> Piece:
        x, own = self.stream, f"{self.stream}_{self.number}"
        level, per = f"level__{own}", f"per__{own}"
        self.settled[level] = ("score",)
        apart = self._line("apart", f"{x} - {level}")
        code = self._line("score", f"{apart} * {per}")
        off = self._line(
            "off_score", f"abs({apart}) * off_{per} + off_{level} * ({per} + off_{per}) + 4e-15 * abs({code})"
        )
        down, up = self._between(
            "apart", f"lowest__{x} - {level} - off_{level}", f"highest__{x} - {level} + off_{level}"
        )
        least, most = f"{per} - off_{per}", f"{per} + off_{per}"
        between = self._between(
            "score",
            f"{down} * ({least} if {down} > 0.0 else {most})",
            f"{up} * ({most} if {up} > 0.0 else {least})",
        )
        lacking = (f"{x} - {x} != 0.0",)
        return Piece(code, f"abs({code})", off, False, (self.young,), range=between, lacking=lacking)

    def _near(self, *what: str) -> Piece:
        name = f"{'_'.join(what)}__{self.stream}_{self.number}"
        self.settled[name] = what
        return Piece(name, f"abs({name})", f"off_{name}", False, (self.young,), range=(name, name))


@dataclass
class InSmoothed(InWindow):
    """The pieces of an exponential average: it goes on from point to point."""

    @property
    def told(self) -> list[str]:
        return [*self.lines, f"ema__{self.stream}_{self.number}"]

    @property
    def standing(self) -> list[str]:
        own = f"{self.stream}_{self.number}"
        return [self.young, *(f"{each}__{own}" for each in ("ema", "keep", "lag", "size_ema", "off_ema"))]

    def level(self) -> Piece:
        own = f"{self.stream}_{self.number}"
        code = self._line("level", f"nan if {self.young} else ema__{own}")
        return Piece(code, f"size_ema__{own}", f"off_ema__{own}", unknown=(self.young,))

    def move(self) -> list[str]:
        """The lines that take the newest point in."""
        x, own = self.stream, f"{self.stream}_{self.number}"
        return [
            f"if counts__{x} is None:",
            f"    ema__{own} = {x} + keep__{own} * (ema__{own} - {x})",
            f"elif {x} - {x} == 0.0:",
            f"    ema__{own}, lag__{own} = {x} + keep__{own} ** lag__{own} * (ema__{own} - {x}), 1.0",
            "else:",
            f"    lag__{own} += 1.0",
        ]


def in_window(window: State, stream: str, number: int) -> InWindow:
    """How generated code has a window."""
    if isinstance(window, Smoothed):
        return InSmoothed(stream, number, window.size)
    assert isinstance(window, Deferred)
    if isinstance(window, Ordered) and window.size >= MANY:
        return InOrderWindow(stream, number, window.size)
    is_short = (window.size <= SHORT or _points(window) <= SPARSE) and not (
        isinstance(window, Line) and window.size >= LINE
    )
    return (InShortWindow if is_short else InWindow)(stream, number, window.size)


def _points(window: Deferred) -> float:
    """About so many it comes to hold, by those that it has."""
    trail = window.trail
    if window.unit != STEPS or len(trail) < 2:
        return window.size
    return window.size * (len(trail) - 1) / (trail.place(-1) - trail.place(0))


@dataclass
class InReference:
    """The pieces of a reference, by its number in generated code: between brackets, which are renewed now and then."""

    number: int
    wants_noise: bool = False

    def usual(self) -> Piece:
        return self._near("usual")

    def noise(self) -> Piece:
        self.wants_noise = True
        return self._near("noise")

    def _near(self, name: str) -> Piece:
        name = f"{name}_{self.number}"
        return Piece(name, f"abs({name})", f"off_{name}", stands=False)
