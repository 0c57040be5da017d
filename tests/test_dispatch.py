"""What is done about transitions, what is not, and why; and that training never waits for it."""

from __future__ import annotations

import math
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.acting import QUICK, START, G, O, R, Y, change, dispatcher, policy, streams, three
from vitalsdsl.acting import delivery, dispatch
from vitalsdsl.acting.decision import Decision
from vitalsdsl.acting.delivery import Retry
from vitalsdsl.acting.dispatch import Dispatcher
from vitalsdsl.acting.journal import Journal
from vitalsdsl.acting.memory import Memory
from vitalsdsl.acting.tracker import Ability, Alert, PolicyCopy
from vitalsdsl.ground.errors import PolicyError, TrackerError, UsageError
from vitalsdsl.ground.points import RunInfo
from vitalsdsl.verdicts.verdict import Transition


def texts(acts: Dispatcher, *transitions: Transition, at_once: bool = False) -> list[str]:
    batches = [transitions] if at_once else [(t,) for t in transitions]
    return [d.text for batch in batches for d in acts.take(batch)]


# ---------------------------------------------------------------- what is done


@pytest.mark.parametrize(
    ("to", "alerts", "requests", "level"),
    [(Y, 1, [], "yellow"), (O, 1, ["pause"], "orange"), (R, 1, ["rollback"], "red")],
)
def test_each_level_does_what_the_language_says(to: object, alerts: int, requests: list[str], level: str) -> None:
    port = Memory()
    acts = dispatcher(three(), port)
    acts.take([change("a", 8120, to, message="loss is high")])  # type: ignore[arg-type]
    assert acts.close(1.0)
    assert (len(port.alerts), [r.action for r in port.requests], port.level.word) == (alerts, requests, level)
    assert port.firing == {"a": f"{level}@8120"}
    assert port.alerts[0].title == f"{level}: a at step 8120 (run)" and "loss is high" in port.alerts[0].text
    assert [t.step for t in port.transitions] == [8120]


def test_an_alert_says_what_the_rule_says_and_what_is_done() -> None:
    port = Memory()
    text = 'rule a "too high" { when loss > 3 -> red try "the batches", "the lr" owner "ana" runbook "wiki/a" }'
    acts = Dispatcher(policy(text), [port], Journal(), RunInfo("run", url="https://host/run"), start_worker=False)
    acts.take([change("a", 30, R, message="loss is 4", member="m1")])
    acts.close(1.0)
    assert port.alerts[0].title == "red: a (m1) at step 30 (run)"
    assert port.alerts[0].text.splitlines() == [
        "too high", "loss is 4", "step 30, green -> red", "does: alert, tag, ask for rollback(lr: 90%)",
        "try: the batches", "try: the lr", "owner: ana", "runbook: wiki/a", "https://host/run",
    ]  # fmt: skip


def test_an_alert_about_a_hostile_name_moves_no_cursor() -> None:
    port = Memory()
    acts = dispatcher(three(), port)
    acts.take([change("a", 30, R, message="grad is high\nin two lines", member="l\n\x1b[2J\x07\N{NO-BREAK SPACE}é")])
    acts.close(1.0)
    assert port.alerts[0].title == "red: a (l \ufffd[2J\ufffd é) at step 30 (run)"
    assert port.alerts[0].text.splitlines()[:2] == ["grad is high", "in two lines"]
    assert "\x1b" not in port.alerts[0].text
    acts = dispatcher(three(), port)
    bad = "x\x1b[31m\ry\u202e"
    acts.take([change("b", 30, Y, message=bad, values={bad: 1.0}, policy=bad, digest="sha256:1")])
    acts.close(1.0)
    assert all(line.isprintable() for line in port.alerts[1].text.split("\n"))


EVIDENCE = {
    # (values, margin, because): the lines between the title and the step
    "both": ({"grad_norm": 4.0, "baseline(grad_norm, 500 steps)": 1.0}, 1 / 3, "loss > 3",
             ["grad_norm = 4, baseline(grad_norm, 500 steps) = 1", "33.3% beyond its threshold"]),
    "digits": ({"loss": 12345.678, "x": math.nan, "y": math.inf}, -0.5, "loss > 3",
               ["loss = 1.23e+04, x = NaN, y = Infinity", "50% short of its threshold"]),
    "against zero": ({"gap": 0.25}, 0.25, "loss > 0", ["gap = 0.25", "0.25 beyond its threshold"]),
    "a zero value": ({"gap": 2.0, "mean(gap, 5 steps)": 0.0}, 2.0, "loss > 3",
                     ["gap = 2, mean(gap, 5 steps) = 0", "2 beyond its threshold"]),
    "far": ({"loss": 9.0}, 630.6, "loss > 3", ["loss = 9", "631 times beyond its threshold"]),
    "farther": ({"loss": 9.0}, 43_600.0, "loss > 3", ["loss = 9", "43,600 times beyond its threshold"]),
    "endless": ({"loss": math.inf}, math.inf, "loss > 3", ["loss = Infinity"]),
    "a family": ({f"m{at}": 1.0 for at in range(10)}, math.nan, "loss > 3",
                 [", ".join(f"m{at} = 1" for at in range(8)) + ", and 2 more"]),
}  # fmt: skip


