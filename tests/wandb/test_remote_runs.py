"""Which runs of a server are found, and recorded runs."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest
from vitalsdsl_wandb import address, references, remote

from tests.wandb.reading import history_of, losses
from tests.wandb.server import Server
from vitalsdsl.ground.errors import MissingExtraError, RunGone, SourceError, TrackerError, UsageError
from vitalsdsl.ground.points import Row
from vitalsdsl.watching.feeds import Wanted


def names(feeds: Any) -> list[str]:
    return [one.info.name for one in feeds]


def test_a_project_gives_the_runs_that_go_on_and_those_that_start(server: Server) -> None:
    now = time.time()
    server.run("old", state="finished", created=now - 9_000)
    server.run("dead", state="crashed", created=now - 9_000)
    server.run("b", created=now - 8_000)
    server.run("a", created=now - 8_500)
    found = remote.target("team/p", Wanted())
    assert names(found.find()) == ["a", "b"]
    server.run("c", created=now)
    server.run("short", state="finished", created=now)
    server.asked.clear()
    assert names(found.find()) == ["a", "b", "c", "short"]
    server.asked.clear()
    assert names(found.find()) == ["a", "b", "c", "short"] and server.asked == ["Runs"]
    server.run("old").state = "running"
    assert "old" in names(found.find())
    assert found.find()[0].uri == "wandb:team/p/old"


def test_a_run_whose_end_was_read_is_let_go_and_found_again_when_it_is_resumed(server: Server) -> None:
    run = server.run("a", created=time.time() - 9_000)
    run.log({"loss": 1})
    found = remote.target("team/p", Wanted())
    (reading,) = found.find()
    run.state = "finished"
    cursor = None
    for _ in range(3):
        cursor = reading.read(cursor).cursor
    assert list(found.find()) == []
    run.state = "running"
    run.log({"loss": 2})
    (again,) = found.find()
    assert [row.values["loss"] for row in again.read(cursor).events if isinstance(row, Row)] == [2]


def test_finished_runs_and_tags_of_a_project(server: Server) -> None:
    for at in range(250):
        server.run(f"r{at:03}", state="finished", created=1e9 + at, tags=["even"] if at % 2 == 0 else ["team:red", "x"])
    everything = remote.target("team/p", Wanted(finished=True))
    assert names(everything.find()) == [f"r{at:03}" for at in range(250)]
    for tags, count in (
        ({"even": None}, 125),
        ({"team": "red"}, 125),
        ({"team": None, "x": None}, 125),
        ({"team": "blue"}, 0),
    ):
        assert len(remote.target("team/p", Wanted(finished=True, tags=tags)).find()) == count


def test_a_project_that_is_not_there_is_final(server: Server) -> None:
    with pytest.raises(TrackerError, match="there is no project team/none") as caught:
        remote.target("team/none", Wanted()).find()
    assert caught.value.is_final


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("team/p", "wandb:team/p"),
        ("team/p/r1", "wandb:team/p/r1"),
        ("team/p/runs/r1", "wandb:team/p/r1"),
        ("https://wandb.ai/team/p", "wandb:team/p"),
        ("https://wandb.ai/team/p/workspace?nw=x", "wandb:team/p"),
        ("https://wandb.ai/team/p/runs/r1?nw=x#panel", "wandb:team/p/r1"),
        ("https://wandb.ai/team/p/runs/r1/logs", "wandb:team/p/r1"),
        ("https://forge.coreweave.com/wandb/team/p/runs/r1", "wandb:team/p/r1"),
    ],
)
def test_what_a_person_writes_is_understood(text: str, uri: str) -> None:
    assert address.parse(text).uri == uri


@pytest.mark.parametrize(
    "text", ["", "p", "/p", "a//b", "a/b/c/d", "a/b?x=1", "https://wandb.ai/", "https://wandb.ai/a/b/runs"]
)
def test_what_means_nothing_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(UsageError, match="ENTITY/PROJECT"):
        remote.target(text, Wanted())


def test_a_page_on_another_server_does_not_get_the_key(server: Server) -> None:
    server.run().log({"loss": 1})
    (reading,) = remote.target(f"{server.url}/team/p/runs/r1", Wanted()).find()
    assert reading.uri == "wandb:team/p/r1"
    with pytest.raises(UsageError, match="this page is on wandb.ai, but W&B is set to 127.0.0.1"):
        remote.target("https://wandb.ai/team/p/runs/r1", Wanted())


def test_recorded_runs_of_a_project_the_oldest_first(server: Server, waits: list[float]) -> None:
    for at, name in enumerate(("b", "a")):
        server.run(name, state="finished", created=1e9 + at, config={"max_steps": {"value": 9}}).log(
            *losses(2, at * 10)
        )
    recordings = remote.read("team/p")
    assert [(r.info.name, r.info.total_steps, [e.values["loss"] for e in r.events if isinstance(e, Row)])
            for r in recordings] == [("b", 9, [0, 1]), ("a", 9, [10, 11])]  # fmt: skip
    assert waits == []


def test_a_server_that_is_away_is_waited_for_as_long_as_it_says(server: Server, waits: list[float]) -> None:
    server.run().log(*losses(3))
    server.fail("HistoryPage", status=503, headers={"Retry-After": "9"})
    server.fail("HistoryPage", status=500)
    (recording,) = remote.read("team/p/r1")
    assert len(recording.events) == 3 and waits == [9, 2]


def test_a_server_that_stays_away_is_said_in_one_line(server: Server, waits: list[float]) -> None:
    server.run().log(*losses(3))
    server.fail("*", times=50, status=500)
    with pytest.raises(SourceError, match=r"^wandb:team/p/r1 cannot be read: W&B at 127\.0\.0\.1:\d+ fails \(500\)$"):
        remote.read("team/p/r1")
    assert len(waits) == 5


def test_a_run_whose_pages_come_empty_at_first_is_read_whole(server: Server, waits: list[float]) -> None:
    server.run().log(*losses(30))
    server.fail("HistoryPage", times=2, change=history_of(lambda _: []))
    (recording,) = remote.read("team/p/r1")
    assert len(recording.events) == 30


def test_references_that_are_no_path_lead_to_the_server(server: Server) -> None:
    server.run(state="finished").log(*losses(3))
    (recording,) = references.read("team/p/r1", step_key="loss")
    assert [event.step for event in recording.events] == [0, 1, 2]
    assert isinstance(references.target("team/p", Wanted()), remote.ProjectTarget)
    assert isinstance(references.target(f"{server.url}/team/p/runs/r1", Wanted()), remote.RunTarget)


def test_without_the_library_for_http_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "requests", None)
    for name in ("remote", "feed", "outside", "graphql"):
        monkeypatch.delitem(sys.modules, f"vitalsdsl_wandb.{name}", raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install 'vitalsdsl\[wandb\]'"):
        references.target("team/p", Wanted())


def test_what_had_ended_before_the_first_look_is_left_alone_and_what_ends_later_is_found(server: Server) -> None:
    now = time.time()
    server.run("long ago", state="finished", created=now - 900)
    server.run("just now", state="finished", created=now - 300)
    server.run("a", created=now - 200)
    found = remote.target("team/p", Wanted())
    assert names(found.find()) == ["a"]
    server.run("short", state="finished", created=now)
    assert names(found.find()) == ["a", "short"]


def test_a_watcher_that_comes_again_finds_what_came_and_what_ended_meanwhile(server: Server) -> None:
    now = time.time()
    server.run("old", state="finished", created=now - 9_000)
    server.run("begun", state="finished", created=now - 8_000)
    server.run("short", state="finished", created=now - 100)
    server.run("a", created=now - 7_000)
    begun = frozenset({"wandb:team/p/begun", "wandb:team/other/x", "wandb:team/p/deleted"})
    found = remote.target("team/p", Wanted(ended_after=now - 600, begun=begun))
    assert sorted(names(found.find())) == ["a", "begun", "deleted", "short"]
    (deleted,) = (one for one in found.find() if one.info.name == "deleted")
    with pytest.raises(RunGone):
        deleted.read(None)


def test_a_run_whose_end_was_read_is_not_found_again_by_being_new(server: Server) -> None:
    server.run("first", created=time.time() - 60)
    found = remote.target("team/p", Wanted())
    found.find()
    server.run("short", state="finished", created=time.time()).log({"loss": 1})
    (short,) = (one for one in found.find() if one.info.name == "short")
    cursor = None
    for _ in range(3):
        cursor = short.read(cursor).cursor
    assert [names(found.find()) for _ in range(3)] == [["first"]] * 3


def test_a_pattern_finds_the_projects_that_fit_and_those_that_come_later(server: Server) -> None:
    now = time.time()
    server.run("a", project="llm-7b", created=now - 100)
    server.run("ended", project="llm-7b", state="finished", created=now - 90)
    server.run("b", project="vision", created=now - 100)
    for number in range(150):
        server.run(f"r{number}", project=f"other-{number}", state="finished", created=now - 100)
    found = remote.target("team/llm-*", Wanted())
    assert names(found.find()) == ["a"]
    server.run("c", project="llm-70b", created=now)
    server.run("short", project="llm-70b", state="finished", created=now)
    assert sorted(one.uri for one in found.find()) == [
        "wandb:team/llm-70b/c", "wandb:team/llm-70b/short", "wandb:team/llm-7b/a"
    ]  # fmt: skip
    for name in [name for name in server.runs if "/llm-7b/" in name]:
        del server.runs[name]
    assert sorted(names(found.find())) == ["c", "short"]


def test_an_entity_that_is_not_there_is_final(server: Server) -> None:
    with pytest.raises(TrackerError, match="has no entity nobody") as caught:
        remote.target("nobody/llm-*", Wanted()).find()
    assert caught.value.is_final
