"""A server that is slow, busy, broken or at odds with itself: every row of a run is read, and once."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
from vitalsdsl_wandb import feed, graphql, remote

from tests.wandb.reading import Watcher, history_of, losses, values
from tests.wandb.server import KEY, Server
from vitalsdsl.ground.errors import RunGone, SourceError, StateError, TrackerError
from vitalsdsl.ground.points import Rewind

FAULTS: dict[str, dict[str, Any]] = {
    "busy, and says for how long": {"status": 429, "headers": {"Retry-After": "0"}},
    "busy": {"status": 429},
    "out of order": {"status": 500},
    "out of order, with a page": {"status": 502, "body": b"<html>bad gateway</html>"},
    "half an answer": {"cut": True},
    "half a text": {"body": b'{"data": {"project": {"run'},
    "no JSON": {"body": b"<html>sign in</html>"},
    "an empty answer": {"body": b""},
    "a list": {"body": b"[1, 2]"},
    "no data": {"body": b'{"errors": [{"message": "internal"}], "data": null}'},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_after_any_fault_nothing_is_lost_and_nothing_read_twice(server: Server, small: None, fault: str) -> None:
    run = server.run()
    watcher = Watcher()
    for part in range(5):
        run.log(*losses(10, part * 10))
        server.fail("HistoryPage", **FAULTS[fault])
        watcher.poll()
        server.fail("HistoryPage", **FAULTS[fault])
        watcher.poll()
    assert values(watcher.rows) == list(range(50)) == watcher.steps
    assert len(watcher.errors) == 10


CHANGES: dict[str, Callable[[list[str]], list[str]]] = {
    "an empty page": lambda lines: [],
    "a page with all rows twice": lambda lines: [*lines, *lines],
    "a page from the back": lambda lines: lines[::-1],
    "a page that ends early": lambda lines: lines[: len(lines) // 2],
    "a page with a line that is none": lambda lines: ["{", *lines],
}


@pytest.mark.parametrize("change", CHANGES)
def test_pages_that_are_odd_lose_nothing(server: Server, change: str) -> None:
    run = server.run()
    watcher = Watcher()
    for part in range(5):
        run.log(*losses(100, part * 100))
        server.fail("HistoryPage", change=history_of(CHANGES[change]))
        watcher.poll()
        watcher.poll()
    assert values(watcher.rows) == list(range(500)) == watcher.steps
    assert not [event for event in watcher.events if isinstance(event, Rewind)]


def test_a_cursor_takes_up_at_every_batch(server: Server, small: None) -> None:
    server.run(state="finished").log(*({"loss": at, "other": -at} for at in range(60)))
    watcher = Watcher()
    watcher.to_the_end()
    assert values(watcher.rows) == list(range(60))
    assert len([size for size in watcher.batches if size]) >= 18 and max(watcher.batches) <= 7


def test_the_cursor_stays_small(server: Server) -> None:
    run = server.run()
    run.lines = [json.dumps({"_step": at, "_timestamp": at, "loss": at}) for at in range(50_000)]
    watcher = Watcher()
    watcher.poll()
    assert len(watcher.rows) == 50_000
    assert len(json.dumps(watcher.cursor)) < 2_000
    assert max(watcher.batches) <= 10_000


def test_a_long_run_of_few_rows_costs_few_questions(server: Server) -> None:
    run = server.run(state="finished")
    run.lines = [json.dumps({"_step": at * 5_000, "_timestamp": at, "loss": at}) for at in range(40)]
    watcher = Watcher()
    watcher.to_the_end()
    assert watcher.steps == list(range(0, 200_000, 5_000))
    assert server.asked.count("HistoryPage") <= 8


def test_steps_that_count_tokens_are_read_in_few_questions(server: Server) -> None:
    run = server.run(state="finished")
    run.lines = [json.dumps({"_step": at * 4_000_000, "_timestamp": at, "loss": at}) for at in range(300)]
    watcher = Watcher()
    watcher.to_the_end()
    assert values(watcher.rows) == list(range(300))
    assert server.asked.count("HistoryPage") <= 60
    sizes = [asked["pageSize"] for asked in server.variables if "pageSize" in asked]
    assert max(sizes) < 2**31


def test_nothing_is_ever_sampled(server: Server) -> None:
    server.run(state="finished").log(*losses(1_200))
    watcher = Watcher()
    watcher.to_the_end()
    for asked in server.variables:
        if "pageSize" in asked:
            assert asked["pageSize"] >= asked["maxStep"] - asked["minStep"]
    assert len(watcher.rows) == 1_200


def test_five_thousand_names_come_in_batches_of_bounded_size(server: Server) -> None:
    run = server.run(state="finished")
    names = [f"layer{at}/grad_norm" for at in range(5_000)]
    run.lines = [
        json.dumps({"_step": step, "_timestamp": step, **{n: step + i for i, n in enumerate(names)}})
        for step in range(40)
    ]
    watcher = Watcher()
    watcher.to_the_end()
    assert watcher.steps == list(range(40)) and max(watcher.batches) <= 10_000
    assert all(len(row.values) == 5_000 for row in watcher.rows)
    assert watcher.rows[7].values["layer4999/grad_norm"] == 7 + 4_999


def test_answers_that_are_too_large_are_asked_for_in_parts(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "_LARGE", 2_000)
    server.run(state="finished").log(*losses(300))
    watcher = Watcher()
    watcher.to_the_end()
    assert values(watcher.rows) == list(range(300))


@pytest.mark.parametrize("how", [{"drip": 0.02}, {"sleep": 1.0}])
def test_an_answer_that_drips_or_never_comes_is_given_up(
    server: Server, monkeypatch: pytest.MonkeyPatch, how: dict[str, float]
) -> None:
    server.run().log(*losses(50))
    monkeypatch.setattr(graphql, "TIMEOUT", 0.3)
    watcher = Watcher()
    server.fail("HistoryPage", **how)
    began = time.monotonic()
    watcher.once()
    assert time.monotonic() - began < 2
    assert "does not answer in time" in str(watcher.errors[0])
    watcher.poll()
    assert values(watcher.rows) == list(range(50))


def test_how_long_the_server_wants_to_be_left_alone_is_passed_on(server: Server) -> None:
    server.run()
    client = graphql.GraphQL()
    server.fail("Run", status=429, headers={"Retry-After": "7"})
    with pytest.raises(TrackerError) as first:
        client.ask("query Run { x }", {})
    assert first.value.retry_after == 7 and not first.value.is_final
    with pytest.raises(TrackerError) as second:
        client.ask("query Run { x }", {})
    assert second.value.retry_after is not None and 6 < second.value.retry_after <= 7
    assert server.asked.count("Run") == 1


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"RateLimit-Reset": "11"}, 11),
        ({"Retry-After": "Thu, 01 Jan 2026 00:00:30 GMT", "Date": "Thu, 01 Jan 2026 00:00:00 GMT"}, 30),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-3"}, 0),
        ({}, None),
    ],
)
def test_every_way_of_saying_how_long(server: Server, headers: dict[str, str], wait: float | None) -> None:
    server.fail("Run", status=429, headers=headers)
    with pytest.raises(TrackerError) as caught:
        graphql.GraphQL().ask("query Run { x }", {})
    assert caught.value.retry_after == wait


def test_a_limit_that_is_used_up_is_kept_before_the_server_refuses(server: Server) -> None:
    server.run().log({"loss": 1})
    server.headers = {"RateLimit-Remaining": "0", "RateLimit-Reset": "5"}
    client = graphql.GraphQL()
    client.ask("query Run($run: String!) { x }", {"run": "r1", "project": "p", "entity": "team"})
    with pytest.raises(TrackerError) as caught:
        client.ask("query Run { x }", {})
    assert caught.value.retry_after is not None and caught.value.retry_after <= 5
    assert server.asked == ["Run"]


def test_questions_come_slower_before_the_limit_is_used_up(server: Server) -> None:
    server.run().log({"loss": 1})
    reading = Watcher().feed()
    server.headers = {"RateLimit-Remaining": "900", "RateLimit-Reset": "1"}
    cursor = reading.read(None).cursor
    assert reading.interval == 15
    server.headers = {"RateLimit-Remaining": "40", "RateLimit-Reset": "1"}
    reading.read(cursor)
    assert reading.interval == 60


def test_a_refused_key_is_final_and_never_shown(
    server: Server, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], waits: list[float]
) -> None:
    caplog.set_level(logging.DEBUG)
    server.run().log(*losses(3))
    watcher = Watcher()
    watcher.poll()
    texts: list[str] = []
    for how in (*FAULTS.values(), {"status": 400}, {"status": 403}, {"status": 404}):
        server.fail("HistoryPage", **how)
        with pytest.raises(TrackerError) as caught:
            watcher.feed().read(None)
        texts += [str(caught.value), repr(caught.value), repr(caught.value.__cause__)]
        assert "\n" not in str(caught.value)
        assert caught.value.is_final == (how.get("status") in (400, 403, 404))
    server.key = "another"
    with pytest.raises(TrackerError, match="refuses the key") as refused:
        watcher.feed()
    assert refused.value.is_final
    with pytest.raises(SourceError, match="refuses the key") as unread:
        remote.read("team/p/r1")
    out, err = capfd.readouterr()
    shown = "".join([*texts, str(refused.value), str(unread.value), caplog.text, out, err, repr(watcher.cursor)])
    assert KEY not in shown and "another" not in shown
    assert waits == []


def test_a_run_that_is_deleted_is_gone(server: Server) -> None:
    server.run().log(*losses(3))
    watcher = Watcher()
    watcher.poll()
    reading = watcher.feed()
    del server.runs["team/p/r1"]
    with pytest.raises(RunGone, match="run r1 is not, or no longer, in team/p"):
        reading.read(watcher.cursor)
    with pytest.raises(RunGone, match="there is no run r1 in team/p"):
        watcher.feed()


def test_a_cursor_that_is_not_ours_is_refused(server: Server) -> None:
    server.run().log({"loss": 1})
    reading = Watcher().feed()
    for cursor in ({}, {"version": 99}, {"version": 1, "marks": [[1]]}, {"version": 1, "marks": [], "strange": 1}):
        with pytest.raises(StateError):
            reading.read(cursor)