@pytest.mark.parametrize("case", EVIDENCE)
def test_an_alert_tells_the_values_the_margin_and_the_policy(case: str) -> None:
    values, margin, condition, told = EVIDENCE[case]
    port = Memory()
    acts = dispatcher(f"rule a {{ when {condition} -> yellow }}", port)
    acts.take([change("a", 30, Y, message="high", values=values, margin=margin, policy="p", digest="sha256:abcd12345")])
    acts.close(1.0)
    lines = port.alerts[0].text.splitlines()
    assert lines[:-1] == ["high", *told, "step 30, green -> yellow", "does: alert, tag"]
    assert lines[-1] == "policy p, sha256:abcd1234"


def test_values_that_the_message_lists_are_not_told_twice() -> None:
    port = Memory()
    acts = dispatcher(three(), port)
    acts.take([change("a", 30, Y, message="loss > 3 (loss = 4)", values={"loss": 4.0})])
    acts.close(1.0)
    assert port.alerts[0].text.count("loss = 4") == 1


def test_a_request_is_fenced_dated_and_always_the_same() -> None:
    ports = Memory(), Memory()
    for port in ports:
        acts = dispatcher(three("level red do rollback(lr: 80%, skip: 50 steps), checkpoint"), port)
        acts.take([change("a", 30, R, attempt=2, message="high", values={"loss": math.inf}, margin=0.5)])
        acts.take([change("b", 31, R, attempt=2)])
        acts.close(1.0)
    assert [r.id for r in ports[0].requests] == [r.id for r in ports[1].requests]
    first = ports[0].requests[0].as_dict()
    assert len({r.id for r in ports[0].requests}) == 4 and [r.seq for r in ports[0].requests] == [1, 2, 3, 4]
    assert first | {"id": ""} == {
        "id": "", "run": "run", "segment": 2, "seq": 1, "action": "rollback", "level": "red", "rule": "a",
        "member": None, "trip_step": 30, "onset": 30, "issued_at": START, "expires_at": START + 600,
        "params": {"target": "last_healthy", "lr_factor": 0.8, "skip_batches": 50}, "reason": "high",
        "evidence": {"values": {"loss": "Infinity"}, "margin": 0.5, "digest": ""}, "supersedes": None,
    }  # fmt: skip
    assert [r.action for r in ports[0].requests] == ["rollback", "save", "rollback", "save"]


def test_a_red_request_supersedes_the_milder_one_before_it() -> None:
    port = Memory()
    acts = dispatcher(three(), port)
    for t in (change("a", 10, O), change("b", 20, R), change("c", 30, R), change("a", 40, R, O, attempt=1)):
        acts.take([t])
    acts.close(1.0)
    pause, rollback, again, other_attempt = port.requests
    assert (rollback.supersedes, again.supersedes, other_attempt.supersedes) == (pause.id, None, None)


def test_going_back_to_green_updates_the_tags_and_alerts_nobody() -> None:
    port = Memory()
    acts = dispatcher(three(), port)
    found = texts(acts, change("a", 10, R), change("b", 10, Y), change("a", 20, O, R), change("a", 30, G, O))
    acts.close(1.0)
    assert found[2:] == ["only the tags: down from red to orange", "only the tags: back to green"]
    assert (port.level, port.firing, len(port.alerts)) == (Y, {"b": "yellow@10"}, 2)


def test_what_a_rewind_supersedes_asks_for_nothing_and_is_told_to_be_over() -> None:
    port = Memory()
    acts = dispatcher(three(), port)
    acts.take([change("a", 10, R)])
    back = [change("a", 5, G, R, attempt=1, reason="superseded"), change("b", 5, R, attempt=1, reason="superseded")]
    assert [d.text for d in acts.take(back)] == [
        "tell that it is over: alert", "only the tags: the run went back to step 5"
    ]  # fmt: skip
    acts.close(1.0)
    assert (port.firing, [a.title for a in port.alerts], len(port.requests)) == (
        {"b": "red@5"}, ["red: a at step 10 (run)", "green: a is over at step 5 (run)"], 1
    )  # fmt: skip


def test_the_members_of_a_rule_share_one_tag_that_of_the_worst() -> None:
    port = Memory()
    acts = dispatcher(three(), port)
    acts.take([change("a", 10, Y, member="0"), change("a", 10, O, member="1")])
    acts.take([change("a", 20, O, Y, member="0")])
    acts.close(1.0)
    assert port.firing == {"a": "orange@10"}


