"""The watcher over scripted runs: the same transitions as a replay, whatever breaks on the way."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from acting import change, dispatcher
from feeding import ScriptedRun, ScriptedTarget, as_plain, rows

import vitalsdsl as vitals
from tests.acting import alarms, all_clears
from vitalsdsl.acting import crew, dispatch
from vitalsdsl.acting.control import ControlFolder
from vitalsdsl.acting.dispatch import Dispatcher
from vitalsdsl.acting.journal import Journal, journal_of
from vitalsdsl.acting.ledger import acknowledgement
from vitalsdsl.acting.memory import Memory
from vitalsdsl.acting.tracker import Ability, Alert, Port
from vitalsdsl.ground.errors import RunGone, TrackerError
from vitalsdsl.ground.points import Rewind, Row, RunInfo
from vitalsdsl.language.rules import Level
from vitalsdsl.policies.policy import LoadedPolicy
from vitalsdsl.streaming.stream import Stream
from vitalsdsl.verdicts.verdict import Transition
from vitalsdsl.watching import troubles, watched, watcher
from vitalsdsl.watching.store import Store
from vitalsdsl.watching.watched import Reading, Watched
from vitalsdsl.watching.watcher import Assignment, Shows, Watcher

POLICY = """policy p
rule spike { when loss > 3 for 3 steps -> orange because "loss is {loss:.1f}" }
rule high { when mean(loss, 20 steps) > 2 -> yellow }
"""


def policy(text: str = POLICY) -> LoadedPolicy:
    return vitals.load("p", text=text)


def noisy(seed: int, count: int = 400) -> list[Row | Rewind]:
    """Calm with spikes, and now and then a rewind."""
    dice, out, step = random.Random(seed), [], 0
    while len(out) < count:
        if step > 60 and dice.random() < 0.01:
            step -= dice.randint(5, 50)
            out.append(Rewind(step))
            step += 1
            continue
        out += [Row(step + i, {"loss": dice.uniform(4, 6)}, 0.0) for i in range(5)] if dice.random() < 0.02 else []
        step += 5 if out and isinstance(out[-1], Row) and out[-1].step == step + 4 else 0
        out.append(Row(step, {"loss": dice.uniform(0, 2)}, 1000.0 + step))
        step += 1
    return out


def expected(events: Sequence[Row | Rewind], p: LoadedPolicy, over: bool = True) -> list[tuple[Any, ...]]:
    stream = Stream(p.policy, "a", p.digest, keep_all=True)
    out = []
    for event in events:
        out += stream.rewind(event.step) if isinstance(event, Rewind) else stream.push_row(event)
    return [as_plain(t) for t in out + (stream.finish() if over else [])]


class Seen(Shows):
    def __init__(self) -> None:
        self.transitions: list[Any] = []
        self.lines: list[str] = []

    def saw(self, run: Watched, reading: Reading) -> None:
        self.transitions += reading.transitions

    def said(self, text: str) -> None:
        self.lines.append(text)


def watch(home: Path, *runs: ScriptedRun, once: bool = True, is_open: bool = False, p: LoadedPolicy | None = None,
          **options: Any) -> Seen:  # fmt: skip
    seen = Seen()
    assignment = Assignment(
        ScriptedTarget(*runs, is_open=is_open), p or policy(), options.pop("ports", lambda info: ())
    )
    Watcher([assignment], home, shows=seen, **options).run(once=once)
    return seen


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "SETTLE", 0.0)
    for dice in (watcher._dice, troubles._dice):
        monkeypatch.setattr(dice, "uniform", lambda low, high: 0.0)


@pytest.mark.parametrize("seed", range(8))
def test_a_watched_run_gives_what_its_replay_gives_and_acts_on_it(tmp_path: Path, seed: int) -> None:
    run = ScriptedRun("a", noisy(seed))
    run.go_on(over=True)
    seen = watch(tmp_path, run)
    assert [as_plain(t) for t in seen.transitions] == expected(run.events, policy())
    assert sum(isinstance(event, Rewind) for event in run.events) >= 1
    raised = {t.id for t in seen.transitions if t.to > t.from_ and t.reason != "superseded"}
    assert {alert.id for alert in alarms(run.port)} == raised
    assert {alert.id for alert in run.port.alerts} - raised == all_clears(seen.transitions)
    assert len(run.port.alerts) == len(raised | all_clears(seen.transitions))
    assert list(run.port.policies.values()) == [POLICY]


@pytest.mark.parametrize("seed", range(8))
def test_watchers_that_come_and_go_act_as_one(tmp_path: Path, seed: int) -> None:
    run, dice = ScriptedRun("a", noisy(seed)), random.Random(seed)
    transitions = []
    while run.shown < len(run.events):
        run.go_on(min(dice.randint(1, 60), len(run.events) - run.shown))
        transitions += watch(tmp_path, run).transitions
    run.go_on(over=True)
    transitions += watch(tmp_path, run).transitions
    assert [as_plain(t) for t in transitions] == expected(run.events, policy())
    ids = [alert.id for alert in run.port.alerts]
    assert len(ids) == len(set(ids)) and ids


def test_a_run_is_followed_to_its_end_and_then_the_watch_over_it_ends(tmp_path: Path) -> None:
    run = ScriptedRun("a", rows([1.0] * 50 + [4.0] * 10 + [1.0] * 20))

    def log() -> None:
        while run.shown < len(run.events):
            run.go_on(1)
            time.sleep(0.002)
        run.go_on(over=True)

    training = threading.Thread(target=log)
    training.start()
    seen = watch(tmp_path, run, once=False)
    training.join()
    assert [as_plain(t) for t in seen.transitions] == expected(run.events, policy())


def test_new_runs_of_a_project_are_found_and_backfilled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "FIND_EVERY", 0.01)
    first, second = (ScriptedRun(name, rows([1.0] * 30 + [4.0] * 5)) for name in "ab")
    first.go_on()
    target, seen = ScriptedTarget(first, is_open=True), Seen()
    watch_ = Watcher([Assignment(target, policy())], tmp_path, shows=seen)
    thread = threading.Thread(target=watch_.run)
    thread.start()
    wait_for(lambda: any(t.run == "a" for t in seen.transitions))
    second.go_on(over=True)
    target.runs.append(second)
    wait_for(lambda: any(t.run == "b" and t.rule == "spike" for t in seen.transitions))
    watch_.stop()
    thread.join(10.0)
    assert not thread.is_alive()
    assert [t.step for t in seen.transitions if t.run == "b" and t.rule == "spike"] == [32]


def wait_for(condition: Any, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


# -------------------------------------------------------------------- trouble


def test_a_tracker_that_fails_now_and_then_loses_nothing_and_is_said_once(tmp_path: Path) -> None:
    run = ScriptedRun("a", noisy(3))
    run.go_on(over=True)
    down = "the tracker does not answer"
    dice = random.Random(3)
    seen = Seen()
    assignment = Assignment(ScriptedTarget(run), policy())
    failing = Watcher([assignment], tmp_path, shows=seen)
    feed_read = ScriptedTarget(run).find()[0].__class__.read

    def read(self: Any, cursor: Any) -> Any:
        if dice.random() < 0.2:
            raise TrackerError(down)
        return feed_read(self, cursor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("feeding.ScriptedFeed.read", read)
        failing.run()
    assert [as_plain(t) for t in seen.transitions] == expected(run.events, policy())
    complaints = [line for line in seen.lines if line == f"{down}; trying again"]
    recoveries = [line for line in seen.lines if line == f"all is well again after: {down}"]
    assert len(complaints) == len(recoveries) >= 1


def test_retry_after_is_kept(tmp_path: Path) -> None:
    run = ScriptedRun("a", rows([1.0] * 5))
    run.go_on(over=True)
    run.failures = [TrackerError("too many requests", retry_after=0.4)]
    began = time.monotonic()
    watch(tmp_path, run)
    assert time.monotonic() - began >= 0.4


def test_a_deleted_run_and_a_refused_key_end_only_what_they_concern(tmp_path: Path) -> None:
    gone, refused, sound = (ScriptedRun(name, rows([1.0] * 10 + [4.0] * 5)) for name in "abc")
    for run in (gone, refused, sound):
        run.go_on(over=True)
    gone.failures = [RunGone("run a has been deleted")]
    refused.failures = [TrackerError("the key is refused", is_final=True)]
    seen = watch(tmp_path, gone, refused, sound, once=False)
    assert {t.run for t in seen.transitions} == {"c"}
    assert sorted(seen.lines) == ["run a has been deleted", "the key is refused"]


def test_a_target_that_cannot_be_watched_at_all_is_an_error(tmp_path: Path) -> None:
    target = ScriptedTarget()
    target.failures = [TrackerError("there is no such project", is_final=True)]
    with pytest.raises(TrackerError, match="no such project"):
        Watcher([Assignment(target, policy())], tmp_path).run()


def test_a_run_that_cannot_be_judged_is_off_and_the_others_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = (ScriptedRun(name, rows([1.0] * 10 + [4.0] * 5), at_a_time=100) for name in "ab")
    for run in (bad, good):
        run.go_on(over=True)
    push = Stream.push_row

    def fail_on_a(self: Stream, row: Row) -> Any:
        if self.run == "a" and row.step == 5:
            raise ZeroDivisionError
        return push(self, row)

    monkeypatch.setattr(Stream, "push_row", fail_on_a)
    seen = watch(tmp_path, bad, good, once=False)
    assert {t.run for t in seen.transitions} == {"b"}
    assert "evaluation failed and is off for run a" in caplog.text


def test_a_dry_run_decides_and_touches_nothing(tmp_path: Path) -> None:
    run = ScriptedRun("a", rows([1.0] * 10 + [4.0] * 5))
    run.go_on(over=True)
    seen = watch(tmp_path / "home", run, dry_run=True)
    assert [t.rule for t in seen.transitions] == ["spike"]
    assert run.port.calls == 0 and not (tmp_path / "home").exists()


def test_what_is_long_past_is_told_but_asks_for_nothing(tmp_path: Path) -> None:
    """A pause for a spike of two hours ago would hit a training that is well again."""
    events = rows([1.0] * 10 + [4.0] * 5 + [1.0] * 30 + [4.0] * 5)
    events = [
        Row(e.step, e.values, 1000.0 + e.step + (7200.0 if e.step > 20 else 0.0)) for e in events if isinstance(e, Row)
    ]
    run, control = ScriptedRun("a", list(events), at_a_time=100), ControlFolder(tmp_path / "control")
    run.port.can -= {Ability.REQUEST}
    run.go_on(over=True)
    watch(tmp_path / "home", run, ports=lambda info: (control,))
    assert [alert.transition.step for alert in alarms(run.port)] == [12, 47]
    assert [asked.request["trip_step"] for asked in control.asked()] == [47]


def test_from_now_on_history_shows_in_the_tags_and_is_told_to_nobody(tmp_path: Path) -> None:
    run = ScriptedRun("a", rows([1.0] * 10 + [4.0] * 20 + [1.0] * 40 + [4.0] * 5))
    run.go_on(30)
    watch(tmp_path, run, from_now=True)
    assert run.port.alerts == [] and run.port.firing["spike"] == "orange@12"
    run.go_on(over=True)
    watch(tmp_path, run, from_now=True)
    assert [alert.transition.step for alert in run.port.alerts] == [72]


def test_a_rule_that_is_known_of_is_told_no_more_until_it_is_green_or_worse(tmp_path: Path) -> None:
    text = "policy p\nrule hot { when loss > 3 -> yellow when loss > 9 -> orange }"
    p = policy(text)
    run = ScriptedRun("a", rows([4.0, 4.0, 1.0, 4.0, 10.0, 4.0]))
    run.go_on(2)
    watch(tmp_path, run, p=p)
    journal = Journal(journal_of(tmp_path, "a", "p"))
    journal.append([acknowledgement("a", "hot", None, Level.YELLOW, "the loader", 0.0, "ann")])
    journal.close()
    run.go_on(over=True)
    watch(tmp_path, run, p=p)
    assert [(a.transition.step, a.level.word) for a in alarms(run.port)] == [
        (0, "yellow"),
        (3, "yellow"),
        (4, "orange"),
    ]
    again = ScriptedRun("b", rows([4.0, 10.0, 4.0]))
    journal = Journal(journal_of(tmp_path, "b", "p"))
    journal.append([acknowledgement("b", "hot", None, Level.ORANGE, "the loader", 0.0, "ann")])
    journal.close()
    again.go_on(over=True)
    watch(tmp_path, again, p=p)
    assert again.port.alerts == []


def test_notes_are_said_once(tmp_path: Path) -> None:
    run = ScriptedRun("a", rows([1.0] * 50), notes=("the step is taken from train/global_step",))
    run.go_on(over=True)
    assert watch(tmp_path, run).lines == ["a: the step is taken from train/global_step"]


# -------------------------------------------------------------------- several watchers


def test_of_two_watchers_with_one_store_one_watches_and_the_other_takes_over(tmp_path: Path) -> None:
    store = Store(tmp_path / "db")
    assert store.lease("u", "d", f"elsewhere:{os.getpid()}:x", 1000.0)
    assert not store.lease("u", "d", f"here:{os.getpid()}:y", 1000.0 + watcher.LEASE - 1)
    assert store.lease("u", "d", f"here:{os.getpid()}:y", 1000.0 + watcher.LEASE + 1)
    assert not store.lease("u", "d", f"elsewhere:{os.getpid()}:x", 1000.0 + watcher.LEASE + 2)
    store.release(f"here:{os.getpid()}:y")
    assert store.lease("u", "d", f"elsewhere:{os.getpid()}:x", 1000.0 + watcher.LEASE + 2)


def test_a_dead_watcher_of_this_machine_holds_nothing(tmp_path: Path) -> None:
    dead = os.fork()
    if dead == 0:
        os._exit(0)
    os.waitpid(dead, 0)
    store = Store(tmp_path / "db")
    assert store.lease("u", "d", f"{os.uname().nodename}:{dead}:x", 1000.0)
    assert store.lease("u", "d", f"{os.uname().nodename}:{os.getpid()}:y", 1001.0)


class _Robbed(Memory):
    """A run's list that another writer overwrites each time that something has been added."""

    is_contested = True

    def record(self, transitions: Sequence[Transition]) -> None:
        super().record(transitions)
        self.transitions.clear()


