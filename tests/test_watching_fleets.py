"""Many runs under one watcher, and watchers that come again and again: what is asked, found, told and given up."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from feeding import ScriptedFeed, ScriptedRun, ScriptedTarget, rows
from test_watcher import Seen, policy, wait_for

import vitalsdsl as vitals
from vitalsdsl.acting.memory import Memory
from vitalsdsl.acting.tracker import Ability, Alert, PolicyCopy
from vitalsdsl.ground.errors import TrackerError
from vitalsdsl.language.rules import Level
from vitalsdsl.policies.policy import LoadedPolicy
from vitalsdsl.watching import troubles, watcher
from vitalsdsl.watching.store import Store, last_visit
from vitalsdsl.watching.watcher import Assignment, Watcher

CALM = "policy p\nrule spike { when loss > 3 for 3 steps -> orange }"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "SETTLE", 0.0)
    monkeypatch.setattr(watcher._dice, "uniform", lambda low, high: high if high <= 1.1 else 0.0)
    monkeypatch.setattr(troubles._dice, "uniform", lambda low, high: 0.0)


class Leading(ScriptedTarget):
    """A project whose search says how its runs stand, and counts."""

    tells_feeds = True

    def __init__(self, *runs: ScriptedRun) -> None:
        super().__init__(*runs, is_open=True)
        self.found = 0

    def find(self) -> Sequence[ScriptedFeed]:
        self.found += 1
        return super().find()


class Project(ScriptedTarget):
    """A project that finds what goes on, and what a watcher of it was told to find."""

    def __init__(self, home: Path, *runs: ScriptedRun, p: LoadedPolicy) -> None:
        super().__init__(*runs, is_open=True)
        self.begun = last_visit(home, "project", p.digest).begun

    def find(self) -> Sequence[ScriptedFeed]:
        return [feed for feed in super().find() if not feed.run.is_over or feed.uri in self.begun]


def watching(target: ScriptedTarget, home: Path, p: LoadedPolicy | None = None, reference: str = "") -> Any:
    seen = Seen()
    assignment = Assignment(target, p or policy(CALM), reference=reference)
    return Watcher([assignment], home, shows=seen), seen


@pytest.mark.parametrize(("count", "leads"), [(watcher.MANY, True), (watcher.MANY - 1, False)])
def test_one_look_serves_the_readings_of_many_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, leads: bool
) -> None:
    monkeypatch.setattr("feeding.ScriptedFeed.interval", 0.05)
    runs = [ScriptedRun(f"r{number}", rows([1.0] * 5)) for number in range(count)]
    target = Leading(*runs)
    watch, _ = watching(target, tmp_path)
    thread = threading.Thread(target=watch.run)
    thread.start()
    wait_for(lambda: runs[-1].reads >= 20)
    watch.stop()
    thread.join(10.0)
    if leads:
        assert abs(target.found - max(run.reads for run in runs)) <= 2
    else:
        assert target.found == 1


def test_a_watcher_that_cannot_keep_up_says_so_once_and_when_it_can_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("feeding.ScriptedFeed.interval", 0.1)
    is_slow, read = threading.Event(), ScriptedFeed.read
    is_slow.set()

    def drag(feed: ScriptedFeed, cursor: Any) -> Any:
        if is_slow.is_set():
            time.sleep(0.2)
        return read(feed, cursor)

    monkeypatch.setattr(ScriptedFeed, "read", drag)
    target = Leading(*(ScriptedRun(f"r{number}", rows([1.0] * 5)) for number in range(2 * watcher.MANY)))
    watch, seen = watching(target, tmp_path, reference="project")
    thread = threading.Thread(target=watch.run)
    thread.start()
    wait_for(lambda: target.found >= 6 and bool(seen.lines))
    is_slow.clear()
    wait_for(lambda: len(seen.lines) == 2)
    watch.stop()
    thread.join(10.0)
    assert seen.lines[0].startswith("project: reading 16 runs takes ") and "so alerts come late" in seen.lines[0]
    assert seen.lines[1] == "project: alerts come in time again"


def test_a_run_that_ended_while_nobody_watched_is_read_to_its_end_and_then_left_alone(tmp_path: Path) -> None:
    p = policy(CALM)
    run = ScriptedRun("a", rows([1.0] * 10 + [4.0] * 5))
    run.go_on(5)
    watching(Project(tmp_path, run, p=p), tmp_path, p, "project")[0].run(once=True)
    run.go_on(over=True)
    watch, seen = watching(Project(tmp_path, run, p=p), tmp_path, p, "project")
    watch.run(once=True)
    assert [t.step for t in seen.transitions] == [12]
    reads = run.reads
    watching(Project(tmp_path, run, p=p), tmp_path, p, "project")[0].run(once=True)
    assert run.reads == reads


class Refusing(Memory):
    """A tracker that reads, and takes no alert while it is told so."""

    refuses = True

    def alert(self, alert: Alert) -> None:
        if self.refuses:
            raise TrackerError("not now")
        super().alert(alert)


class _Shelf(Memory):
    """A tracker whose tags and copies outlast the process, and that takes none while there is a file that says so."""

    def __init__(self, folder: Path) -> None:
        super().__init__(can=[Ability.POLICY, Ability.TAG])
        self.folder = folder

    def record_policy(self, policy: PolicyCopy) -> None:
        self._write("policies", policy.digest)

    def tag_level(self, level: Level) -> None:
        self._write("tags", level.word)

    def _write(self, name: str, text: str) -> None:
        with (self.folder / "asked").open("a") as file:
            file.write(name + "\n")
        if (self.folder / "closed").exists():
            raise TrackerError("not now")
        with (self.folder / name).open("a") as file:
            file.write(text + "\n")


def test_a_policy_that_a_tracker_refused_is_put_on_the_run_by_the_next_process_and_then_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "_AT_THE_END", 0.5)
    p = policy(CALM)

    def watch_in_a_child() -> list[str]:
        """What was asked of the tracker by a process of its own."""
        (tmp_path / "asked").write_text("")
        child = os.fork()
        if not child:
            try:
                run = ScriptedRun("a", rows([1.0] * 10), shown=10, port=_Shelf(tmp_path))
                watching(ScriptedTarget(run, is_open=True), tmp_path / "home", p)[0].run(once=True)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        return (tmp_path / "asked").read_text().split()

    (tmp_path / "closed").touch()
    assert "policies" in watch_in_a_child() and not (tmp_path / "policies").exists()
    (tmp_path / "closed").unlink()
    assert watch_in_a_child() == ["policies", "tags"]
    assert (tmp_path / "policies").read_text().split() == [p.digest]
    assert watch_in_a_child() == []


def test_an_alert_that_could_not_be_delivered_is_when_the_watcher_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "_AT_THE_END", 0.1)
    p, port = policy(CALM), Refusing()
    run = ScriptedRun("a", rows([1.0] * 5 + [4.0] * 5), port=port)
    run.go_on(3)
    watching(Project(tmp_path, run, p=p), tmp_path, p, "project")[0].run(once=True)
    run.go_on(over=True)
    watching(Project(tmp_path, run, p=p), tmp_path, p, "project")[0].run(once=True)
    assert port.alerts == []
    port.refuses = False
    watching(Project(tmp_path, run, p=p), tmp_path, p, "project")[0].run(once=True)
    assert [alert.transition.step for alert in port.alerts] == [7]
    assert Store(tmp_path / "watch.db").visit("project", p.digest).begun == frozenset()


def test_a_run_that_is_over_is_forgotten_and_found_again_when_it_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "FIND_EVERY", 0.02)
    p = policy(CALM)
    run = ScriptedRun("a", rows([1.0] * 10 + [4.0] * 5))
    run.go_on(5)
    watch, seen = watching(Project(tmp_path, run, p=p), tmp_path, p, "project")
    thread = threading.Thread(target=watch.run)
    thread.start()
    wait_for(lambda: run.reads >= 3)
    run.go_on(0, over=True)
    wait_for(lambda: not watch._runs)
    run.go_on()
    wait_for(lambda: bool(seen.transitions))
    watch.stop()
    thread.join(10.0)
    assert [t.step for t in seen.transitions] == [12]


def test_after_an_outage_all_runs_are_read_as_soon_as_the_target_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "FIND_EVERY", 0.1)
    down = TrackerError("the tracker does not answer")
    runs = [ScriptedRun(name, rows([1.0] * 5)) for name in "abc"]
    target = ScriptedTarget(*runs, is_open=True)
    watch, seen = watching(target, tmp_path)
    monkeypatch.setattr(watch._troubles, "failed", _an_hour_for_runs(watch))
    thread = threading.Thread(target=watch.run)
    thread.start()
    wait_for(lambda: all(run.reads for run in runs))
    for run in runs:
        run.failures = [down]
    wait_for(lambda: not any(run.failures for run in runs))
    target.failures = [down]
    reads = [run.reads for run in runs]
    wait_for(lambda: all(run.reads > before + 2 for run, before in zip(runs, reads)))
    watch.stop()
    thread.join(10.0)
    assert seen.lines == [f"{down}; trying again", f"all is well again after: {down}"]


def _an_hour_for_runs(watch: Watcher) -> Any:
    failed = watch._troubles.failed

    def patient(place: Any, who: Any, error: TrackerError) -> float:
        failed(place, who, error)
        return 3600.0 if who in watch._runs.values() else 0.05

    return patient


# -------------------------------------------------------------------- once, where nothing answers


def test_once_ends_where_nothing_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "GIVE_UP", 0.3)
    target = ScriptedTarget(is_open=True)
    target.failures = [TrackerError("the tracker does not answer") for _ in range(100_000)]
    watch, _ = watching(target, tmp_path)
    began = time.monotonic()
    with pytest.raises(TrackerError, match="does not answer"):
        watch.run(once=True)
    assert time.monotonic() - began < 10.0


def test_once_gives_up_runs_that_cannot_be_read_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "GIVE_UP", 0.3)
    runs = [ScriptedRun(f"r{number}", rows([1.0] * 5)) for number in range(20)]
    for run in runs:
        run.failures = [TrackerError("too many requests", retry_after=3600.0) for _ in range(9)]
    watch, seen = watching(ScriptedTarget(*runs, is_open=True), tmp_path)
    began = time.monotonic()
    watch.run(once=True)
    assert time.monotonic() - began < 10.0
    assert seen.lines == ["too many requests; trying again", "given up for now: too many requests"]


# -------------------------------------------------------------------- what a run never logs

READS = """policy p
metric eval = "eval/loss" every 50 steps
rule spike { when los > 3 -> orange }
rule both { when loss > lr -> yellow }
rule late { when eval > 3 -> yellow }
"""


def test_what_a_run_never_logs_is_said_after_some_steps_and_at_its_end(tmp_path: Path) -> None:
    p = vitals.load("p", text=READS)
    run = ScriptedRun("a", rows([1.0] * 150))
    lacking = "los (read by spike), lr (read by both), eval (read by late); los: did you mean `loss`?"
    for shown in (90, 30, 10):
        run.go_on(shown)
        watch, seen = watching(ScriptedTarget(run), tmp_path, p)
        watch.run(once=True)
        assert seen.lines == ([f"a: not logged in the first 100 steps: {lacking}"] if shown == 30 else [])
    run.go_on(over=True)
    watch, seen = watching(ScriptedTarget(run), tmp_path, p)
    watch.run(once=True)
    assert seen.lines == [f"a: never logged: {lacking}"]
    watch, seen = watching(ScriptedTarget(run), tmp_path, p)
    watch.run(once=True)
    assert seen.lines == []


def test_a_counter_that_a_run_does_not_have_is_said_at_its_end(tmp_path: Path) -> None:
    run = ScriptedRun("a", rows([1.0] * 5))
    run.go_on(over=True)
    watch, seen = watching(
        ScriptedTarget(run), tmp_path, policy("policy p\nwhen loss > 3 and progress > 0.5 -> orange")
    )
    watch.run(once=True)
    assert seen.lines == ["a: never known: progress (this run does not say how long it is)"]


def test_once_ends_though_a_run_logs_on_and_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ScriptedRun("a", rows([1.0] * 100_000), shown=1)
    read = ScriptedFeed.read

    def log_and_read(self: ScriptedFeed, cursor: Any) -> Any:
        run.go_on(1)
        return read(self, cursor)

    monkeypatch.setattr(ScriptedFeed, "read", log_and_read)
    watch, _ = watching(ScriptedTarget(run, is_open=True), tmp_path)
    watch.run(once=True)
    assert run.reads == watcher.MOST_LOOKS