# ---------------------------------------------------------------- why it is not done


def test_a_transition_acts_once_however_often_it_is_told() -> None:
    port = Memory()
    acts = dispatcher(three(), port)
    t = change("a", 10, O)
    assert [d.acts for d in acts.take([t, t]) + acts.take([t])] == [True, False, False]
    acts.close(1.0)
    assert (len(port.alerts), len(port.transitions)) == (1, 1)


def test_a_shadowed_rule_is_recorded_and_touches_nothing_else() -> None:
    port = Memory()
    acts = dispatcher("rule a { when loss > 3 -> red shadow inhibits b }\nrule b { when loss > 3 -> red }", port)
    assert texts(acts, change("a", 10, R)) == ["nothing: a is shadowed: recorded, never acting"]
    acts.flush()
    assert (port.level, port.firing, port.alerts, len(port.transitions)) == (G, {}, [], 1)
    assert texts(acts, change("b", 11, R)) == ["alert, tag, ask for rollback(lr: 90%)"]


COOL = "rule a { when loss > 3 -> yellow cooldown %s }"


def test_a_cooldown_holds_back_the_same_rule_and_member_unless_it_gets_worse() -> None:
    acts = dispatcher(COOL % "500 steps")
    assert texts(
        acts,
        change("a", 8120, Y), change("a", 8130, G, Y), change("a", 8300, Y), change("a", 8301, Y, member="1"),
        change("a", 8400, O, Y), change("a", 8410, G, O), change("a", 8899, O), change("a", 8900, O, Y),
    ) == [
        "alert, tag",
        "tell that it is over: alert",
        "nothing: cooldown of a until step 8620",
        "alert, tag",
        "alert, tag, ask for pause",
        "only the tags: back to green",
        "nothing: cooldown of a until step 8900",
        "alert, tag, ask for pause",
    ]  # fmt: skip


def test_tags_go_on_telling_the_truth_during_a_cooldown() -> None:
    port = Memory()
    acts = dispatcher(COOL % "500 steps", port)
    texts(acts, change("a", 10, Y), change("a", 20, G, Y), change("a", 30, Y))
    acts.close(1.0)
    assert (port.firing, len(port.alerts)) == ({"a": "yellow@30"}, 2)


@pytest.mark.parametrize(
    ("cooldown", "second", "expected"),
    [
        ("2 h", {"time": START + 1800}, "nothing: cooldown of a for another 1.5 h"),
        ("2 h", {"time": START + 7200}, "alert, tag"),
        ("90 s", {"time": START + 60}, "nothing: cooldown of a for another 30 s"),
    ],
)
def test_a_cooldown_in_time_goes_by_the_times_of_the_steps(
    cooldown: str, second: dict[str, float], expected: str
) -> None:
    acts = dispatcher(COOL % cooldown)
    assert texts(acts, change("a", 10, Y, time=START), change("a", 11, Y, **second))[1] == expected


def test_a_cooldown_in_epochs_goes_by_the_counters_and_is_warned_of_without(caplog: pytest.LogCaptureFixture) -> None:
    counters = {"epoch": 1.0}
    acts = dispatcher(COOL % "2 epochs", counters=lambda: counters)
    found = texts(acts, change("a", 10, Y))
    counters["epoch"] = 2.5
    found += texts(acts, change("a", 20, Y))
    counters["epoch"] = 3.0
    found += texts(acts, change("a", 30, Y))
    assert found == ["alert, tag", "nothing: cooldown of a for another 0.5 epochs", "alert, tag"]
    assert not caplog.records
    blind = dispatcher(COOL % "2 epochs")
    assert texts(blind, change("a", 10, Y), change("a", 20, Y)) == ["alert, tag", "alert, tag"]
    assert "the cooldown of a is in epochs, which are not known here" in caplog.text


def test_a_cooldown_counts_the_steps_lived_not_the_steps_shown() -> None:
    acts = dispatcher(COOL % "500 steps")
    back = change("a", 7000, G, Y, attempt=1, reason="superseded")
    found = texts(acts, change("a", 8120, Y), back, change("a", 7100, Y, attempt=1), change("a", 7500, Y, attempt=1))
    assert found[2:] == ["nothing: cooldown of a until step 7500", "alert, tag"]


INHIBITING = "rule b { when loss > 3 -> red }\nrule a { when loss > 3 -> yellow inhibits b }"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_inhibited_rule_does_not_act_whatever_the_order_in_the_step(order: tuple[int, int]) -> None:
    port = Memory()
    acts = dispatcher(INHIBITING, port)
    step = [change("a", 10, Y), change("b", 10, R)]
    found = dict(zip((step[i].rule for i in order), texts(acts, *(step[i] for i in order), at_once=True), strict=True))
    assert found == {"a": "alert, tag", "b": "nothing: a is yellow and inhibits b"}
    acts.flush()
    assert port.firing == {"a": "yellow@10"}
    assert texts(acts, change("a", 20, G, Y), change("b", 21, O, Y))[1] == "alert, tag, ask for pause"


