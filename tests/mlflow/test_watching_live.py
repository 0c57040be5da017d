"""Runs that are watched from outside over a real server: while they are logged, with faults, and acted upon."""

from __future__ import annotations

import json
import math
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.entities import Metric
from vitalsdsl_mlflow import read
from vitalsdsl_mlflow.targets import store_of

from tests.mlflow.faults import FaultyServer
from tests.mlflow.runs import BEGAN, load_policy
from tests.mlflow.watching import feed_of, plain, points, target, watched, wave
from vitalsdsl import replay
from vitalsdsl.ground.errors import RunGone, TrackerError
from vitalsdsl.ground.points import Rewind
from vitalsdsl.watching.feeds import Wanted

METRICS, STEPS = 20, 400


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch, folder: Path, server: Any) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)


@pytest.fixture
def client(server: Any) -> Any:
    return mlflow.MlflowClient(tracking_uri=server.uri)


def write_live(uri: str, run: str, seen: Counter[tuple[str, int, str]]) -> None:
    """What a training loop logs asynchronously: ten threads of MLflow store the points in any order."""
    client = mlflow.MlflowClient(tracking_uri=uri)
    for step in range(STEPS):
        now = time.time_ns() // 1_000_000
        batch = [Metric(f"m/{name}", wave(name, step), now, step) for name in range(METRICS)]
        client.log_batch(run, batch, synchronous=False)
        client.log_batch(run, [Metric("no step", float(step), now + 1, 0)], synchronous=False)
        seen.update((metric.key, step, repr(metric.value)) for metric in batch)
        seen["no step", 0, repr(float(step))] += 1
        time.sleep(0.01)
    client._tracking_client.store._async_logging_queue.flush()
    client.set_terminated(run)


