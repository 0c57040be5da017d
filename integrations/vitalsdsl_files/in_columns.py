"""Rows of a long log as columns, many at once: what `Stepping` makes of each, where they are as simple as nearly all are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, cast

import numpy as np

from vitalsdsl.ground.points import Rewind, Row, number
from vitalsdsl.kernels.columns import Array
from vitalsdsl.nodes.table import AT_ONCE, Piece, alike, in_lists
from vitalsdsl_files.counting import counted
from vitalsdsl_files.format import Pieces, Reading
from vitalsdsl_files.rows import (
    LARGEST,
    ROLE_KEYS,
    TIME_KEYS,
    Chunk,
    LoggedRow,
    Stepping,
    flat,
    role_of,
    without_percent,
)
from vitalsdsl_files.segments import Track, kind_of

_NUMBERS = {float, int}
_NESTED = {dict, list}
_Column = tuple[str, "Array | None", Array]


def in_pieces(chunks: Iterator[Chunk], reading: Reading, canonical: bool = False) -> Pieces:
    """The rows of a log as `rows.stepped` has them, chunk by chunk. Raises SourceError where they have no step."""
    current: Iterator[dict[str, object] | Rewind] = iter(())

    def one_by_one() -> Iterator[LoggedRow | Rewind]:
        nonlocal current
        for chunk in chunks:
            current = iter(chunk)
            for row in current:
                yield row if isinstance(row, Rewind) else flat(row)

    coming = one_by_one()
    stepping = Stepping(coming, reading, canonical)
    if stepping.is_counted:
        all_rows = counted(chain(stepping.sample, coming))
        yield from in_lists((found for row in all_rows if (found := stepping.event(row)) is not None), AT_ONCE)
    else:
        yield [found for row in stepping.sample if (found := stepping.event(row)) is not None]
        for chunk in chain([list(current)], chunks):
            yield _piece(chunk, stepping) if chunk else []
    stepping.finish()


class Held(Sequence["Row | Rewind"]):
    """The events of a log that is held in memory, as columns: an eighth of what its rows would take. `nodes.table.InPieces`,
    too."""

    def __init__(self, pieces: Sequence[Piece | Sequence[Row | Rewind]]) -> None:
        self._pieces = pieces

    def __len__(self) -> int:
        return sum(map(len, self._pieces))

    def __iter__(self) -> Iterator[Row | Rewind]:
        return rows_in(self._pieces)

    def __getitem__(self, place: Any) -> Any:
        return list(self)[place]

    def pieces(self) -> Pieces:
        return iter(self._pieces)


def rows_in(pieces: Iterable[Piece | Sequence[Row | Rewind]]) -> Iterator[Row | Rewind]:
    """The events themselves, one by one."""
    return chain.from_iterable(piece.rows() if isinstance(piece, Piece) else piece for piece in pieces)


def size_of(piece: Piece | Sequence[Row | Rewind]) -> int:
    """How many values are in it, with a step for each row."""
    if isinstance(piece, Piece):
        return len(piece) + sum(len(values) for _, _, values in piece.columns)
    return sum(1 if isinstance(event, Rewind) else 1 + len(event.values) for event in piece)


def follow(track: Track, pieces: Iterable[Piece | Sequence[Row | Rewind]]) -> None:
    """Have a track see where a log goes."""
    for piece in pieces:
        if isinstance(piece, Piece):
            track.extend(piece.steps.tolist(), _kinds(piece))
        else:
            for event in piece:
                track.add(event)


def _kinds(piece: Piece) -> list[int]:
    """What `segments.kind_of` says of the names in each row."""
    if all(which is None for _, which, _ in piece.columns):
        return [kind_of(name for name, _, _ in piece.columns)] * len(piece.steps)
    marks = np.zeros((len(piece.steps), len(piece.columns)), bool)
    for place, (_, which, _) in enumerate(piece.columns):
        marks[slice(None) if which is None else which, place] = True
    patterns = list(map(bytes, np.packbits(marks, axis=1)))
    kinds = {}
    for row, pattern in enumerate(patterns):
        if pattern not in kinds:
            kinds[pattern] = kind_of(piece.columns[place][0] for place in np.nonzero(marks[row])[0].tolist())
    return [kinds[pattern] for pattern in patterns]


def _piece(chunk: Chunk, stepping: Stepping) -> Piece | Sequence[Row | Rewind]:
    if set(map(type, chunk)) == {dict}:
        rows = cast("Sequence[dict[str, object]]", chunk)
        piece = _columns(rows, stepping.key)
        if piece is not None:
            return piece
    each = (row if isinstance(row, Rewind) else flat(row) for row in chunk)
    return [found for row in each if (found := stepping.event(row)) is not None]


def _columns(rows: Sequence[dict[str, object]], key: str, are_flat: bool = False) -> Piece | None:
    """Rows as columns; None where one of them wants a closer look."""
    steps, times = np.zeros(len(rows), np.int64), np.full(len(rows), math.nan)
    columns: list[_Column] = []
    for names, which, own in alike(rows):
        values = list(chain.from_iterable(map(dict.values, cast("Sequence[dict[str, object]]", own))))
        kinds = set(map(type, values))
        if not are_flat and not _NESTED.isdisjoint(kinds):
            return _columns([flat(row) for row in rows], key, are_flat=True)
        logged = {name: values[place :: len(names)] for place, name in enumerate(names)}
        own_steps, own_times = _steps(logged.get(key)), _times(logged, len(own))
        if own_steps is None or own_times is None or _has_role(own, logged):
            return None
        here = slice(None) if which is None else which
        steps[here], times[here] = own_steps, own_times
        for name, column in logged.items():
            if name[:1] == "_" or name == "timestamp" or (name == key and key != "epoch"):
                continue
            part, numbers = _numbers(column, kinds)
            if len(numbers):
                columns.append((name, which if part is None else part if which is None else which[part], numbers))
    return Piece(steps, times, columns)


def _has_role(rows: Sequence[Mapping[str, object]], logged: Mapping[str, object]) -> bool:
    """Whether one of them says that it is an evaluation's."""
    return not ROLE_KEYS.isdisjoint(logged) and any(role_of(row) is not None for row in rows)