def test_an_inhibited_rule_shows_in_the_tags_once_its_inhibitor_is_green() -> None:
    port = Memory()
    acts = dispatcher(INHIBITING, port)
    texts(acts, change("a", 10, Y), change("b", 10, R), change("a", 20, G, Y))
    acts.close(1.0)
    assert (port.level, port.firing, port.requests) == (R, {"b": "red@10"}, [])


def test_the_budget_of_a_red_action_is_kept_over_rewinds_and_then_red_does_what_orange_does() -> None:
    acts = dispatcher(three("limit rollback 2 per 1000 steps"))
    stream = [
        change("a", 500, R), change("a", 400, G, R, attempt=1, reason="superseded"), change("a", 600, R, attempt=1),
        change("a", 500, G, R, attempt=2, reason="superseded"), change("a", 700, R, attempt=2),
        change("b", 1299, R, attempt=2), change("c", 1400, R, attempt=2),
    ]  # fmt: skip
    spent = "alert, tag, ask for pause; not rollback(lr: 90%): its budget, 2 rollback per 1000 steps, is used up"
    # Steps lived since the first: 200, 400, 999 and 1100; with the last of them the first is out of the thousand.
    found = [t for t in texts(acts, *stream) if not t.startswith(("nothing", "only the tags", "tell"))]
    assert found == ["alert, tag, ask for rollback(lr: 90%)"] * 2 + [spent] * 2 + [
        "alert, tag, ask for rollback(lr: 90%)"
    ]


def test_budgets_in_time_and_of_any_action() -> None:
    acts = dispatcher(three('limit alert 1 per 1 h\nlimit pause 1 per 1 h\nlevel yellow do alert, notify("team")'))
    found = texts(
        acts, change("a", 1, O, time=START), change("b", 2, O, time=START + 60), change("c", 3, O, time=START + 3600)
    )
    assert found == [
        "alert, tag, ask for pause",
        "tag; not alert: its budget, 1 alert per 1 h, is used up; not pause: its budget, 1 pause per 1 h, is used up",
        "alert, tag, ask for pause",
    ]


def test_one_step_asks_for_one_intervention_for_its_highest_level() -> None:
    port = Memory()
    acts = dispatcher(three(), port)
    found = texts(acts, change("a", 10, O), change("b", 10, R), change("c", 10, R), at_once=True)
    assert found == [
        "alert, tag; not pause: this step has asked for `rollback` already (b), and asks for one at most",
        "alert, tag, ask for rollback(lr: 90%)",
        "alert, tag; not rollback(lr: 90%): this step has asked for `rollback` already (b), and asks for one at most",
    ]
    assert texts(acts, change("a", 10, R, O))[0].startswith("alert, tag; not rollback(lr: 90%): this step has asked")
    assert texts(acts, change("a", 11, R, O)) == ["alert, tag, ask for rollback(lr: 90%)"]


def test_of_two_interventions_in_one_do_the_weightier_is_asked_for() -> None:
    acts = dispatcher(three("level red do pause, stop"))
    assert texts(acts, change("a", 10, R)) == [
        "alert, tag, ask for stop; not pause: this step has asked for `stop` already (a), and asks for one at most"
    ]


def test_what_is_not_allowed_or_heard_by_nobody_is_said() -> None:
    port = Memory(can=[Ability.ALERT, Ability.TAG, Ability.NOTIFY], channels=["team"])
    text = three('level yellow do notify("team"), notify("oncall")')
    acts = dispatcher(text, port)
    assert texts(acts, change("a", 10, R), change("b", 11, Y)) == [
        "alert, tag",  # that nobody here rolls back is not worth a word each time
        'notify("team"); not notify("oncall"): no channel `oncall` is configured',
    ]
    acts.close(1.0)
    assert [channel for channel, _ in port.notices] == ["team"]
    careful = dispatcher(text, allow={"alert", "tag"})
    assert texts(careful, change("a", 10, R)) == ["alert, tag; not rollback(lr: 90%): `rollback` is not allowed here"]


def test_a_dry_run_decides_as_if_and_does_nothing(tmp_path: Path) -> None:
    port, path = Memory(), tmp_path / "j"
    acts = dispatcher(three("limit rollback 1 per 100 steps"), port, journal=Journal(path), dry_run=True)
    found = texts(acts, change("a", 10, R), change("b", 11, R))
    assert [text.partition(";")[0] for text in found] == [
        "alert, tag, ask for rollback(lr: 90%)",
        "alert, tag, ask for pause",
    ]
    assert acts.close(1.0)
    assert port.calls == 0 and path.read_bytes() == b""