@pytest.mark.parametrize("once", [False, True])
def test_a_run_that_is_over_is_left_only_when_its_lists_were_looked_at_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, once: bool
) -> None:
    monkeypatch.setattr(dispatch, "CHECK_AFTER", 0.05)
    events, p = noisy(3), policy()
    run = ScriptedRun("a", events, port=_Robbed())
    run.go_on(over=True)
    Watcher([Assignment(ScriptedTarget(run), p)], tmp_path).run(once=once)
    assert [t.id for t in run.port.transitions] == [t.id for t in _replayed(events, p)] != []


@pytest.mark.parametrize("once", [False, True])
def test_what_another_home_took_away_long_after_is_added_when_the_run_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, once: bool
) -> None:
    monkeypatch.setattr(dispatch, "CHECK_AFTER", 0.05)
    events, port = rows([1.0] * 10 + [4.0] * 5 + [1.0] * 30), Memory()
    port.is_contested = True
    run = ScriptedRun("a", events, port=port)
    run.go_on(40)
    watch(tmp_path, run)
    assert len(port.transitions) == 2
    port.transitions.clear()  # the other had read the list before these, and wrote it after our last look
    port.alerts.clear()
    run.go_on(over=True)
    watch(tmp_path, run, once=once)
    assert [t.step for t in port.transitions] == [12, 17]
    assert [(alert.level.word, alert.transition.step) for alert in port.alerts] == [("orange", 12), ("green", 17)]


