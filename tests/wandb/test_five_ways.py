"""One policy and one training: in its process, from its file, from its server, and replayed from either, it is judged alike."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import vitalsdsl_wandb
import wandb
from vitalsdsl_wandb import remote
from vitalsdsl_wandb.references import target

import vitalsdsl as vitals
from tests.wandb.server import Server
from vitalsdsl.acting.journal import journals_of
from vitalsdsl.ground.points import Rewind
from vitalsdsl.policies.policy import LoadedPolicy
from vitalsdsl.runs.sources import read
from vitalsdsl.streaming.stream import Stream
from vitalsdsl.verdicts.verdict import Transition
from vitalsdsl.watching import watcher
from vitalsdsl.watching.feeds import Wanted
from vitalsdsl.watching.watcher import Assignment, Shows, Watcher

RULES = """policy five
rule spike { when loss > 3 for 3 steps -> orange because "loss is {loss:.2f}" }
rule high { when mean(loss, 20 samples) > 1.4 * baseline(loss, 30 samples) -> yellow }
rule drift { when val.acc < usual(val.acc, 10 samples) -> yellow when val.acc < 0.2 -> red }
rule gone { when missing val.acc for 40 steps -> yellow }
"""


def log(run: Any, dice: random.Random, calls: int) -> None:
    """What scripts do: values in parts, steps of their own, NaN as number and as text, nests, media, rows without any."""
    for _ in range(calls):
        loss = dice.choice([dice.uniform(0, 2), dice.uniform(2.5, 6), math.nan if dice.random() < 0.1 else 1.0])
        kind = dice.random()
        if kind < 0.15:
            run.log({"loss": loss}, commit=False)
            run.log({"val": {"acc": dice.random()}})
        elif kind < 0.25:
            run.log({"loss": loss, "val": {"acc": dice.random()}}, step=run.step + dice.randint(0, 3))
        elif kind < 0.3:
            run.log({"loss": "NaN", "note": "text", "h": wandb.Histogram([1.0, 2.0])})
        elif kind < 0.33:
            run.log({"grad": math.inf})
        elif kind < 0.36:
            run.log({})
        else:
            run.log({"loss": loss})


def train(seed: int, parts: Sequence[int], **options: Any) -> None:
    dice = random.Random(seed)
    for at, calls in enumerate(parts):
        with wandb.init(entity="team", project="p", id="r1", resume="must" if at else None, **options) as run:
            log(run, dice, calls)


def in_process(home: Path) -> list[str]:
    """The ids of the transitions that the attached policy came to, from its journal."""
    (path,) = journals_of("r1", home)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [record["id"] for record in records if record["type"] in ("intent", "noted")]


class Seen(Shows):
    def __init__(self) -> None:
        self.transitions: list[Transition] = []

    def saw(self, run: Any, reading: Any) -> None:
        self.transitions += reading.transitions


def from_outside(policy: LoadedPolicy, reference: str, home: Path) -> list[str]:
    seen = Seen()
    Watcher([Assignment(target(reference, Wanted(finished=True)), policy)], home, shows=seen).run(once=True)
    return [t.id for t in seen.transitions]


def replayed(policy: LoadedPolicy, recordings: Sequence[Any]) -> list[str]:
    (recording,) = recordings
    stream = Stream(policy.policy, recording.info.name, policy.digest, keep_all=True)
    out: list[Transition] = []
    for event in recording.events:
        out += stream.rewind(event.step) if isinstance(event, Rewind) else stream.push_row(event)
    return [t.id for t in out + stream.finish()]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "SETTLE", 0.0)


@pytest.mark.parametrize("seed", range(3))
def test_offline(offline: Path, tmp_path: Path, seed: int) -> None:
    policy = vitals.load("five", text=RULES)
    attachment = vitalsdsl_wandb.attach(policy)
    train(seed, [120])
    attachment.detach()
    inside = in_process(tmp_path / "vitals")
    assert len(inside) >= 5
    assert from_outside(policy, f"{tmp_path}/wandb", tmp_path / "local") == inside
    assert replayed(policy, read(str(next(tmp_path.glob("wandb/offline-run-*"))))) == inside


@pytest.mark.parametrize("seed", range(3))
def test_online_and_resumed(online: Server, tmp_path: Path, seed: int) -> None:
    policy = vitals.load("five", text=RULES)
    attachment = vitalsdsl_wandb.attach(policy)
    train(seed, [80, 60])
    attachment.detach()
    inside = in_process(tmp_path / "vitals")
    assert len(inside) >= 5
    assert from_outside(policy, f"{tmp_path}/wandb", tmp_path / "local") == inside
    assert from_outside(policy, "team/p/r1", tmp_path / "remote") == inside
    assert replayed(policy, remote.read("team/p/r1")) == inside