def test_a_decision_is_data() -> None:
    acts = dispatcher(three(), Memory(can=[Ability.ALERT]))
    (decision,) = acts.take([change("a", 10, O)])
    assert decision.as_dict() == {
        "type": "decision", "transition": decision.transition.id, "does": ["alert"], "withheld": None,
        "not_done": {
            "tag": {"kind": "nobody", "text": "nothing here takes tags"},
            "pause": {"kind": "nobody",
                      "text": "no training here takes requests"},
        },
    }  # fmt: skip
    (held,) = acts.take([change("a", 20, G, O)])
    assert held.as_dict()["withheld"] is None and held.as_dict()["does"] == ["alert"]
    (milder,) = dispatcher(three()).take([change("a", 20, Y, O)])
    assert milder.as_dict()["withheld"] == {"kind": "milder", "text": "down from orange to yellow"}


def test_what_makes_no_sense_is_refused_at_the_start() -> None:
    with pytest.raises(PolicyError, match="there is no action `rolback`"):
        dispatcher("rule a { when loss > 3 -> red do rolback }")
    with pytest.raises(UsageError, match="there is no action `reboot` to allow"):
        dispatcher(three(), allow={"reboot"})
    with pytest.raises(UsageError, match="two ports are called `memory`"):
        dispatcher(three(), Memory(), Memory())


def test_the_policy_is_kept_with_the_run() -> None:
    port, deaf = Memory(), Memory("deaf", can=[])
    acts = dispatcher(three(), port, deaf)
    acts.record_policy(PolicyCopy("spikes", "rule …", "sha256:1"))
    acts.close(1.0)
    assert port.policies == {"sha256:1": "rule …"} and deaf.calls == 0


# ---------------------------------------------------------------- ports that misbehave


def test_a_port_that_fails_twice_is_asked_again_and_it_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    port = Memory(can=[Ability.ALERT], failures=2)
    acts = dispatcher(three(), port, start_worker=True)
    acts.take([change("a", 10, Y)])
    assert acts.close(5.0)
    assert (len(port.alerts), port.calls) == (1, 3)
    assert [r.getMessage() for r in caplog.records] == [
        "vitals: memory: cannot post `alert`: memory does not answer (alert); trying again (said once)"
    ]


def test_a_port_that_always_fails_is_given_up_and_the_others_are_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken, sound = Memory("broken", failures=-1), Memory("sound")
    acts = dispatcher(three(), broken, sound, journal=Journal(tmp_path / "j"), start_worker=True)
    for step in (10, 20, 30):
        acts.take([change("a", step, O, message=str(step))])
    assert acts.close(5.0)
    assert [r.trip_step for r in sound.requests] == [10, 20, 30] and not broken.requests
    assert sum("post `pause`" in r.getMessage() for r in caplog.records) == 2  # trying again; given up
    assert Journal(tmp_path / "j").unfinished("run") == []


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt()])
def test_even_an_exit_raised_by_a_port_ends_no_thread(error: BaseException) -> None:
    class Exiting(Memory):
        def alert(self, alert: object) -> None:
            raise error

    port = Exiting()
    acts = dispatcher(three(), port, start_worker=True)
    acts.take([change("a", 10, Y)])
    acts.take([change("a", 20, O, Y)])
    assert acts.close(5.0) and len(port.requests) == 1


def test_a_port_that_hangs_keeps_neither_training_nor_other_ports_waiting(caplog: pytest.LogCaptureFixture) -> None:
    hanging, sound = Memory("hanging", delay=60.0), Memory("sound")
    acts = dispatcher(three(), hanging, sound, start_worker=True)
    worst = 0.0
    for step in range(10, 60):
        began = time.perf_counter()
        acts.take([change("a", step, O)])
        worst = max(worst, time.perf_counter() - began)
    began = time.perf_counter()
    assert not acts.close(2.0)
    assert time.perf_counter() - began < 4.0
    assert worst < 0.05, worst  # 5 ms on a quiet machine; what must not happen is a wait for the port
    assert len(sound.requests) == 50
    assert "waiting for hanging" in caplog.text
    hanging.release()


def test_tags_that_are_outdated_by_newer_ones_are_not_sent() -> None:
    gate = threading.Event()
    port = Memory(can=[Ability.TAG], watch=lambda _: gate.wait(5.0) and None)
    acts = dispatcher(three(), port, start_worker=True)
    for step, to in enumerate([Y, O, R, G, Y, O], 1):
        acts.take([change("a", step, to, reason="condition")])
    assert not acts.flush(0.3)  # all are handed over by now, and wait
    gate.set()
    assert acts.close(5.0)
    assert port.level is O and len(port.levels) <= 3


