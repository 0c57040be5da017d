"""What is done on a run of W&B from outside, and what is left alone."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from vitalsdsl_wandb.address import Address
from vitalsdsl_wandb.graphql import GraphQL
from vitalsdsl_wandb.outside import OutsidePort
from vitalsdsl_wandb.remote import target

import vitalsdsl as vitals
from tests.wandb.server import KEY, Server
from vitalsdsl.acting.delivery import Retry
from vitalsdsl.acting.dispatch import Dispatcher
from vitalsdsl.acting.journal import Journal
from vitalsdsl.acting.tracker import Ability, Alert, Request
from vitalsdsl.ground.errors import RunGone, TrackerError
from vitalsdsl.ground.points import Row, RunInfo
from vitalsdsl.language.rules import Level
from vitalsdsl.verdicts.verdict import Transition
from vitalsdsl.watching.feeds import Wanted

SPIKE = Transition("r1", 0, "spike", None, 2, 2, Level.GREEN, Level.ORANGE, "condition")
ALERT = Alert("id-1", "spike is orange", "loss > 3 since step 2", Level.ORANGE, SPIKE)


def port_of(server: Server, may_stop: bool = False) -> OutsidePort:
    return OutsidePort(GraphQL(), Address("team", "p", "r1"), may_stop=may_stop)


def request(action: str) -> Request:
    return Request("q1", "r1", 0, 1, action, Level.RED, "spike", None, 2, 2, 0.0, math.inf)


@pytest.fixture
def run(server: Server) -> Any:
    return server.run(tags=["mine", "vitals:orange", "vitals:mine", "vitals"])


def test_only_the_tag_of_the_level_changes(server: Server, run: Any) -> None:
    port_of(server).tag_level(Level.RED)
    assert run.tags == ["mine", "vitals:mine", "vitals", "vitals:red"]
    (written,) = [v for name, v in zip(server.asked, server.variables) if name == "UpsertBucket"]
    assert set(written) == {"id", "tags"}


def test_a_tag_that_is_right_is_not_written(server: Server, run: Any) -> None:
    port_of(server).tag_level(Level.ORANGE)
    assert server.asked == ["Run"]


def test_a_tag_that_somebody_sets_while_ours_is_put_on_stays(server: Server, run: Any) -> None:
    """The other one writes after our writing, from what it had read before it, so ours is gone: it is put on again."""
    before = list(run.tags)
    asked: list[int] = []

    def between(_: Any) -> None:
        asked.append(1)
        if len(asked) == 2:  # our reading after the writing
            run.tags = [*before, "theirs"]

    server.before["Run"] = between
    port_of(server).tag_level(Level.RED)
    assert sorted(run.tags) == ["mine", "theirs", "vitals", "vitals:mine", "vitals:red"]


def test_two_watchers_come_to_one_tag(server: Server, run: Any) -> None:
    def other(_: Any) -> None:
        if "vitals:yellow" not in run.tags and server.asked.count("Run") == 2:
            run.tags = [*run.tags, "vitals:yellow"]

    server.before["Run"] = other
    port_of(server).tag_level(Level.RED)
    assert [tag for tag in run.tags if tag in ("vitals:red", "vitals:yellow", "vitals:orange")] == ["vitals:red"]


def test_a_tag_that_never_stays_is_said(server: Server, run: Any) -> None:
    server.before["Run"] = lambda _: setattr(run, "tags", ["mine"])
    with pytest.raises(TrackerError, match="the tag of run r1 does not stay") as caught:
        port_of(server).tag_level(Level.RED)
    assert not caught.value.is_final


def test_an_alert_carries_its_id_and_is_sent_once(server: Server, run: Any) -> None:
    port = port_of(server)
    port.alert(ALERT)
    port.alert(ALERT)
    (sent,) = server.alerts
    assert sent["title"] == "spike is orange" and sent["text"].startswith(ALERT.text) and "id-1" in sent["text"]
    assert (sent["entityName"], sent["projectName"], sent["runName"]) == ("team", "p", "r1")
    assert sent["severity"] == "WARN" and sent["waitDuration"] > 0


def test_a_long_title_is_shortened_to_what_wandb_wants(server: Server, run: Any) -> None:
    port_of(server).alert(Alert("i", "x" * 200, "", Level.RED, SPIKE))
    assert len(server.alerts[0]["title"]) < 64 and server.alerts[0]["severity"] == "ERROR"


def test_an_alert_that_is_refused_is_an_error(server: Server, run: Any) -> None:
    answer: Callable[[dict[str, Any]], None] = lambda a: a["data"]["notifyScriptableRunAlert"].update(success=False)  # noqa: E731
    server.fail("NotifyScriptableRunAlert", change=answer)
    with pytest.raises(TrackerError, match="W&B did not send the alert"):
        port_of(server).alert(ALERT)


@pytest.mark.parametrize("fault", [{"status": 500}, {"status": 429}, {"body": b"{"}, {"status": 500, "after": True}])
def test_an_alert_is_tried_again_until_it_is_sent(
    server: Server, run: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: dict[str, Any]
) -> None:
    caplog.set_level(logging.DEBUG)
    policy = vitals.load("p", text="rule spike { when loss > 3 -> orange do alert, tag }")
    (reading,) = target("team/p/r1", Wanted()).find()
    server.fail("NotifyScriptableRunAlert", times=2, **fault)
    server.fail("UpsertBucket", times=2, **fault)
    dispatcher = Dispatcher(
        policy.policy,
        reading.ports(policy),
        Journal(tmp_path / "journal.jsonl"),
        RunInfo("r1"),
        retry=Retry(first=0.01, most=0.02),
    )
    dispatcher.take(vitals.replay(policy, [Row(0, {"loss": 5.0})], run="r1"))
    assert dispatcher.flush(20)
    dispatcher.close(5)
    assert "vitals:red" not in run.tags and "vitals:orange" in run.tags and "mine" in run.tags
    ids = {sent["text"].rsplit("id: ")[1] for sent in server.alerts}
    assert len(ids) == 1
    if "after" not in fault and "body" not in fault:
        assert len(server.alerts) == 1
    assert KEY not in caplog.text and KEY not in (tmp_path / "journal.jsonl").read_text()


def test_transitions_the_policy_and_firing_rules_are_not_put_on_the_run(server: Server, run: Any) -> None:
    port = port_of(server)
    assert port.can == {Ability.TAG, Ability.ALERT}
    port.tag_rules({"spike": "orange@2"})
    assert server.asked == []


def test_nothing_that_the_runs_own_process_sends_is_touched(server: Server, run: Any) -> None:
    run.log({"loss": 1})
    before = (run.config.copy(), run.summary.copy(), list(run.lines), run.state)
    port = port_of(server, may_stop=True)
    port.tag_level(Level.RED)
    port.alert(ALERT)
    assert (run.config, run.summary, run.lines, run.state) == before
    assert set(server.asked) == {"Run", "UpsertBucket", "NotifyScriptableRunAlert"}


def test_a_stop_is_passed_on_only_where_it_may(server: Server, run: Any) -> None:
    (quiet,) = target("team/p/r1", Wanted()).find()
    (allowed,) = target("team/p/r1", Wanted(may_stop=True)).find()
    policy = vitals.load("p", text="when loss > 3 -> red")
    assert [Ability.REQUEST in feed.ports(policy)[0].can for feed in (quiet, allowed)] == [False, True]
    allowed.ports(policy)[0].request(request("stop"))
    assert run.stopped
    allowed.ports(policy)[0].request(request("stop"))
    assert server.asked.count("StopRun") == 1


@pytest.mark.parametrize("action", ["pause", "rollback", "checkpoint"])
def test_nothing_but_a_stop_is_ever_passed_on(server: Server, run: Any, action: str) -> None:
    with pytest.raises(TrackerError, match=f"none to {action}") as caught:
        port_of(server, may_stop=True).request(request(action))
    assert caught.value.is_final and not run.stopped and server.asked == []


def test_a_stop_that_does_not_show_is_an_error(server: Server, run: Any) -> None:
    server.before["Run"] = lambda _: setattr(run, "stopped", False)
    with pytest.raises(TrackerError, match="does not show it"):
        port_of(server, may_stop=True).request(request("stop"))


def test_a_run_that_is_over_is_not_stopped(server: Server, run: Any) -> None:
    run.state = "finished"
    port_of(server, may_stop=True).request(request("stop"))
    assert "StopRun" not in server.asked


def test_a_run_that_is_gone_is_said(server: Server) -> None:
    with pytest.raises(RunGone, match="run r1 is not, or no longer, in team/p"):
        port_of(server).tag_level(Level.RED)
