"""Many runs of one experiment under one watcher: what is asked for them, and that no point is missed for it."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from vitalsdsl_mlflow import fleet
from vitalsdsl_mlflow.fleet import AUDITS, Fleet, Wish
from vitalsdsl_mlflow.known import MOST_FOLLOWED
from vitalsdsl_mlflow.remote import RunFeed
from vitalsdsl_mlflow.rest import NotThere, Rest
from vitalsdsl_mlflow.server import SAMPLED, Server
from vitalsdsl_mlflow.targets import ExperimentTarget

from tests.mlflow.fleet_writer import FleetWriter
from tests.mlflow.growing_server import GrowingServer
from tests.mlflow.watching import Event, points, wave
from vitalsdsl.ground.points import Rewind
from vitalsdsl.watching.feeds import Wanted


class Watching:
    """Looks at the experiment, and reads all of its runs, one after the other, each time that a test says so."""

    def __init__(self, rest: Any) -> None:
        self.target = ExperimentTarget(Server(rest), rest.uri, "fleet", Wanted())
        self.feeds: dict[str, RunFeed] = {}
        self.cursors: dict[str, Any] = {}
        self.events: dict[str, list[Event]] = {}
        self.over: set[str] = set()

    def look(self) -> None:
        for feed in self.target.find():
            self.feeds[feed.info.name] = feed
            self.read(feed)

    def read(self, feed: RunFeed) -> None:
        name, more = feed.info.name, True
        while more:
            batch = feed.read(self.cursors.get(name))
            self.cursors[name], more = batch.cursor, batch.more
            self.events.setdefault(name, []).extend(batch.events)
            if batch.is_over:
                self.over.add(name)

    def finish(self) -> None:
        for feed in self.feeds.values():
            self.read(feed)
        assert self.over == self.feeds.keys()


def asked(server: GrowingServer, watching: Watching, looks: int) -> Counter[str]:
    """What is asked in so many looks, five seconds apart."""
    server.asked.clear()
    for _ in range(looks):
        server.now += 5.0
        watching.look()
    return server.asked


INTERVAL = "mlflow/metrics/get-history-bulk-interval"


@pytest.mark.parametrize("every", [1.0, 5.0, 7.0], ids=lambda every: f"a step every {every:g} s")
@pytest.mark.parametrize("apart", [0, 3, 60], ids=lambda apart: f"{apart} steps apart")
def test_no_point_of_a_fleet_is_missed_or_given_twice(every: float, apart: int) -> None:
    server = GrowingServer(8, 3, every=every, apart=apart)
    server.now = 50.0
    watching = Watching(server)
    for _ in range(15):
        watching.look()
        server.now += 5.0
    server.is_over = True
    watching.finish()
    for run in server.ids:
        expected = Counter(
            (key, step, repr(wave(at, step))) for at, key in enumerate(server.keys) for step in server.steps(run)
        )
        assert points(watching.events[run]) == expected


def test_runs_in_step_are_asked_for_together() -> None:
    """120 runs of 4 metrics that all moved: one search, and of each metric two questions, as one is about 100 runs."""
    server = GrowingServer(120, 4)
    server.now = 40.0
    watching = Watching(server)
    watching.look()
    counts = asked(server, watching, 4)
    assert counts[INTERVAL] == 4 * 4 * 2
    assert counts["mlflow/runs/search"] <= 4 + 1  # one more, now and then, for runs that ended
    assert counts["mlflow/metrics/get-history"] <= 4 * 2 * AUDITS


def test_a_latest_point_that_is_simply_the_next_one_is_not_asked_for() -> None:
    server = GrowingServer(10, 4, every=5.0, late=False)
    server.now = 200.0
    watching = Watching(server)
    watching.look()
    assert asked(server, watching, 20)[INTERVAL] <= 4 * (20 / (MOST_FOLLOWED + 1) + 1)


def test_runs_far_apart_are_asked_for_one_by_one() -> None:
    server = GrowingServer(10, 2, apart=60)
    server.now = 40.0
    watching = Watching(server)
    watching.look()
    assert asked(server, watching, 2)[INTERVAL] == 2 * 2 * 10


def test_a_quiet_run_costs_nothing_but_its_turn_to_be_looked_at() -> None:
    server = GrowingServer(40, 5, quiet=40, late=False)
    server.now = 55.0
    watching = Watching(server)
    for _ in range(3):
        watching.look()
        server.now += 5.0
    for feed in watching.feeds.values():
        feed._now = lambda: math.inf  # nothing has come for long: what was held back is given
    watching.look()
    watching.look()
    counts = asked(server, watching, 5)
    assert counts[INTERVAL] == 0
    assert sum(counts.values()) <= 5 * (1 + 2 * AUDITS) + 1


def test_a_share_of_the_runs_is_looked_at_for_points_that_came_unnoticed() -> None:
    server = GrowingServer(20, 3)
    server.now = 50.0
    watching = Watching(server)
    watching.look()
    server.asked.clear()
    server.now += 5.0
    watching.look()
    first = {name for name, feed in watching.feeds.items() if feed.audit_due[1] > -math.inf}
    assert len(first) == AUDITS == server.asked["mlflow/metrics/get-history"]
    for _ in range(2):
        server.now += 5.0
        watching.look()
    assert all(feed.audit_due[1] > -math.inf for feed in watching.feeds.values())


# -------------------------------------------------------------------- what cannot be asked for together


def test_a_question_asks_for_no_more_than_it_may() -> None:
    wishes = [Wish(f"{n:03}", "m", 10 + n % 3, 20, 1) for n in range(250)] + [Wish("far", "m", 10, 10_000, 1)]
    groups = list(fleet._groups(wishes))
    assert [len(group) for group in groups] == [100, 100, 50]
    assert not any(wish.run_id == "far" for group in groups for wish in group)


class Answering:
    """Answers one call, and remembers what was asked."""

    uri = "http://memory"

    def __init__(self, answer: Any, version: tuple[int, ...] = (3, 17, 2)) -> None:
        self.answer, self._version = answer, version
        self.asked: list[dict[str, Any]] = []

    def get(self, call: str, **asked: Any) -> Any:
        self.asked.append(asked)
        if isinstance(self.answer, Exception):
            raise self.answer
        return {"metrics": self.answer}

    def version(self) -> tuple[int, ...]:
        return self._version


def many(run: str, count: int) -> list[dict[str, Any]]:
    return [{"key": "m", "value": 1.0, "step": step, "timestamp": step, "run_id": run} for step in range(count)]


def test_a_run_of_which_the_server_may_have_given_a_sample_is_left_out() -> None:
    rest = Answering(many("a", SAMPLED) + many("b", SAMPLED - 1))
    found = Server(rest).since_of(["a", "b", "c"], "m", 0, 9000)  # type: ignore[arg-type]
    assert {run: len(points) for run, points in found.items()} == {"b": SAMPLED - 1, "c": 0}


def test_a_run_that_is_gone_spoils_only_the_question() -> None:
    server = Server(Answering(NotThere("there is no run b")))  # type: ignore[arg-type]
    assert server.since_of(["a", "b"], "m", 0, 10) == {}


@pytest.mark.parametrize("version", [(), (2, 22, 1), (3, 16, 9)])
def test_an_older_server_is_asked_only_for_as_many_steps_as_it_does_not_sample(version: tuple[int, ...]) -> None:
    """Of 10,000 steps from the 90,000th on it would give the last alone."""
    rest = Answering(many("a", 1), version)
    server = Server(rest)  # type: ignore[arg-type]
    assert server.since("a", "m", 90_000, 100_000) is None
    assert server.since_of(["a"], "m", 90_000, 100_000) == {}
    assert rest.asked == []
    assert server.since("a", "m", 90_000, 90_000 + SAMPLED - 1) is not None


def test_points_that_nobody_wished_for_are_not_handed() -> None:
    """One question is about the same steps of all: of each run, the rest is of no use."""
    got: dict[str, list[int]] = {}

    class Wisher:
        audit_due = (True, 0.0)

        def __init__(self, wish: Wish) -> None:
            self.wish = wish

        def told(self, snapshot: Any, *, may_audit: bool) -> list[Wish]:
            return [self.wish]

        def handed(self, wish: Wish, given: Any) -> None:
            got[wish.run_id] = [point.step for point in given]

    server = Server(Answering(many("a", 30) + many("b", 30)))  # type: ignore[arg-type]
    wishes = [Wish("a", "m", 5, 8, 1), Wish("b", "m", 7, 9, 1)]
    Fleet(server).tell([(Wisher(wish), type("Run", (), {"run_id": wish.run_id})()) for wish in wishes])
    assert got == {"a": [5, 6, 7, 8], "b": [7, 8, 9]}


# -------------------------------------------------------------------- a real server


class Counted(Rest):
    """Counts what is asked."""

    asked = 0

    def _asked(self, method: str, url: str, options: dict[str, Any]) -> Any:
        self.asked += 1
        return super()._asked(method, url, options)


def test_a_fleet_on_a_real_server_is_read_whole_with_few_questions(server: Any, folder: Path) -> None:
    """20 runs of 5 metrics, with late points, and one that was resumed and logs NaN again."""
    runs, metrics, looks = 20, 5, 8
    writer = FleetWriter(server.log.parent / "server.db", "fleet", runs, metrics)
    rest = Counted(server.uri)
    watching = Watching(rest)
    for _ in range(20):
        writer.step(range(runs))
    watching.look()
    rest.asked = 0
    for number in range(looks):
        writer.step(range(runs))
        if number == 4:
            writer.again(3, 12, math.nan)
        watching.look()
    one_by_one = looks * runs * metrics
    assert rest.asked < one_by_one / 2
    writer.end()
    watching.finish()
    writer.close()
    for run, written in zip(writer.runs, writer.written):
        assert points(watching.events[run]) == written
    assert [event for event in watching.events[writer.runs[3]] if isinstance(event, Rewind)]