class _Together(Memory):
    """Notes how many alerts and transitions come in one call."""

    takes_together = True

    def __init__(self, gate: threading.Event) -> None:
        super().__init__(watch=lambda _: gate.wait(10.0) and None)
        self.told: list[int] = []
        self.recorded: list[int] = []

    def alert_all(self, alerts: Sequence[Alert]) -> None:
        self._called("alerts")
        self.alerts += alerts
        self.told.append(len(alerts))

    def record(self, transitions: Sequence[Transition]) -> None:
        super().record(transitions)
        self.recorded.append(len(transitions))


def test_what_waits_for_a_port_becomes_few_calls_and_none_of_it_is_lost(tmp_path: Path) -> None:
    gate = threading.Event()
    port = _Together(gate)
    acts = dispatcher(three(), port, journal=Journal(tmp_path / "j"), start_worker=True)
    for step in range(1, 41):
        acts.take([change("a", step, O if step % 2 else Y)])
    assert acts.written(10.0)
    gate.set()
    assert acts.close(10.0)
    steps = list(range(1, 41))
    assert [alert.transition.step for alert in port.alerts] == [t.step for t in port.transitions] == steps
    assert len(port.told) <= 3 and len(port.recorded) <= 3 and len(port.levels) <= 3
    assert [request.trip_step for request in port.requests] == steps[::2]
    assert Journal(tmp_path / "j").unfinished("run") == []


def test_alerts_that_fail_together_are_told_together_again(tmp_path: Path) -> None:
    gate = threading.Event()
    port = _Together(gate)
    port.failures = 3
    acts = dispatcher(three(), port, journal=Journal(tmp_path / "j"), start_worker=True, retry=Retry(5, 0.001, 0.002))
    for step in range(1, 11):
        acts.take([change("a", step, O if step % 2 else Y)])
    gate.set()
    assert acts.close(10.0)
    assert [alert.transition.step for alert in port.alerts] == list(range(1, 11))
    assert Journal(tmp_path / "j").unfinished("run") == []


def test_while_a_run_catches_up_only_what_stands_in_the_end_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    port = Memory()
    acts = dispatcher(three(), port)
    for step in range(1, 6):
        acts.take([change("a", step, O if step % 2 else Y)], is_behind=True)
    acts.flush()
    assert len(port.alerts) == 5 and (port.levels, port.transitions) == ([], [])
    acts.heed()
    acts.flush()
    assert port.levels == [O] and port.firing == {"a": "orange@5"}
    assert [t.step for t in port.transitions] == [1, 2, 3, 4, 5]
    acts.heed()
    acts.take([change("a", 6, Y)], is_behind=True)
    assert acts.close(1.0) and port.levels == [O, Y]
    monkeypatch.setattr(dispatch, "SHOW_EVERY", 0.0)  # one that never comes to an end shows all the same
    acts = dispatcher(three(), again := Memory())
    acts.take([change("a", 1, O)], is_behind=True)
    acts.flush()
    assert again.levels == [O]


