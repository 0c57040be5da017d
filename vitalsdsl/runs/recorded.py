"""A policy over a run that was logged, given as rows or columns."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, cast

import numpy as np

from vitalsdsl.attaching.session import whole_step
from vitalsdsl.columns.batch import Batch
from vitalsdsl.ground.errors import UsageError
from vitalsdsl.ground.points import Rewind, Row, number
from vitalsdsl.kernels.columns import Array
from vitalsdsl.nodes.table import AT_ONCE, GrowingTable, Table, alike
from vitalsdsl.policies.policy import LoadedPolicy, as_policy
from vitalsdsl.verdicts.verdict import Transition


def replay(
    policy: str | os.PathLike[str] | LoadedPolicy,
    rows: Iterable[Mapping[str, Any] | Row | Rewind] | Mapping[str, Sequence[Any]],
    *,
    run: str = "run",
    nan_is_missing: bool = False,
    total_steps: float = math.nan,
) -> list[Transition]:
    """The transitions that a policy (a file, `pack:NAME`, or one that was loaded) gives on points that were logged.

    `rows` are dicts with a `step` (and `_time`, in seconds, where known), `{"rewind": k}` among them, or one mapping of
    equal-length columns. None and a masked entry are no point; NaN is one, unless `nan_is_missing`. Raises UsageError
    for a step that is no whole number.

    >>> import vitalsdsl as vitals
    >>> policy = vitals.load("spikes", text="when loss > 3 -> red")
    >>> [t.step for t in vitals.replay(policy, {"step": [1, 2, 3], "loss": [1.0, 5.0, None]})]
    [2]
    """
    loaded, logged = as_policy(policy), Logged(rows, nan_is_missing)
    return Batch(loaded.policy, loaded.digest).transitions(logged, run, total_steps, logged.table())


class Logged(Iterable["Row | Rewind"]):
    """What was logged, as events for who asks for them, and as columns: that takes a fifth of the time."""

    def __init__(
        self, rows: Iterable[Mapping[str, Any] | Row | Rewind] | Mapping[str, Sequence[Any]], nan_is_missing: bool
    ) -> None:
        self._rows = rows if isinstance(rows, Mapping) else list(rows)
        self._nan_is_missing = nan_is_missing

    def __iter__(self) -> Iterator[Row | Rewind]:
        return events(self._rows, self._nan_is_missing)

    def table(self) -> Table | None:
        """The columns; None where the events have to be gone through, be it for what is wrong with one of them."""
        growing = GrowingTable()
        for steps, times, columns in self._pieces():
            if steps is None or not growing.add(steps, times, columns):
                return None
        return growing.table()

    def _pieces(self) -> Iterator[tuple[Array | None, Array, list[_Points]]]:
        if isinstance(self._rows, Mapping):
            if len({len(column) for column in self._rows.values()}) == 1:
                yield self._of_columns(self._rows)
            else:
                yield _UNREAD
            return
        for begin in range(0, len(self._rows), AT_ONCE):
            yield self._of_rows(self._rows[begin : begin + AT_ONCE])

    def _of_rows(self, rows: Sequence[Any]) -> tuple[Array | None, Array, list[_Points]]:
        """The steps of some rows (None where they have to be gone through), their times, and their columns."""
        if set(map(type, rows)) != {dict}:
            return _UNREAD
        steps, times = np.zeros(len(rows), np.int64), np.full(len(rows), math.nan)
        columns: list[_Points] = []
        for names, which, own in alike(rows):
            flat: list[Any] = list(chain.from_iterable(map(dict.values, cast("Sequence[dict[str, Any]]", own))))
            of_kind = {name: flat[place :: len(names)] for place, name in enumerate(names)}
            own_steps, own_times, own_columns = self._of_columns(of_kind)
            if own_steps is None:
                return _UNREAD
            here = slice(None) if which is None else which
            steps[here], times[here] = own_steps, own_times
            for name, part, values in own_columns:
                columns.append((name, which if part is None else part if which is None else which[part], values))
        return steps, times, columns

    def _of_columns(self, columns: Mapping[str, Sequence[Any]]) -> tuple[Array | None, Array, list[_Points]]:
        count = len(next(iter(columns.values()), ()))
        if "step" not in columns or "rewind" in columns or not count:
            return _UNREAD
        steps = _whole(columns["step"])
        if steps is None:
            return _UNREAD
        times = np.full(count, math.nan)
        found: list[_Points] = []
        for name, column in columns.items():
            if name == "step":
                continue
            which, values = _numbers(column)
            if name == "_time":
                times[slice(None) if which is None else which] = values
                continue
            missing = np.isnan(values) if self._nan_is_missing else None
            if missing is not None and missing.any():
                which, values = (np.arange(count) if which is None else which)[~missing], values[~missing]
            if len(values):
                found.append((name, which, values))
        return steps, times, found


_Points = tuple[str, "Array | None", Array]
"""A name, the rows at which it has a point (None for all), and the values."""

_UNREAD: tuple[None, Array, list[_Points]] = (None, np.zeros(0), [])


_LARGEST_STEP = 2**53
"""Beyond this not every whole number is a float."""


def _whole(column: Sequence[Any]) -> Array | None:
    """Steps; None where not all of them are plain whole numbers."""
    if _kind(column) not in "iu" and set(map(type, column)) != {int}:
        return None
    try:
        steps = np.array(column, np.int64)
    except OverflowError:
        return None
    return steps if (np.abs(steps) <= _LARGEST_STEP).all() else None


def _numbers(column: Sequence[Any]) -> tuple[Array | None, Array]:
    """Which entries of a column are numbers (None for all), and these, as `number` has them."""
    if _kind(column) in "fiu":
        return None, np.asarray(column, float)
    if set(map(type, column)) <= {float, int}:
        try:
            return None, np.fromiter(column, float, len(column))
        except OverflowError:  # a whole number that is too large for a float is infinite
            pass
    listed = list(map(number, column))
    which = [place for place, one in enumerate(listed) if one is not None]
    return np.array(which, np.int64), np.array([listed[place] for place in which], float)


def _kind(column: Sequence[Any]) -> str:
    """The kind of an array's numbers, none of them masked; else a blank."""
    kind, mask = getattr(getattr(column, "dtype", None), "kind", ""), getattr(column, "mask", None)
    return kind if kind and getattr(column, "ndim", 0) == 1 and (mask is None or callable(mask)) else " "