def _steps(column: Sequence[object] | None) -> Array | None:
    """Steps; None where not all of them are plain whole numbers."""
    kinds = set(map(type, column or ()))
    if column is None or len(kinds) != 1:
        return None
    if kinds == {int}:
        try:
            steps = np.array(column, np.int64)
        except OverflowError:
            return None
        return steps if (np.abs(steps) <= LARGEST).all() else None
    found = _floats(column, kinds)
    is_whole = found is not None and (np.abs(found) <= LARGEST).all() and (found == np.floor(found)).all()
    return found.astype(np.int64) if found is not None and is_whole else None


def _times(logged: Mapping[str, Sequence[object]], count: int) -> Array | None:
    """The wall time of each row, NaN where none has one; None where some have and some have not."""
    for name in TIME_KEYS:
        column = logged.get(name, ())
        found = _floats(column, set(map(type, column)))
        if found is None:
            listed = [x for x in map(number, column) if x is not None and math.isfinite(x)]
            if not listed:
                continue
            found = np.array(listed)
        return found if len(found) == count and np.isfinite(found).all() else None
    return np.full(count, math.nan)


def _numbers(column: Sequence[object], kinds: set[type]) -> tuple[Array | None, Array]:
    """Which entries of a column are numbers (None for all), and these, as `rows.row_of` has them. `kinds` are those of
    all the columns together."""
    found = _floats(column, kinds if kinds <= _NUMBERS else set(map(type, column)))
    if found is not None:
        return None, found
    listed = [number(without_percent(value)) for value in column]
    which = [place for place, one in enumerate(listed) if one is not None]
    numbers = np.array([listed[place] for place in which], float)
    return (None if len(which) == len(listed) else np.array(which, np.int64)), numbers


def _floats(column: Sequence[object], kinds: set[type]) -> Array | None:
    """A column of numbers, or of texts that are numbers; None where one of them is none."""
    try:
        if kinds <= _NUMBERS:
            return np.fromiter(cast("Sequence[float]", column), float, len(column)) if column else None
        if kinds == {str} and "_" not in "".join(cast("Sequence[str]", column)):  # which Python reads within numbers
            return np.array(list(map(float, cast("Sequence[str]", column))))
    except (OverflowError, ValueError):  # a whole number that is too large for a float is infinite
        pass
    return None