class _Refusing(Memory):
    """Raises what it is told to, one after the other."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__("refusing", [Ability.ALERT])
        self.errors = list(errors)

    def alert(self, alert: Alert) -> None:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        self.alerts.append(alert)


def test_what_is_refused_for_good_is_not_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    port = _Refusing(TrackerError("the key is refused", is_final=True))
    acts = dispatcher("rule a { when loss > 3 -> yellow }", port, start_worker=True)
    acts.take([change("a", 1, Y)])
    assert acts.close(5.0)
    assert port.calls == 1 and "cannot post `alert`: the key is refused (said once)" in caplog.text


@pytest.mark.parametrize(("soon", "is_said"), [(60.0, False), (0.2, True)])
def test_a_port_that_asks_for_time_gets_it_and_that_is_said_only_where_it_is_long(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, soon: float, is_said: bool
) -> None:
    monkeypatch.setattr(delivery, "SOON", soon)
    port = _Refusing(TrackerError("too many requests", retry_after=0.3))
    acts = dispatcher("rule a { when loss > 3 -> yellow }", port, start_worker=True)
    began = time.monotonic()
    acts.take([change("a", 1, Y)])
    assert acts.close(5.0)
    assert len(port.alerts) == 1 and time.monotonic() - began >= 0.3
    assert ("too many requests; trying again" in caplog.text) == is_said


def test_after_the_end_nothing_is_begun() -> None:
    port = Memory(can=[Ability.ALERT], failures=-1)
    acts = dispatcher(three(), port, start_worker=True, retry=Retry(attempts=50, first=10.0, most=10.0))
    acts.take([change("a", 1, Y), change("b", 1, Y), change("c", 1, Y)])
    assert not acts.close(0.2)
    calls = port.calls
    acts.take([change("a", 2, O, Y)])
    time.sleep(0.1)
    assert port.calls == calls == 1


def test_take_never_raises(caplog: pytest.LogCaptureFixture) -> None:
    acts = dispatcher(three(), clock=lambda: 1 / 0)
    assert acts.take([change("a", 10, R)]) == [] and acts.take([change("a", 20, R)]) == []
    assert len(caplog.records) == 1 and "training goes on" in caplog.text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_does_nothing(tmp_path: Path) -> None:
    port = Memory()
    acts = dispatcher(three(), port, journal=Journal(tmp_path / "j"), start_worker=True)
    with acts._journal.lock:  # as if another thread held it at the moment of the fork
        child = os.fork()
        if child == 0:
            nothing = acts.take([change("a", 10, R)]) == [] and acts.flush(1.0) and acts.close(1.0)
            acts.silence("a", "")
            os._exit(0 if nothing else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert acts.close(5.0) and port.calls == 0
    assert (tmp_path / "j").read_bytes() == b""


# ---------------------------------------------------------------- restarts


def test_what_was_decided_and_not_done_is_done_at_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "j"
    text = three('level orange do alert, tag, pause, notify("team")')
    down, up = Memory("main", failures=-1, channels=["team"]), Memory("main", channels=["team"])
    slow = Retry(attempts=5, first=10.0, most=10.0)
    first = dispatcher(text, down, journal=Journal(path), start_worker=True, retry=slow)
    first.take([change("a", 10, O, message="high", values={"loss": math.nan}, margin=0.2, time=START)])
    assert not first.close(0.2)
    second = dispatcher(text, up, journal=Journal(path))
    second.flush()
    assert ([r.action for r in up.requests], len(up.alerts), len(up.notices)) == (["pause"], 1, 1)
    assert up.firing == {"a": "orange@10"} and "high" in up.alerts[0].text
    third = dispatcher(text, up, journal=Journal(path))
    assert [d.acts for d in third.take([change("a", 10, O)])] == [False]
    third.close(1.0)
    assert len(up.requests) == 1


def test_a_request_that_has_expired_is_not_made_at_the_next_start(tmp_path: Path) -> None:
    path, port = tmp_path / "j", Memory()
    slow = Retry(first=10.0, most=10.0)
    first = dispatcher(three(), Memory(failures=-1), journal=Journal(path), start_worker=True, retry=slow)
    first.take([change("a", 10, O)])
    assert not first.close(0.2)
    later = dispatcher(three(), port, journal=Journal(path), clock=lambda: START + 601)
    later.close(1.0)
    assert (port.requests, len(port.alerts)) == ([], 1)
    assert Journal(path).unfinished("run") == []


def test_what_a_killed_process_left_out_of_a_run_s_lists_is_added_at_the_next_start(tmp_path: Path) -> None:
    path, port = tmp_path / "j", Memory()
    first = dispatcher(three(), port, journal=Journal(path))
    for t in (change("a", 10, O), change("b", 11, Y), change("a", 12, G, O)):
        first.take([t])
    first.close(1.0)
    kept, alerts = list(port.transitions), [alert.id for alert in port.alerts]
    del port.transitions[1:], port.alerts[:1]
    dispatcher(three(), port, journal=Journal(path)).close(1.0)
    assert sorted(t.id for t in port.transitions) == sorted(t.id for t in kept) and len(kept) == 3
    assert sorted(alert.id for alert in port.alerts) == sorted(alerts) and len(alerts) == 2


def test_what_another_writer_takes_away_is_added_again_a_while_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contested, own = Memory("contested"), Memory("own")
    contested.is_contested = True
    acts = dispatcher(three(), contested, own, journal=Journal(tmp_path / "j"))
    acts.take([change("a", 10, O)])
    acts.flush()
    contested.transitions.clear()
    own.transitions.clear()
    acts.heed()
    acts.flush()
    assert acts.is_unchecked and contested.transitions == []
    monkeypatch.setattr(dispatch, "CHECK_AFTER", 0.0)
    acts.heed()
    acts.close(1.0)
    assert not acts.is_unchecked and [t.step for t in contested.transitions] == [10]
    assert len(contested.alerts) == 1 and own.transitions == []


@pytest.mark.parametrize(
    ("newest", "issued"),
    [
        (START + 86400.0, START + 86400.0),
        (START - 86400.0, START - 86400.0),
        (math.nan, START),
        (1000.0, START),
    ],
    ids=["a day ahead", "a day behind", "no times", "no clock at all"],
)
def test_a_request_is_dated_by_the_run_s_own_clock(tmp_path: Path, newest: float, issued: float) -> None:
    path = tmp_path / "j"
    slow = Retry(attempts=2, first=10.0, most=10.0)
    down = dispatcher(three(), Memory(failures=-1), journal=Journal(path), start_worker=True, retry=slow)
    port = Memory()
    for acts in (down, dispatcher(three(), port)):
        acts.take([change("a", 10, O, time=newest - 5.0)], newest=newest)
        acts.close(0.2)
    (request,) = port.requests
    assert (request.issued_at, request.expires_at) == (issued, issued + 600.0)
    again = Memory()
    dispatcher(three(), again, journal=Journal(path)).close(1.0)
    assert again.requests == [request]


def test_what_is_left_at_the_end_of_a_run_is_said_once_however_often_it_is_looked_at(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failing: set[tuple[str, str]] = set()
    slow = Retry(attempts=5, first=10.0, most=10.0)
    for _ in range(3):
        port = Memory(failures=-1)
        acts = dispatcher(
            three(), port, journal=Journal(tmp_path / "j"), start_worker=True, retry=slow, failing=failing
        )
        acts.take([change("a", 10, O)])
        assert not acts.close(0.2)
    assert caplog.text.count("are not done (waiting for memory)") == 1


# ---------------------------------------------------------------- properties

LIMITED = "limit rollback 2 per 60 steps\nlimit pause 3 per 100 steps\n"
RULES = (
    LIMITED
    + """
