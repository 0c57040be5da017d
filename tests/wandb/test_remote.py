"""Runs of W&B read from outside while W&B itself logs them: the same rows and the same transitions."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import vitalsdsl_wandb
from vitalsdsl_wandb import remote

import vitalsdsl as vitals
from tests.wandb.reading import Watcher, losses, shown, values
from tests.wandb.server import Server
from vitalsdsl.ground.points import Rewind, Row

if "CI" not in os.environ:
    pytest.importorskip("wandb")

import wandb

from tests.wandb.transaction_log import history, transaction_log


def train(run: Any, between: Callable[[], object] = lambda: None) -> None:
    """What scripts do: plain rows, rows in parts, own steps, what is not finite, nested, and media."""
    run.log({"loss": 2.5, "nest": {"y": {"z": 1}}})
    run.log({"loss": math.nan, "up": math.inf, "down": -math.inf, "text": "t", "flag": True, "none": None})
    run.log({"a": 1}, commit=False)
    run.log({"b": 2})
    between()
    run.log({"f": 1}, step=25)
    run.log({"f": 3, "g": 2}, step=25)
    run.log({"val/loss": 4})
    run.log({"hist": wandb.Histogram([1, 2, 3]), "table": wandb.Table(columns=["x"], data=[[1]]), "loss": 7})
    run.log({"loss": 1}, step=3)
    run.log({"loss": 8}, step=1_000)
    between()


EXPECTED = [
    (0, {"loss": 2.5, "nest.y.z": 1.0}),
    (1, {"loss": math.nan, "up": math.inf, "down": -math.inf}),
    (2, {"a": 1.0, "b": 2.0}),
    (25, {"f": 3.0, "g": 2.0, "val/loss": 4.0}),
    (26, {"loss": 7.0}),
    (1000, {"loss": 8.0}),
]


def test_every_row_that_wandb_keeps_is_read_while_the_run_goes_on(online: Server, tmp_path: Path) -> None:
    watcher: list[Watcher] = []

    def look() -> None:
        until = time.monotonic() + 20
        while not watcher or not watcher[0].rows:
            assert time.monotonic() < until
            if online.runs:
                watcher[:] = watcher or [Watcher("team/p/live")]
                watcher[0].poll()
            time.sleep(0.1)

    with wandb.init(project="p", id="live", tags=["mine"], config={"max_steps": 2000}) as run:
        train(run, look)
    (seen,) = watcher
    before = len(seen.rows)
    assert not seen.is_over
    seen.to_the_end()
    assert 0 < before < len(EXPECTED)
    assert shown(seen.rows) == repr([(step, dict(sorted(row.items()))) for step, row in EXPECTED])
    kept = history(transaction_log(tmp_path, "live"))
    assert [step for step, _ in kept] == seen.steps
    assert all(abs(row.time - time.time()) < 100 for row in seen.rows)
    info = seen.feed().info
    assert (info.name, info.total_steps, info.url) == ("live", 2000, f"{online.url}/team/p/runs/live")
    assert seen.feed().uri == "wandb:team/p/live"
    assert online.unknown == []


def test_a_run_that_is_taken_up_again_is_read_on(online: Server) -> None:
    with wandb.init(project="p", id="again") as run:
        run.log({"loss": 1})
        run.log({"loss": 2})
    watcher = Watcher("team/p/again")
    watcher.to_the_end()
    with wandb.init(project="p", id="again", resume="must") as run:
        run.log({"loss": 3})
    watcher.is_over = False
    watcher.to_the_end()
    assert values(watcher.rows) == [1, 2, 3] and watcher.steps == [0, 1, 2]
    assert not [event for event in watcher.events if isinstance(event, Rewind)]


def test_a_run_that_wandb_rewinds_is_rewound(online: Server) -> None:
    with wandb.init(project="p", id="back") as run:
        for loss in range(40):
            run.log({"loss": loss})
    watcher = Watcher("team/p/back")
    watcher.to_the_end()
    with wandb.init(project="p", resume_from="back?_step=20") as run:
        for loss in (100, 101, 102):
            run.log({"loss": loss})
    watcher.is_over = False
    watcher.to_the_end()
    (at,) = [i for i, event in enumerate(watcher.events) if isinstance(event, Rewind)]
    back = watcher.events[at]
    after = [event for event in watcher.events[at + 1 :] if isinstance(event, Row)]
    assert at == 40 and back.step == 20
    assert [(row.step, row.values["loss"]) for row in after] == [(21, 100), (22, 101), (23, 102)]


POLICY = """
when loss > 3 for 2 steps -> orange
when train/loss > mean(train/loss, 20 steps) * 1.5 -> yellow
when missing val/loss for 30 steps -> red
"""


@pytest.mark.parametrize("axis", ["", "train/global_step", "tokens"])
def test_the_transitions_are_those_of_the_process_itself(online: Server, tmp_path: Path, axis: str) -> None:
    """On W&B's own step, on a trainer's, and on one that the script defines; a reading of it is a restart each time."""
    policy = vitals.load("p", text=POLICY)
    vitalsdsl_wandb.attach(policy)
    with wandb.init(project="p", id="same") as run:
        if axis == "tokens":
            run.define_metric("*", step_metric=axis)
        for step in range(120):
            own = {axis: step * 2} if axis else {}
            run.log({"loss": math.nan if step == 50 else 5 if step % 17 in (3, 4, 5) else 1}, commit=False)
            run.log({"train/loss": 1 + (step % 29 == 7), **own})
            if step % 40 == 0:
                run.log({"val/loss": 2.0, **own})
    (path,) = tmp_path.rglob("files/vitals/transitions.jsonl")
    own = [json.loads(line) for line in path.read_text().splitlines()]
    watcher = Watcher("team/p/same")
    watcher.to_the_end()
    (recording,) = remote.read("team/p/same")
    for events in (watcher.events, recording.events):
        outside = [t.as_dict() for t in vitals.replay(policy, events, run="same")]
        assert [t["id"] for t in outside] == [t["id"] for t in own]
        assert [(t["rule"], t["step"], t["to"]) for t in outside] == [(t["rule"], t["step"], t["to"]) for t in own]
    assert {t["to"] for t in own} == {"green", "yellow", "orange", "red"}


def test_neither_reading_nor_watching_loads_wandb(server: Server) -> None:
    server.run(state="finished").log(*losses(3))
    code = (
        "import sys; from vitalsdsl_wandb.remote import read, target; from vitalsdsl.watching.feeds import Wanted; "
        "assert len(read('team/p/r1')[0].events) == 3; target('team/p', Wanted()).find(); sys.exit('wandb' in sys.modules)"
    )
    root = [str(Path(m.__file__).parent.parent) for m in (vitals, vitalsdsl_wandb) if m.__file__]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(root)}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


def test_what_wandb_itself_writes_of_define_metric_is_understood(online: Server) -> None:
    with wandb.init(project="p", id="defined") as run:
        run.define_metric("val/*", step_metric="epoch")
        run.define_metric("*", step_metric="tokens")
        for at in range(5):
            run.log({"loss": 1, "tokens": at * 100})
    watcher = Watcher("team/p/defined")
    watcher.to_the_end()
    assert watcher.steps == [0, 100, 200, 300, 400]