@pytest.mark.parametrize("once", [False, True])
def test_a_watch_over_a_run_that_ended_ends_when_all_is_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, once: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """With `once` what is not delivered in time is left to the next call."""
    monkeypatch.setattr(watcher, "_AT_THE_END", 0.05)
    run = ScriptedRun("a", rows(([1.0] * 5 + [4.0] * 5) * 8), port=Memory(delay=0.01), at_a_time=100)
    run.port.can -= {Ability.REQUEST}
    run.go_on(over=True)
    due = {t.id for t in _replayed(run.events, policy()) if t.to > t.from_} | all_clears(
        _replayed(run.events, policy())
    )
    assert len(due) > 8
    watch(tmp_path, run, once=once)
    assert ({alert.id for alert in run.port.alerts} == due) is not once
    assert ("things are not done" in caplog.text) is once
    for _ in range(15 * once):
        watch(tmp_path, run)
    assert {alert.id for alert in run.port.alerts} == due


def test_a_port_that_never_answers_holds_up_the_end_for_no_longer_than_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "LOOK_AGAIN", 0.2)
    monkeypatch.setattr(watcher, "_AT_THE_END", 0.05)
    run = ScriptedRun("a", rows([4.0] * 9), port=Memory(delay=3600.0))
    run.go_on(over=True)
    watch(tmp_path, run, once=False)
    assert run.port.alerts == [] and run.reads > 2
    run.port.release()


