"""When a server wants to be asked again: what its headers say, whichever server it is."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime

from vitalsdsl.ground.points import number

LONGEST = 3600.0
"""Seconds; no server is believed beyond that."""


def retry_after(said: str, date: str = "") -> float | None:
    """Seconds from now, by the header `Retry-After`: a number of them, or a date. None where it says nothing of use.

    A date is measured from the server's own `Date`, where it gives one: its clock may differ from ours.

    >>> retry_after("7"), retry_after("Thu, 01 Jan 2026 00:00:30 GMT", "Thu, 01 Jan 2026 00:00:00 GMT")
    (7.0, 30.0)
    >>> retry_after("soon"), retry_after("-3"), retry_after("1e9")
    (None, 0.0, 3600.0)
    """
    seconds = number(said.strip())
    if seconds is None and (at := unix_time(said)):
        seconds = at - (unix_time(date) or time.time())
    if seconds is None or seconds != seconds:
        return None
    return min(max(seconds, 0.0), LONGEST)


def unix_time(date: str) -> float:
    """An HTTP date in unix seconds; 0 where it is none."""
    try:
        return parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError, OverflowError):
        return 0.0
