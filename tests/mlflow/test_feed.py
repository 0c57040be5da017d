"""A run read from outside: every point once, in the order of a recorded run, from any cursor, whatever fails."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest
from vitalsdsl_mlflow.remote import BATCH, QUIET_S, RunFeed

from tests.mlflow.memory_store import RUN, MemoryStore
from tests.mlflow.watching import Event, feed_of, plain, points, watched, wave
from vitalsdsl import replay
from vitalsdsl.ground.errors import RunGone, TrackerError
from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl.policies.policy import load
from vitalsdsl.watching.feeds import Batch

BEGAN = 1_700_000_000_000


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


def recorded(store: MemoryStore) -> list[Event]:
    store.fails = frozenset()
    return watched(lambda: feed_of(store, RUN, is_recorded=True), until=lambda batch: not batch.more)[0]


class Watcher:
    """Reads when told, through JSON cursors; with `restart` by a new feed each time; failures are tried again."""

    def __init__(self, store: MemoryStore, restart: bool = False, **options: Any) -> None:
        self.store, self.restart, self.options = store, restart, options
        self.clock = Clock()
        self.cursor: Any = None
        self.feed: RunFeed | None = None
        self.events: list[Event] = []
        self.notes: list[str] = []
        self.failures = 0

    def poll(self, seconds: float = 1.0) -> Batch:
        self.clock.now += seconds
        while True:
            try:
                if self.feed is None or self.restart:
                    self.feed = feed_of(self.store, RUN, now=self.clock, **self.options)
                batch = self.feed.read(self.cursor)
            except TrackerError:
                self.failures += 1
                continue
            self.events += batch.events
            self.notes += batch.notes
            self.cursor = json.loads(json.dumps(batch.cursor, allow_nan=False))
            assert len(batch.events) <= BATCH
            if not batch.more:
                return batch

    def finish(self) -> None:
        self.store.status = "FINISHED"
        assert self.poll().is_over


def log_steps(store: MemoryStore, first: int, last: int, *, at: int = BEGAN, keys: int = 3) -> int:
    """Steps a second apart; the time after the last."""
    for step in range(first, last):
        for key in range(keys):
            store.log(f"m{key}", wave(key, step), step, at + key)
        at += 1000
    return at


@pytest.mark.parametrize("restart", [False, True], ids=["one feed", "a new feed each time"])
@pytest.mark.parametrize("has_intervals", [True, False], ids=["intervals", "old server"])
@pytest.mark.parametrize("seed", range(5))
def test_points_that_arrive_in_any_order_give_the_rows_of_the_recorded_run(
    seed: int, has_intervals: bool, restart: bool
) -> None:
    random_ = random.Random(seed)
    logged = [(f"m{key}", wave(key, step), step, BEGAN + 250 * step) for step in range(400) for key in range(4)]
    logged += [("no step", float(step), 0, BEGAN + 250 * step + 1) for step in range(400)]
    arrival = sorted(logged, key=lambda point: point[3] + random_.uniform(0, 4000))
    store = MemoryStore(has_intervals=has_intervals, fails=frozenset(random_.sample(range(2000), 100)))
    watcher = Watcher(store, restart)
    while arrival:
        for _ in range(random_.randrange(1, 150)):
            if arrival:
                store.log(*arrival.pop(0))
        watcher.poll()
    watcher.finish()
    assert plain(watcher.events) == plain(recorded(store))
    assert sum(points(watcher.events).values()) == len(logged)
    assert watcher.failures > 0


def test_a_point_that_comes_too_late_for_its_place_is_still_given_once() -> None:
    store = MemoryStore()
    log_steps(store, 0, 100)
    watcher = Watcher(store)
    watcher.poll()
    log_steps(store, 100, 120, at=BEGAN + 100_000)
    store.log("m1", 77.0, 80, BEGAN + 80_500)
    store.log("m2", 78.0, 50, BEGAN + 50_500)
    watcher.poll()
    for _ in range(6):
        watcher.poll()
    watcher.finish()
    given = points(watcher.events)
    assert given["m1", 80, "77.0"] == given["m2", 50, "78.0"] == 1
    assert given == points(recorded(store))


POLICY = load("p", text="when m0 is nan -> orange")


@pytest.mark.parametrize("restart", [False, True], ids=["one feed", "a new feed each time"])
@pytest.mark.parametrize("was_over", [False, True], ids=["killed", "ended"])
def test_nan_that_a_resumed_run_logs_again_is_found(was_over: bool, restart: bool) -> None:
    """1000 steps, then again 500 to 599, NaN: the latest points do not move."""
    store = MemoryStore()
    for step in range(1000):
        for key in range(20):
            store.log(f"m{key}", 1.0, step, BEGAN + 100 * step)
    watcher = Watcher(store, restart)
    watcher.poll()
    watcher.poll(QUIET_S)
    if was_over:
        watcher.finish()
    store.status = "RUNNING"
    for step in range(500, 600):
        for key in range(20):
            store.log(f"m{key}", math.nan, step, BEGAN + 200_000 + 100 * step)
    watcher.poll()
    watcher.poll(QUIET_S)
    assert [event for event in watcher.events if isinstance(event, Rewind)] == [Rewind(499)]
    (found,) = replay(POLICY, watcher.events, run=RUN)
    assert (found.step, found.attempt, found.to.word) == (500, 1, "orange")
    watcher.finish()
    assert plain(watcher.events) == plain(recorded(store))
    assert sum("went back from step 999" in note for note in watcher.notes) == 1


@pytest.mark.parametrize("restart", [False, True], ids=["one feed", "a new feed each time"])
def test_a_resumed_run_that_goes_on_slowly_is_followed_step_by_step(restart: bool) -> None:
    store = MemoryStore()
    at = log_steps(store, 0, 300)
    watcher = Watcher(store, restart)
    watcher.poll()
    watcher.poll(QUIET_S)
    for step in range(200, 350):
        at = log_steps(store, step, step + 1, at=at + 60_000)
        watcher.poll(0.1)
    watcher.finish()
    assert plain(watcher.events) == plain(recorded(store))
    assert points(watcher.events) == points(recorded(store))
    assert sum(isinstance(event, Rewind) for event in watcher.events) == 1


def test_the_newest_points_wait_and_are_given_when_nothing_more_comes() -> None:
    store = MemoryStore()
    log_steps(store, 0, 20)
    watcher = Watcher(store)
    watcher.poll()
    assert max(event.step for event in watcher.events) == 13, "a row closes with the next, and five seconds settle"
    watcher.poll(QUIET_S / 2)
    assert max(event.step for event in watcher.events) == 13
    watcher.poll(QUIET_S / 2)
    assert max(event.step for event in watcher.events) == 19


def test_a_run_without_steps_is_followed() -> None:
    store = MemoryStore()
    watcher = Watcher(store)
    for at in range(3000):
        store.log("loss", float(at), 0, BEGAN + 50 * at)
        if at % 100 == 0:
            watcher.poll()
    watcher.finish()
    assert [(event.step, event.values["loss"]) for event in watcher.events if isinstance(event, Row)] == [
        (at, float(at)) for at in range(3000)
    ]
    assert sum("logs without steps" in note for note in watcher.notes) == 1


def test_a_hundred_thousand_points_come_in_batches_that_can_each_be_gone_on_from() -> None:
    store = MemoryStore()
    for step in range(100_000):
        store.log("loss", float(step), step, BEGAN + step)
    store.status = "FINISHED"
    watcher = Watcher(store, restart=True)
    assert watcher.poll().is_over
    assert [event.step for event in watcher.events] == list(range(100_000))
    assert len(json.dumps(watcher.cursor)) < 10_000


def test_five_thousand_metrics_are_followed_with_a_bounded_cursor() -> None:
    store = MemoryStore()
    watcher = Watcher(store)
    for step in range(12):
        for key in range(5000):
            store.log(f"layer/{key:04}/weight", float(step), step, BEGAN + 1000 * step)
        if step % 4 == 0:
            watcher.poll()
    watcher.finish()
    assert sum(points(watcher.events).values()) == 60_000
    assert plain(watcher.events) == plain(recorded(store))
    assert len(json.dumps(watcher.cursor)) < 1_000_000


def test_one_step_of_many_points_comes_in_more_than_one_batch() -> None:
    store = MemoryStore()
    for at in range(30_000):
        store.log("loss", float(at), 7, BEGAN + at)
    watcher = Watcher(store)
    watcher.poll()
    watcher.finish()
    assert [event.values["loss"] for event in watcher.events if isinstance(event, Row)] == [
        float(n) for n in range(30_000)
    ]


def rewinds(steps: list[tuple[str, int, float]]) -> tuple[list[int], list[str]]:
    """Where a run that logs these (metric, step, seconds) goes back to, and what is said."""
    store = MemoryStore()
    for key, step, seconds in steps:
        store.log(key, 1.0, step, BEGAN + round(1000 * seconds))
    store.status = "FINISHED"
    watcher = Watcher(store)
    watcher.poll()
    return [event.step for event in watcher.events if isinstance(event, Rewind)], watcher.notes


def every_second(steps: list[int], key: str = "loss", begin: float = 0.0) -> list[tuple[str, int, float]]:
    return [(key, step, begin + at) for at, step in enumerate(steps)]


def test_going_back_far_is_a_rewind() -> None:
    assert rewinds(every_second([*range(1, 50), *range(20, 60)]))[0] == [19]


def test_going_back_a_step_after_a_pause_is_a_rewind() -> None:
    assert rewinds(every_second([1, 2, 3]) + every_second([3, 4], begin=100))[0] == []
    assert rewinds(every_second([1, 2, 3]) + every_second([2, 3], begin=100))[0] == [1]


def test_writers_that_are_a_little_apart_are_no_rewind() -> None:
    assert rewinds(every_second([1, 2, 3, 2, 4, 3, 5, 4, 6]))[0] == []


def test_a_value_without_a_step_at_the_end_is_no_rewind() -> None:
    assert rewinds(every_second([*range(1, 100), 0]))[0] == []


def test_metrics_of_other_cadences_are_no_rewind() -> None:
    assert rewinds([*every_second(list(range(1, 100))), ("eval", 50, 99.5), ("eval", 60, 120.0)])[0] == []


def test_two_processes_that_log_far_apart_are_found_out() -> None:
    both = [step for pair in zip(range(100, 150), range(1, 50), strict=False) for step in pair]
    found, notes = rewinds(every_second(both))
    assert len(found) == 1
    assert sum("two processes" in note for note in notes) == 1


def test_system_metrics_with_their_own_counter_are_no_rewind() -> None:
    assert rewinds([*every_second(list(range(100, 200))), *every_second([1, 2], "system/cpu", 300)])[0] == []


def test_the_step_may_be_read_from_a_metric() -> None:
    store = MemoryStore()
    for at in range(10):
        store.log("loss", float(at), at, BEGAN + 1000 * at)
        store.log("trainer/step", 100.0 * at, at, BEGAN + 1000 * at)
    store.status = "FINISHED"
    watcher = Watcher(store, step_key="trainer/step")
    watcher.poll()
    assert [(event.step, event.values) for event in watcher.events if isinstance(event, Row)] == [
        (100 * at, {"loss": float(at)}) for at in range(10)
    ]


def test_a_deleted_run_is_gone() -> None:
    store = MemoryStore()
    log_steps(store, 0, 10)
    feed = feed_of(store, RUN)
    cursor = feed.read(None).cursor
    store.is_deleted = True
    with pytest.raises(RunGone, match="deleted"):
        feed.read(cursor)


@pytest.mark.parametrize("cursor", [{}, {"version": 1}, {"version": 2}, {"version": 2, "given": 3}])
def test_a_damaged_cursor_is_said_to_be_damaged(cursor: dict[str, Any]) -> None:
    with pytest.raises(TrackerError, match="damaged"):
        feed_of(MemoryStore(), RUN).read(cursor)


def test_a_quiet_poll_costs_few_requests() -> None:
    store = MemoryStore()
    log_steps(store, 0, 100, keys=50)
    watcher = Watcher(store)
    watcher.poll()
    watcher.poll(QUIET_S)
    before = store.requests
    watcher.poll()
    assert store.requests - before <= 3


STEPS = 1200


class Slow(MemoryStore):
    """A server that is slow and often down, asked while the training goes on: every request takes time, in which steps are
    logged, and some fail. Now and then a search tells the feed how the run stood some requests ago."""

    def __init__(self, seed: int, watcher: list[Watcher], **options: Any) -> None:
        super().__init__(**options)
        self.dice, self.watcher = random.Random(seed), watcher
        self.step, self.is_playing, self.told = 0, True, list[Any]()

    def log_on(self, steps: int) -> None:
        for _ in range(steps):
            now = int(1000 * self.watcher[0].clock.now)
            for name in range(4):
                if (self.step + name) % (1, 1, 3, 50)[name] == 0:
                    self.log(f"m/{name}", wave(name, self.step), self.step, now + name)
            self.step += 1
            self.watcher[0].clock.now += 0.3

    def _answers(self) -> None:
        super()._answers()
        if self.is_playing and self.step < STEPS:
            self.log_on(self.dice.randrange(12))
            if self.dice.random() < 0.25:
                raise TrackerError("down")

    def search_late(self) -> None:
        """What a search found some time ago reaches the feed only now."""
        playing, self.is_playing = self.is_playing, False
        self.told.append(self.run(RUN))
        self.is_playing = playing
        feed = self.watcher[0].feed
        if len(self.told) > 3 and feed is not None:
            feed.told(self.told.pop(0))


@pytest.mark.parametrize("has_intervals", [True, False], ids=["by steps", "by place"])
@pytest.mark.parametrize("restart", [False, True], ids=["one process", "a new one at every reading"])
@pytest.mark.parametrize("seed", range(4))
def test_a_slow_server_that_fails_while_the_run_goes_on_gives_the_rows_of_the_recorded_run(
    seed: int, restart: bool, has_intervals: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A metric whose question fails must not be left behind by the others: what is given of them is then too much."""
    monkeypatch.setattr("vitalsdsl_mlflow.remote.PAGE", 90)
    held: list[Watcher] = []
    store = Slow(seed, held, has_intervals=has_intervals)
    held.append(Watcher(store, restart=restart))  # type: ignore[arg-type]
    store.log_on(200)
    while store.step < STEPS:
        store.log_on(store.dice.randrange(20))
        if store.dice.random() < 0.5:
            store.search_late()
        held[0].poll(store.dice.choice([0.1, 1.0, 2.5]))
    store.is_playing = False
    held[0].finish()
    assert plain(held[0].events) == plain(recorded(store))
