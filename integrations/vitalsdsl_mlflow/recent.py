"""Points of one metric where they stand among all of its run, and the newest given ones of it, packed."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Iterator
from typing import NamedTuple

from vitalsdsl_mlflow.rows import LoggedPoint

_PACKED = struct.Struct("<qqd")


class Placed(NamedTuple):
    """A point where it stands among all of its run: by time, step, metric and value, as MLflow's stores order them.

    They keep NaN as 0 with a mark.
    """

    timestamp: int
    step: int
    key: str
    value: float
    is_nan: bool

    def point(self) -> LoggedPoint:
        return LoggedPoint(self.key, math.nan if self.is_nan else self.value, self.step, self.timestamp)


def placed(point: LoggedPoint) -> Placed:
    is_nan = point.value != point.value
    return Placed(point.timestamp, point.step, point.key, 0.0 if is_nan else point.value, is_nan)


class Recent:
    """Points in the order in which they were given, the oldest first; 24 bytes each, as a watcher of hundreds of runs
    holds hundreds of thousands.

    >>> recent = Recent("loss")
    >>> for step in range(3):
    ...     recent.append(Placed(1000 * step, step, "loss", 0.5, False))
    >>> recent.popleft().step, Placed(2000, 2, "loss", 0.5, False) in recent, len(recent)
    (0, True, 2)
    >>> [point.step for point in recent.newest(1)], [point.step for point in Recent.load("loss", recent.save())]
    ([2], [1, 2])
    """

    def __init__(self, key: str, packed: bytes = b"") -> None:
        self._key = key
        self._packed = bytearray(packed)

    def append(self, point: Placed) -> None:
        self._packed += _pack(point)

    def popleft(self) -> Placed:
        point = self._at(0)
        del self._packed[: _PACKED.size]
        return point

    def pop(self) -> None:
        """Take the newest away again."""
        del self._packed[-_PACKED.size :]

    def newest(self, count: int) -> list[Placed]:
        """So many of the newest, or all there are."""
        return [self._at(at) for at in range(max(0, len(self) - count), len(self))]

    def __len__(self) -> int:
        return len(self._packed) // _PACKED.size

    def __iter__(self) -> Iterator[Placed]:
        return iter(self.newest(len(self)))

    def __contains__(self, point: Placed) -> bool:
        packed = _pack(point)
        at = self._packed.find(packed)
        while at % _PACKED.size and at >= 0:
            at = self._packed.find(packed, at + 1)
        return at >= 0

    def save(self) -> str:
        return base64.b64encode(self._packed).decode()

    @classmethod
    def load(cls, key: str, saved: str) -> Recent:
        """Raises ValueError or TypeError where it was not saved so."""
        packed = base64.b64decode(saved, validate=True)
        if len(packed) % _PACKED.size:
            raise ValueError("half a point")
        return cls(key, packed)

    def _at(self, number: int) -> Placed:
        time, step, value = _PACKED.unpack_from(self._packed, number * _PACKED.size)
        return placed(LoggedPoint(self._key, value, step, time))


def _pack(point: Placed) -> bytes:
    # 0.0 makes one zero of the two, which are equal and differ as bytes
    return _PACKED.pack(point.timestamp, point.step, math.nan if point.is_nan else point.value + 0.0)
