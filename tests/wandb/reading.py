"""Reading a feed as a watcher does: again and again, from a cursor that went through a store."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vitalsdsl_wandb.feed import WandbFeed
from vitalsdsl_wandb.remote import target

from vitalsdsl.ground.errors import TrackerError
from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl.watching.feeds import Wanted

Event = Row | Rewind


class Watcher:
    """Reads one run. Every reading is by a new feed, as after a restart, unless `keeps` it."""

    def __init__(self, reference: str = "team/p/r1", **wanted: Any) -> None:
        self.reference = reference
        self.wanted = Wanted(**wanted)
        self.cursor: Mapping[str, Any] | None = None
        self.events: list[Event] = []
        self.notes: list[str] = []
        self.errors: list[TrackerError] = []
        self.batches: list[int] = []
        self.is_over = False

    def feed(self) -> WandbFeed:
        (feed,) = target(self.reference, self.wanted).find()
        assert isinstance(feed, WandbFeed)
        return feed

    def once(self) -> bool:
        """One reading; whether there is more to be had at once. An error that is not final leaves all as it was."""
        try:
            batch = self.feed().read(self.cursor)
        except TrackerError as error:
            if error.is_final:
                raise
            self.errors.append(error)
            return True
        self.cursor = json.loads(json.dumps(batch.cursor, allow_nan=False))
        self.events += batch.events
        self.notes += batch.notes
        self.is_over = batch.is_over
        self.batches.append(sum(len(e.values) for e in batch.events if isinstance(e, Row)))
        return batch.more

    def poll(self) -> list[Event]:
        """All that is to be had now."""
        before = len(self.events)
        for _ in range(200):
            if not self.once():
                return self.events[before:]
        raise AssertionError("there is always more")

    def to_the_end(self) -> list[Event]:
        for _ in range(20):
            self.poll()
            if self.is_over:
                return self.events
        raise AssertionError("the run never ends")

    @property
    def rows(self) -> list[Row]:
        return [event for event in self.events if isinstance(event, Row)]

    @property
    def steps(self) -> list[int]:
        return [row.step for row in self.rows]


def losses(count: int, start: float = 0) -> list[dict[str, Any]]:
    """Rows to be logged."""
    return [{"loss": start + at} for at in range(count)]


def values(rows: Sequence[Event], name: str = "loss") -> list[float]:
    """What the rows among events hold."""
    return [row.values[name] for row in rows if isinstance(row, Row)]


def shown(rows: Sequence[Row]) -> str:
    """Rows in a form in which NaN equals NaN."""
    return repr([(row.step, dict(sorted(row.values.items()))) for row in rows])


def history_of(change: Callable[[list[str]], list[str]]) -> Callable[[dict[str, Any]], None]:
    """What makes another page of an answer's."""

    def apply(answer: dict[str, Any]) -> None:
        run = answer["data"]["project"]["run"]
        run["history"] = change(run["history"])

    return apply
