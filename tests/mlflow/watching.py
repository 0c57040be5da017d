"""What the tests of runs watched from outside share: reading a feed to its end, and the points that it gave."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from vitalsdsl_mlflow.remote import RunFeed
from vitalsdsl_mlflow.stores import Store
from vitalsdsl_mlflow.targets import store_of, target

from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl.watching.feeds import Batch, Wanted

Event = Row | Rewind


def feed_of(store: Store | str, run: str, **options: Any) -> RunFeed:
    """A feed of its own of one run, as after a restart."""
    opened = store_of(store) if isinstance(store, str) else store
    return RunFeed(opened, opened.run(run), **options)


def watched(
    make: Callable[[], RunFeed],
    *,
    pause: float = 0.0,
    restart: bool = False,
    until: Callable[[Batch], bool] = lambda batch: batch.is_over,
    cursor: Any = None,
    limit_s: float = 120.0,
) -> tuple[list[Event], list[str], Any]:
    """The events, notes and last cursor of a run that is read until it is over.

    With `restart` every batch is read by a feed of its own, from a cursor that went through JSON.
    """
    events: list[Event] = []
    notes: list[str] = []
    feed = make()
    end = time.monotonic() + limit_s
    while True:
        assert time.monotonic() < end, "the run is not over in time"
        batch = feed.read(cursor)
        events += batch.events
        notes += batch.notes
        cursor = json.loads(json.dumps(batch.cursor, allow_nan=False))
        if until(batch):
            return events, notes, cursor
        if restart:
            feed = make()
        if not batch.more:
            time.sleep(pause)


def points(events: Iterable[Event]) -> Counter[tuple[str, int, str]]:
    """Every point by name, step and value."""
    return Counter(
        (name, event.step, repr(value))
        for event in events
        if isinstance(event, Row)
        for name, value in event.values.items()
    )


def plain(events: Iterable[Event]) -> list[tuple[Any, ...]]:
    """Events as they can be compared: NaN equals NaN."""
    found: list[tuple[Any, ...]] = []
    for event in events:
        if isinstance(event, Rewind):
            found.append(("rewind", event.step))
        else:
            found.append((event.step, event.time, {name: repr(value) for name, value in event.values.items()}))
    return found


def wave(name: int, step: int) -> float:
    """A value with NaN and infinities among it."""
    if (step + name) % 97 == 0:
        return math.nan
    if (step + name) % 89 == 0:
        return math.inf if name % 2 else -math.inf
    return math.sin(step / 10 + name)


__all__ = ["Wanted", "feed_of", "plain", "points", "target", "watched", "wave"]
