"""Requests of a watcher whose clock is a day off from that of the machine that trains."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from vitalsdsl_torch.exits import Paused

from tests.acting import O, change, dispatcher, three
from tests.torch.training_loops import Loop, answers, channel, request

DAY = 86_400.0


@pytest.mark.parametrize("skew", [DAY, 0.0, -DAY], ids=["ahead", "right", "behind"])
@pytest.mark.parametrize(("age", "state"), [(1.0, "done"), (700.0, "rejected")], ids=["fresh", "old"])
def test_what_a_watcher_asks_holds_for_ten_minutes_whatever_its_clock_says(
    tmp_path: Path, skew: float, age: float, state: str
) -> None:
    control = tmp_path / "control"
    watcher = dispatcher(three("level orange do checkpoint"), channel(control), clock=lambda: time.time() + skew)

    def before(step: int) -> None:
        if step == 20:
            said = time.time() - age
            watcher.take([change("a", step, O, time=said)], newest=said)
            watcher.close(1.0)

    Loop(tmp_path / "run", control=control, poll=0.0).train(30, before)
    ((found, why),) = answers(control).values()
    assert (found, why) == (state, "expired" if state == "rejected" else "")


@pytest.mark.parametrize("skew", [DAY, -DAY], ids=["ahead", "behind"])
def test_a_person_lets_a_training_go_on_whatever_their_clock_says(tmp_path: Path, skew: float) -> None:
    control = tmp_path / "control"
    pause = request("pause")
    with pytest.raises(Paused):
        Loop(tmp_path / "run", control=control, poll=0.0).train(
            20, lambda step: channel(control).ask(pause) if step == 10 else None
        )
    resume = {"id": "go on", "run": "small", "action": "resume", "issued_at": time.time() + skew}
    channel(control).ask({**resume, "expires_at": time.time() + skew + 60.0})
    loop = Loop(tmp_path / "run", control=control, poll=0.0, hold=0.0).train(20)
    assert loop.guard.done == 20 and answers(control)["go on"][0] == "done"