def events(
    rows: Iterable[Mapping[str, Any] | Row | Rewind] | Mapping[str, Sequence[Any]], nan_is_missing: bool = False
) -> Iterator[Row | Rewind]:
    """Rows of any of the accepted forms as rows and rewinds."""
    if isinstance(rows, Mapping):
        names = list(rows)
        if "step" not in names:
            raise UsageError("columns need one called `step`")
        if len({len(rows[name]) for name in names}) != 1:
            raise UsageError("columns must be of equal length")
        rows = (dict(zip(names, values)) for values in zip(*(_listed(rows[name]) for name in names)))
    for row in rows:
        if isinstance(row, (Row, Rewind)):
            yield row
        elif "rewind" in row:
            yield Rewind(whole_step(row["rewind"]))
        else:
            yield _row(row, nan_is_missing)


def _listed(column: Sequence[Any]) -> Sequence[Any]:
    """A column of an array's numbers as plain ones, all at once: one by one it takes five times as long."""
    if _kind(column) in "fiu":
        listed: Sequence[Any] = column.tolist()  # type: ignore[attr-defined]
        return listed
    return column


def _row(row: Mapping[str, Any], nan_is_missing: bool) -> Row:
    step = number(row.get("step"))
    if step is None or not step.is_integer():
        raise UsageError(f"a row needs a whole `step`, not {row.get('step')!r}")
    values = {}
    for name, given in row.items():
        value = number(given) if name not in ("step", "_time") else None
        if value is not None and not (nan_is_missing and value != value):
            values[name] = value
    time = number(row.get("_time"))
    return Row(int(step), values, math.nan if time is None else time)