@pytest.mark.parametrize("restart", [False, True], ids=["one process", "a new process at every batch"])
def test_no_point_of_an_asynchronous_writer_is_missed_or_given_twice(client: Any, server: Any, restart: bool) -> None:
    run = client.create_run("0").info.run_id
    client.log_batch(run, [Metric("begin", 0.0, time.time_ns() // 1_000_000, 1)])
    seen: Counter[tuple[str, int, str]] = Counter({("begin", 1, "0.0"): 1})
    writer = threading.Thread(target=write_live, args=(server.uri, run, seen))
    writer.start()
    events, notes, _ = watched(lambda: feed_of(server.uri, run), pause=0.3, restart=restart, limit_s=300)
    writer.join()
    assert sum(seen.values()) == (METRICS + 1) * STEPS + 1
    assert points(events) == seen
    assert plain(read(run)[0].events) == plain(events)
    assert notes == []


def log(client: Any, run: str, steps: range, value: float | None = None, keys: int = 5) -> None:
    for first in range(steps.start, steps.stop, 100):
        client.log_batch(run, [
            Metric(f"m/{key}", wave(key, step) if value is None else value, BEGAN + 1000 * step, step)
            for step in range(first, min(first + 100, steps.stop)) for key in range(keys)
        ])  # fmt: skip


FAULTS = ["429", "429 later", "500", "half", "hang up", "page", "503", "404"]


def test_nothing_is_lost_or_given_twice_by_a_server_that_fails(client: Any, server: Any) -> None:
    """Every third request fails, another way each time; and for twenty requests on end the server is down."""
    run = client.create_run("0").info.run_id
    failures = []
    cursor: Any = None
    events: list[Any] = []
    with FaultyServer(server.uri).running() as front:
        front.fault = lambda number: (
            "503" if 20 <= number < 40 else FAULTS[number // 3 % len(FAULTS)] if number % 3 == 0 else ""
        )
        feed = None
        over = False
        step = 0
        while not over:
            if step < 300:
                log(client, run, range(step, step + 30))
                step += 30
            elif step == 300:
                client.set_terminated(run)
                step += 1
            try:
                feed = feed or feed_of(front.uri, run)
                batch = feed.read(cursor)
            except TrackerError as error:
                assert not error.is_final
                failures.append(error)
                continue
            events += batch.events
            cursor = batch.cursor
            over = batch.is_over
            feed = None if len(failures) % 2 else feed
    assert len(failures) >= 20
    assert len(set(front.injected)) == len(FAULTS)
    assert points(events) == points(read(run)[0].events)
    assert sum(points(events).values()) == 300 * 5
    assert plain(events) == plain(read(run)[0].events)


def test_a_resumed_run_that_logs_nan_again_is_found(client: Any, server: Any) -> None:
    run = client.create_run("0").info.run_id
    log(client, run, range(1000), keys=3)
    feed = feed_of(server.uri, run)
    events, _, cursor = watched(lambda: feed, pause=2.1, until=lambda batch: bool(batch.events) and not batch.more)
    client.set_terminated(run)
    more, _, cursor = watched(lambda: feed, cursor=cursor)
    events += more
    client.update_run(run, status="RUNNING")
    client.log_batch(run, [Metric("m/0", math.nan, BEGAN + 2_000_000 + step, step) for step in range(500, 600)])
    client.set_terminated(run)
    more, notes, cursor = watched(lambda: feed, cursor=cursor)
    assert more[0] == Rewind(499)
    assert [event.step for event in more[1:]] == list(range(500, 600))
    assert plain(events + more) == plain(read(run)[0].events)
    policy = load_policy('vitals 1\nmetric loss = "m/0"\nwhen loss is nan -> orange\n')
    assert 500 in [t.step for t in replay(policy, events + more, run=run)]
    assert any("went back from step 999" in note for note in notes)


def test_the_sqlite_file_of_the_server_gives_the_same_rows(client: Any, server: Any) -> None:
    run = client.create_run("0").info.run_id
    log(client, run, range(200))
    client.log_batch(run, [Metric("m/0", 7.0, BEGAN + 500_000, 100), Metric("no step", 1.0, BEGAN + 500_001, 0)])
    file = f"sqlite:///{server.log.parent / 'server.db'}"
    live: list[Any] = []
    feed = feed_of(file, run)
    cursor = feed.read(None).cursor
    events, _, cursor = watched(lambda: feed_of(file, run), until=lambda batch: not batch.more)
    log(client, run, range(600, 700))
    client.set_terminated(run)
    more, _, _ = watched(lambda: feed, cursor=cursor)
    live = events + more
    assert plain(live) == plain(watched(lambda: feed_of(server.uri, run))[0])
    assert plain(live) == plain(read(run)[0].events)


def test_an_experiment_finds_its_runs_as_they_come(client: Any, server: Any) -> None:
    name = 'an "experiment" of ours'
    experiment = client.create_experiment(name)
    tags = {"team": 'it\'s "ours"', "kind": "a", "bare": "x"}
    first = client.create_run(experiment, tags=tags).info.run_id
    other = client.create_run(experiment, tags={**tags, "kind": "b"}).info.run_id
    wanted = Wanted(tags={"team": tags["team"], "kind": "a", "bare": None})
    found = target(f"experiments/{name}", wanted)
    assert [feed.info.name for feed in found.find()] == [first]
    assert found.find()[0].uri == f"mlflow:{server.uri}/{first}"
    assert [feed.info.name for feed in target(f"experiments/{experiment}", Wanted()).find()] == [first, other]
    second = client.create_run(experiment, tags=tags).info.run_id
    client.log_metric(second, "loss", 1.0, step=1)
    assert [feed.info.name for feed in found.find()] == [first, second]
    client.set_terminated(first)
    assert [feed.info.name for feed in found.find()] == [second]
    assert target(f"experiments/{name}", Wanted(finished=True)).find()[0].info.name == first
    with pytest.raises(TrackerError, match="there is no experiment called `none`"):
        target("experiments/none", Wanted()).find()
    found.close()


def test_many_runs_are_polled_with_one_request(client: Any, server: Any) -> None:
    experiment = client.create_experiment("fleet")
    for number in range(60):
        run = client.create_run(experiment).info.run_id
        client.log_batch(run, [Metric("loss", float(number), BEGAN + step, step) for step in range(1, 3)])
    with FaultyServer(server.uri).running() as front:
        fleet = target("experiments/fleet", Wanted())
        fleet._store.rest.uri = front.uri
        cursors = {feed.uri: feed.read(None).cursor for feed in fleet.find()}
        time.sleep(2.1)
        cursors = {feed.uri: feed.read(cursors[feed.uri]).cursor for feed in fleet.find()}
        before = len(front.asked)
        assert len(fleet.find()) == 60
        assert len(front.asked) - before == 1


def test_a_run_that_is_deleted_or_was_never_there_is_gone(client: Any, server: Any) -> None:
    run = client.create_run("0").info.run_id
    log(client, run, range(10))
    feed = feed_of(server.uri, run)
    cursor = feed.read(None).cursor
    client.delete_run(run)
    with pytest.raises(RunGone, match="deleted"):
        feed.read(cursor)
    with pytest.raises(RunGone, match="there is no run"):
        store_of(server.uri).run("f" * 32)


def test_what_is_known_of_a_run(client: Any, server: Any) -> None:
    run = client.create_run("0").info.run_id
    client.log_param(run, "max_steps", "5000")
    info = feed_of(server.uri, run).info
    assert (info.name, info.total_steps) == (run, 5000.0)
    assert info.url == f"{server.uri}/#/experiments/0/runs/{run}"


def test_a_metric_of_a_hundred_thousand_points_is_read_whole(client: Any, server: Any) -> None:
    import sqlite3

    run = client.create_run("0").info.run_id
    client.log_metric(run, "loss", 0.5, timestamp=BEGAN, step=0)
    with sqlite3.connect(server.log.parent / "server.db", timeout=30) as file:
        file.executemany(
            "INSERT INTO metrics (key, value, timestamp, run_uuid, step, is_nan) VALUES ('loss', ?, ?, ?, ?, 0)",
            ((step / 7, BEGAN + step, run, step) for step in range(1, 100_000)),
        )
    client.set_terminated(run)
    for uri in (server.uri, f"sqlite:///{server.log.parent / 'server.db'}"):
        events, _, cursor = watched(lambda uri=uri: feed_of(uri, run), restart=True)
        assert [event.step for event in events] == list(range(100_000))
        assert len(json.dumps(cursor)) < 10_000