class _Papers(Port):
    """Alerts as lines of a file, on disk before it returns: what the world has seen."""

    name = "papers"
    can = frozenset({Ability.ALERT})

    def __init__(self, path: Path) -> None:
        self.path = path

    def alert(self, alert: Alert) -> None:
        with self.path.open("a") as file:
            file.write(alert.id + "\n")


@pytest.mark.parametrize("seed", range(2))
def test_a_watcher_killed_at_any_instant_loses_no_alert_and_repeats_no_request(tmp_path: Path, seed: int) -> None:
    """Some kills of a real process, each at a random moment; the last one is left to finish."""
    events = noisy(seed, 600)
    p = policy()
    acted = {t.id for t in _replayed(events, p) if t.to > t.from_ and t.reason != "superseded"}
    acted |= all_clears(_replayed(events, p))
    paused = {t.id for t in _replayed(events, p) if t.to is Level.ORANGE and t.reason != "superseded"}
    papers = _Papers(tmp_path / "papers")
    control = ControlFolder(tmp_path / "control")
    dice = random.Random(seed)

    def watch_in_a_child() -> int:
        child = os.fork()
        if child:
            return child
        try:
            run = ScriptedRun("a", events, at_a_time=10)
            run.go_on(over=True)
            run.port.can = frozenset()
            watched.SAVE_EVERY = 0.005
            Watcher([Assignment(ScriptedTarget(run), p, lambda info: (papers, control))], tmp_path / "home").run()
        finally:
            os._exit(0)

    kills = 0
    for _ in range(100):
        child = watch_in_a_child()
        time.sleep(dice.uniform(0.0, 0.08))
        os.kill(child, signal.SIGKILL)
        kills += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        if kills >= 25:
            break
    os.waitpid(watch_in_a_child(), 0)
    told = papers.path.read_text().split()
    assert set(told) == acted
    asked = list(control.asked())
    assert all(request.state == "open" for request in asked)
    assert len({request.request["id"] for request in asked}) == len(asked)
    assert {(r.request["trip_step"], r.request["segment"]) for r in asked} == {
        (t.step, t.attempt) for t in _replayed(events, p) if t.id in paused
    }
    assert kills >= 10