rule a { when loss > 3 -> yellow cooldown 20 steps inhibits b }
rule b { when loss > 3 -> yellow }
rule c { when loss > 3 -> yellow cooldown 5 steps }
"""
)


def decisions(acts: Dispatcher, batches: list[list[Transition]]) -> list[Decision]:
    return [d for batch in batches for d in acts.take(batch)]


@given(streams())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_no_step_has_two_interventions_and_none_is_milder_than_another_of_its_step(
    batches: list[list[Transition]],
) -> None:
    by_step: dict[tuple[int, int], list[Decision]] = {}
    for d in decisions(dispatcher(RULES), batches):
        by_step.setdefault((d.transition.attempt, d.transition.step), []).append(d)
    for step in by_step.values():
        asked = [d for d in step if d.intervention]
        assert len(asked) <= 1
        others = [d for d in step if any(x.withheld and x.withheld.kind == "one a step" for x in d.deeds)]
        assert all(other.transition.to <= asked[0].transition.to for other in others)


@given(streams())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_budgets_hold_over_steps_lived_whatever_is_rewound(batches: list[list[Transition]]) -> None:
    lived, last, attempt = 0, None, 0
    asked: dict[str, list[int]] = {"rollback": [], "pause": []}
    for d in decisions(dispatcher(RULES), batches):
        t = d.transition
        if last is not None and t.attempt == attempt:
            lived += max(0, t.step - last)
        last, attempt = t.step, t.attempt
        if d.intervention is not None:
            asked[d.intervention.asked.name].append(lived)
    for action, count, per in (("rollback", 2, 60), ("pause", 3, 100)):
        times = asked[action]
        assert all(sum(1 for x in times if t - per < x <= t) <= count for t in times)


@given(streams(), st.data())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_after_a_crash_nothing_is_done_twice_and_budgets_are_as_before(
    batches: list[list[Transition]], data: st.DataObject
) -> None:
    """The process ends between two batches; the next one reads the journal, is told all anew, and goes on."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "j"
        at = data.draw(st.integers(0, len(batches)))
        ports = Memory(), Memory()
        one = dispatcher(RULES, ports[0], journal=Journal(path))
        before = decisions(one, batches[:at])
        one.close(1.0)
        two = dispatcher(RULES, ports[1], journal=Journal(path))
        after = decisions(two, batches)
        two.close(1.0)
        expected = decisions(dispatcher(RULES), batches)
    assert [d.text for d in before + after[len(before) :]] == [d.text for d in expected]
    assert not any(d.acts for d in after[: len(before)])
    ids = [r.id for port in ports for r in port.requests]
    assert len(ids) == len(set(ids))


@given(streams(), st.data())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_journal_cut_at_any_byte_forgets_only_what_was_cut(
    batches: list[list[Transition]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "j"
        one = dispatcher(RULES, journal=Journal(path))
        told = decisions(one, batches)
        one.close(1.0)
        whole = path.read_bytes()
        cut = data.draw(st.integers(0, len(whole)))
        path.write_bytes(whole[:cut])
        known = Journal(path).ledger("run").seen
        port = Memory()
        two = dispatcher(RULES, port, journal=Journal(path))
        two.flush()  # what the cut made unfinished is done once more, under the same ids
        again = decisions(two, batches)
        two.close(1.0)
    assert not any(d.acts for d in again if d.transition.id in known)
    assert {d.transition.id for d in told} <= known | {d.transition.id for d in again}
    ids = [r.id for r in port.requests]
    assert len(ids) == len(set(ids))


# ---------------------------------------------------------------- cost


def test_taking_a_transition_costs_little(tmp_path: Path) -> None:
    acts = dispatcher(RULES, Memory(), journal=Journal(tmp_path / "j"), start_worker=True, retry=QUICK)
    costs = []
    for step in range(300):
        t = change("c", step * 10, O)
        began = time.perf_counter()
        acts.take([t])
        costs.append(time.perf_counter() - began)
    assert acts.close(30.0)
    assert sorted(costs)[150] < 0.002  # measured: well under 0.2 ms; the bound is for a busy machine
