"""The watcher over runs of a server: one verdict and one deed each, whatever the server and the runs do."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from vitalsdsl_wandb import feed
from vitalsdsl_wandb.remote import target

import vitalsdsl as vitals
from tests.acting import all_clears
from tests.feeding import as_plain
from tests.wandb.server import Run, Server
from vitalsdsl.acting.journal import journals_of
from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl.streaming.stream import Stream
from vitalsdsl.verdicts.verdict import Transition
from vitalsdsl.watching import watcher
from vitalsdsl.watching.feeds import Wanted
from vitalsdsl.watching.watcher import Assignment, Shows, Watcher

POLICY = vitals.load("p", text="rule spike { when loss > 3 for 3 steps -> orange do alert, tag }")


class Seen(Shows):
    def __init__(self) -> None:
        self.transitions: list[Transition] = []
        self.lines: list[str] = []

    def saw(self, run: Any, reading: Any) -> None:
        self.transitions += reading.transitions

    def said(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher._dice, "uniform", lambda low, high: 0.0)
    monkeypatch.setattr(watcher, "SETTLE", 0.0)
    monkeypatch.setattr(feed, "MOST_POINTS", 9)


def watch(home: Path, reference: str = "team/p/r1", once: bool = True, **wanted: Any) -> Seen:
    seen = Seen()
    Watcher([Assignment(target(reference, Wanted(**wanted)), POLICY)], home, shows=seen).run(once=once)
    return seen


def expected(events: Sequence[Row | Rewind]) -> list[tuple[Any, ...]]:
    stream = Stream(POLICY.policy, "r1", POLICY.digest, keep_all=True)
    out: list[Transition] = []
    for event in events:
        out += stream.rewind(event.step) if isinstance(event, Rewind) else stream.push_row(event)
    return [as_plain(t) for t in out + stream.finish()]


def put(run: Run, first: int, losses: Sequence[float], time: float, **more: float) -> None:
    """Rows as the service keeps them after a rewind to before `first`."""
    run.lines = [line for step, line in run.rows() if step < first]
    for step, loss in enumerate(losses, first):
        run.lines.append(json.dumps({"_step": step, "_timestamp": time + step, "loss": loss, **more}))


def test_a_run_is_watched_to_its_end_and_carries_what_was_found(server: Server, tmp_path: Path) -> None:
    run = server.run(tags=["mine"], state="finished")
    put(run, 0, [1.0] * 30 + [5.0] * 10, 100.0)
    seen = watch(tmp_path / "home", once=False)
    assert [as_plain(t) for t in seen.transitions] == [(0, 32, "spike", "green", "orange")]
    assert sorted(run.tags) == ["mine", "vitals:orange"]
    (alert,) = server.alerts
    assert "spike" in alert["title"] + alert["text"]


def test_watchers_that_come_and_go_tell_each_thing_once(server: Server, tmp_path: Path) -> None:
    run, dice = server.run(tags=["mine"]), random.Random(5)
    losses = [5.0 if dice.random() < 0.5 else 1.0 for _ in range(120)]
    transitions: list[Transition] = []
    for at in range(0, 120, 15):
        put(run, at, losses[at : at + 15], 100.0)
        server.fail("HistoryPage", status=502)
        server.fail("NotifyScriptableRunAlert", status=500)
        transitions += watch(tmp_path / "home").transitions
    run.state = "finished"
    transitions += watch(tmp_path / "home", once=False).transitions
    wanted = expected([Row(step, {"loss": loss}) for step, loss in enumerate(losses)])
    assert [as_plain(t) for t in transitions] == wanted and len(wanted) > 4
    sent = [alert["text"].rsplit("id: ")[1] for alert in server.alerts]
    assert sorted(sent) == sorted({t.id for t in transitions if t.to > t.from_} | all_clears(transitions))
    assert "mine" in run.tags


def test_a_run_that_the_service_rewinds_twice_and_its_trainer_once(server: Server, tmp_path: Path) -> None:
    """The service forgets what it cut off; rules still see each rewind, in one process and over restarts."""
    run = server.run()
    home = tmp_path / "home"
    parts: list[tuple[int, list[float], float]] = [
        (0, [1.0] * 40 + [5.0] * 20, 100.0),
        (30, [1.0] * 50, 10_000.0),
        (50, [5.0] * 20, 20_000.0),
        (60, [1.0] * 40, 30_000.0),
    ]
    transitions: list[Transition] = []
    for first, losses, time in parts:
        put(run, first, losses, time)
        transitions += watch(home).transitions
        transitions += watch(home).transitions
    run.state = "finished"
    transitions += watch(home, once=False).transitions
    assert [as_plain(t)[:2] + as_plain(t)[4:] for t in transitions if t.to > t.from_] == [
        (0, 42, "orange"),
        (2, 52, "orange"),
    ]
    assert {t.attempt for t in transitions} >= {0, 1, 2, 3}
    assert transitions[-1].to.word == "green"
    told = [alert["severity"] for alert in server.alerts]
    assert told.count("WARN") == 2 and told.count("INFO") == 2, "each time that it is over is told, too"


@pytest.mark.parametrize("seed", range(6))
def test_trainers_that_resume_at_checkpoints_and_histories_that_are_cut(
    server: Server, tmp_path: Path, seed: int
) -> None:
    """At random: rows on a trainer's axis, resumed now and then; the service's history cut now and then. The rules end
    where a watch of the final history ends that knows of it all from the start."""
    dice, run, home = random.Random(seed), server.run(), tmp_path / "home"
    own = axis = 0
    time = 1_000.0
    for _ in range(6):
        for _ in range(dice.randint(5, 40)):
            if axis > 20 and dice.random() < 0.03:
                axis -= dice.randint(5, 15)
            loss = 5.0 if (axis // 7) % 3 == 0 else 1.0
            run.lines.append(json.dumps({"_step": own, "_timestamp": time, "loss": loss, "train/global_step": axis}))
            own, axis, time = own + 1, axis + 1, time + 10
        watch(home)
        if dice.random() < 0.5:
            keep = dice.randint(1, own - 1)
            run.lines = run.lines[:keep]
            own = keep
            axis = json.loads(run.lines[-1])["train/global_step"] + 1
            time += 1_000
            watch(home)
            watch(home)
    run.lines.append(json.dumps({"_step": own, "_timestamp": time, "loss": 5.0, "train/global_step": axis}))
    run.state = "finished"
    last = watch(home, once=False)
    counted: dict[int, float] = {}
    for _, line in run.rows():
        row = json.loads(line)
        at = row["train/global_step"]
        counted = {step: loss for step, loss in counted.items() if step < at} | {at: row["loss"]}
    level = "green"
    for _, _, _, _, to in expected([Row(step, {"loss": loss}) for step, loss in counted.items()]):
        level = to
    assert ("vitals:orange" in run.tags) == (level == "orange"), last.lines


def test_a_run_that_is_watched_from_outside_goes_by_its_name(server: Server, tmp_path: Path) -> None:
    put(server.run(display="small-lm"), 0, [1.0] * 5 + [9.0] * 5, 100.0)
    watch(tmp_path)
    assert [path.parent.name for path in journals_of("small-lm", tmp_path)] == ["r1"]