def _replayed(events: Sequence[Row | Rewind], p: LoadedPolicy) -> list[Any]:
    return vitals.replay(p, iter(events), run="a")  # type: ignore[arg-type]


def test_a_journal_can_be_read_while_it_is_watched(tmp_path: Path) -> None:
    run = ScriptedRun("a", rows([1.0] * 10 + [4.0] * 5))
    run.go_on(over=True)
    watch(tmp_path, run)
    path = journal_of(tmp_path, "a", "p")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["type"] for line in lines][:1] == ["intent"]


# -------------------------------------------------------------------- what it stands on


def test_a_stream_without_rows_is_rewound_with_rows_given_again() -> None:
    p, events = policy(), noisy(5)
    whole, light = Stream(p.policy, "a", keep_all=True), Stream(p.policy, "a", keep_rows=False)
    kept: list[Row] = []
    for event in events:
        if isinstance(event, Rewind):
            kept = [row for row in kept if row.step <= event.step]
            anew = Stream(p.policy, "a", keep_rows=False)
            for row in kept:
                anew.push_row(row)
            one, other, light = whole.rewind(event.step), anew.replace(light, event.step), anew
        else:
            kept.append(event)
            one, other = whole.push_row(event), light.push_row(event)
        assert [as_plain(t) for t in one] == [as_plain(t) for t in other]
    assert light._history is None


def test_a_thread_with_nothing_to_do_ends_and_another_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "IDLE", 0.05)
    port = Memory("idle")
    acts = dispatcher("rule a { when loss > 3 -> yellow }", port, start_worker=True)
    for step in (1, 2):
        acts.take([change("a", step, Level.YELLOW)])
        assert acts.flush(5.0)
        wait_for(lambda: not any(t.name == "vitals-idle" for t in threading.enumerate()))
    assert len(port.alerts) == 2
    acts.close(1.0)


def test_run_info_is_that_of_the_feed(tmp_path: Path) -> None:
    run, told = ScriptedRun("a", rows([1.0] * 3)), []

    def ports(info: RunInfo) -> Sequence[Port]:
        told.append(info)
        return ()

    run.go_on(over=True)
    watch(tmp_path, run, ports=ports)
    assert [info.url for info in told] == ["https://host/a"]


def test_a_watched_run_of_twenty_metrics_takes_half_a_megabyte_at_most(tmp_path: Path) -> None:
    names = [f"m{i}" for i in range(20)]
    rules = (f"when {m} > 3 * baseline({m}, 100 steps) or mean({m}, 500 steps) > 9 -> yellow" for m in names)
    p = policy("policy p\n" + "\n".join(rules))
    dice = random.Random(0)

    def grown(name: str) -> ScriptedRun:
        return ScriptedRun(
            name, [Row(s, {m: dice.random() for m in names}, float(s)) for s in range(700)], at_a_time=700
        )

    def look_at(run: ScriptedRun) -> Watched:
        run.go_on()
        (feed,) = ScriptedTarget(run).find()
        journal = Journal(journal_of(tmp_path, run.name, "p"))
        one = Watched(feed, p, Dispatcher(p.policy, [], journal, feed.info), journal, None)
        one.look()
        run.events.clear()
        return one

    held = [look_at(grown("first"))]  # what all runs share is there from now on
    second = grown("second")
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    held.append(look_at(second))
    size = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert size < 500_000, size
    for one in held:
        one.close(1.0)
