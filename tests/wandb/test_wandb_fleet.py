"""Many runs of a project at once: every row of each, and few questions."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from test_watcher import wait_for
from vitalsdsl_wandb import feed, graphql, remote
from vitalsdsl_wandb.feed import WandbFeed

import vitalsdsl as vitals
from tests.wandb.server import Run, Server
from vitalsdsl.ground.errors import RunGone, TrackerError
from vitalsdsl.ground.points import Row
from vitalsdsl.watching import watcher
from vitalsdsl.watching.feeds import Cursor, Wanted
from vitalsdsl.watching.watched import Reading, Watched
from vitalsdsl.watching.watcher import Assignment, Shows, Watcher

RUNS = 15
NAMES = [f"m{at}" for at in range(5)]


class Fleet:
    """A project that is looked at, and each of its runs read on, once a pass, as a watcher does."""

    def __init__(self, server: Server, count: int = RUNS) -> None:
        self.server = server
        self.runs = [server.run(f"r{at:02}", created=1e9 + at) for at in range(count)]
        self.target = remote.target("team/p", Wanted())
        self.cursors: dict[str, Cursor] = {}
        self.rows: dict[str, list[Row]] = {run.name: [] for run in self.runs}

    def log(self, count: int, runs: list[Run] | None = None) -> None:
        for run in self.runs if runs is None else runs:
            first = run.count()
            run.log(*({name: float(first + at) for name in NAMES} for at in range(count)))

    def go_round(self) -> list[str]:
        """One pass; the questions it took."""
        self.server.asked.clear()
        for one in self.target.find():
            self.read(one)
        return list(self.server.asked)

    def read(self, one: WandbFeed) -> None:
        batch = one.read(self.cursors.get(one.uri))
        self.cursors[one.uri] = batch.cursor
        self.rows[one.info.name] += [event for event in batch.events if isinstance(event, Row)]

    def settle(self) -> None:
        """Go round until there is nothing new."""
        for _ in range(3):
            self.go_round()

    @property
    def is_whole(self) -> bool:
        """Whether every row of every run was read, once, and as it was logged."""
        return all(
            [(row.step, row.values) for row in self.rows[run.name]]
            == [(at, dict.fromkeys(NAMES, float(at))) for at in range(run.count())]
            for run in self.runs
        )


def test_many_runs_that_log_are_read_with_two_questions(server: Server) -> None:
    fleet = Fleet(server)
    fleet.log(40)
    fleet.go_round()
    for _ in range(5):
        fleet.log(3)
        assert fleet.go_round() == ["Runs", "HistoryPages"]
    assert fleet.is_whole


def test_more_runs_than_go_into_one_question_go_into_several(server: Server) -> None:
    fleet = Fleet(server, 60)
    fleet.log(2)
    fleet.settle()
    fleet.log(3)
    assert fleet.go_round() == ["Runs", *["HistoryPages"] * 3]
    assert fleet.is_whole


def test_runs_that_log_nothing_cost_nothing(server: Server) -> None:
    fleet = Fleet(server)
    fleet.log(5)
    fleet.settle()
    assert fleet.go_round() == ["Runs"]
    fleet.log(2, fleet.runs[3:5])
    fleet.server.variables.clear()
    assert fleet.go_round() == ["Runs", "HistoryPages"]
    assert [server.variables[1][name] for name in ("n0", "n1")] == ["r03", "r04"] and "n2" not in server.variables[1]
    assert fleet.is_whole


def test_a_run_that_ends_is_read_to_its_end(server: Server) -> None:
    fleet = Fleet(server)
    fleet.log(5)
    fleet.settle()
    fleet.runs[3].state = "finished"
    assert len(fleet.target.find()) == RUNS
    for _ in range(3):
        fleet.go_round()
    assert len(fleet.target.find()) == RUNS - 1


def test_rows_that_the_list_does_not_count_are_found_and_the_list_is_no_longer_believed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(server)
    fleet.log(5)
    fleet.settle()
    monkeypatch.setattr(Run, "count", lambda run: 5)
    for run in fleet.runs:
        run.log(dict.fromkeys(NAMES, 5.0))
    assert fleet.go_round() == ["Runs"]
    with monkeypatch.context() as later:
        later.setattr(feed, "READ_ANYWAY", 0.0)
        fleet.go_round()
    for run in fleet.runs:
        run.log(dict.fromkeys(NAMES, 6.0))
    fleet.go_round()
    assert all([row.step for row in rows] == [*range(7)] for rows in fleet.rows.values())


@pytest.mark.parametrize(
    ("most", "asked"),
    [
        (12, {"Runs": 1, "HistoryPages": 3}),  # 15 are refused: at most 7, which makes three times 5
        (4, {"Runs": 1, "HistoryPages": 8}),  # 5 are refused, too: at most 2
        (1, {"Runs": 1, "HistoryPage": RUNS}),
    ],
)
def test_a_server_that_refuses_so_many_runs_at_once_is_asked_about_fewer(
    server: Server, caplog: pytest.LogCaptureFixture, most: int, asked: dict[str, int]
) -> None:
    fleet = Fleet(server)
    fleet.log(5)
    fleet.settle()
    server.most_aliases = most
    for _ in range(5):
        fleet.log(3)
        found = Counter(fleet.go_round())
    assert fleet.is_whole
    assert found == asked
    said = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert said == ["vitals: W&B does not take a question about 15 runs at once: fewer are asked about"]


@pytest.mark.parametrize(
    ("how", "wait"),
    [({"status": 500}, None), ({"status": 429, "headers": {"Retry-After": "7"}}, 7.0), ({"cut": True}, None)],
)
def test_one_failure_is_that_of_all_its_runs_and_loses_nothing(
    server: Server, how: dict[str, Any], wait: float
) -> None:
    fleet = Fleet(server)
    fleet.log(5)
    fleet.settle()
    fleet.log(3)
    server.fail("HistoryPages", **how)
    server.asked.clear()
    for one in fleet.target.find():
        with pytest.raises(TrackerError) as caught:
            fleet.read(one)
        assert (caught.value.retry_after is None) == (wait is None)
    assert server.asked == ["Runs", "HistoryPages"]
    fleet.target._client._quiet_until = 0.0
    fleet.go_round()
    assert fleet.is_whole


def test_a_run_that_is_deleted_says_so_and_the_others_are_read(server: Server) -> None:
    fleet = Fleet(server)
    fleet.log(5)
    fleet.settle()
    fleet.log(3)
    found = fleet.target.find()
    gone = fleet.runs.pop()
    del server.runs[f"team/p/{gone.name}"]
    for one in found[:-1]:
        fleet.read(one)
    with pytest.raises(RunGone):
        found[-1].read(fleet.cursors[found[-1].uri])
    assert fleet.is_whole


def test_what_can_wait_is_not_asked_while_few_questions_are_left(server: Server) -> None:
    server.run().log({"loss": 1})
    server.limit = graphql.FEW
    client = graphql.GraphQL()
    asked = {"run": "r1", "project": "p", "entity": "team"}
    client.ask("query Run($run: String!) { x }", asked)
    with pytest.raises(TrackerError) as caught:
        client.ask("query Run($run: String!) { x }", asked, can_wait=True)
    assert caught.value.retry_after is not None and 0 < caught.value.retry_after <= 60
    client.ask("query Run($run: String!) { x }", asked)


class Rows(Shows):
    """The number of rows that were judged, by run."""

    def __init__(self) -> None:
        self.judged: Counter[str] = Counter()

    def saw(self, run: Watched, reading: Reading) -> None:
        self.judged[run.feed.info.name] += reading.rows


def _let_look(server: Server, times: int) -> None:
    before = server.asked.count("Runs")
    wait_for(lambda: server.asked.count("Runs") >= before + times)


def test_a_watcher_misses_no_row_of_runs_that_grow_while_it_reads(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "INTERVAL", 0.05)
    monkeypatch.setattr(watcher._dice, "uniform", lambda low, high: 0.0)
    fleet, shows = Fleet(server), Rows()
    fleet.log(20)
    policy = vitals.load("p", text="policy p\nwhen mean(m0, 50 steps) > 1e9 -> red")
    watch = Watcher([Assignment(fleet.target, policy, reference="wandb:team/p")], tmp_path / "home", shows=shows)
    thread = threading.Thread(target=watch.run)
    thread.start()
    try:
        for _ in range(10):
            with server.lock:
                fleet.log(3)
            _let_look(server, 2)
        written = Counter({run.name: run.count() for run in fleet.runs})
        wait_for(lambda: shows.judged == written)
        _let_look(server, 3)
        before = len(server.asked)
        _let_look(server, 3)
        after = set(server.asked[before:])
    finally:
        watch.stop()
        thread.join(10.0)
    assert shows.judged == written
    assert after.isdisjoint({"HistoryPage", "HistoryPages"})


def test_a_project_of_few_runs_is_asked_about_one_by_one(server: Server) -> None:
    fleet = Fleet(server, watcher.MANY - 1)
    fleet.log(5)
    fleet.settle()
    assert not fleet.target.tells_feeds
    assert Counter(fleet.go_round()) == {"Runs": 1, "HistoryPage": watcher.MANY - 1}
