"""The third stage of DeepSpeed-Chat prints its losses in one line and the reward in another: both are of one step."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from test_json_lines import one

OLD = """\
epoch: 0|step: {step}|ppo_ep: 1|act_loss: {actor}|cri_loss: 0.25|unsuper_loss: 0.0
average reward score: {reward}
-------------------------------------------------------------------------------------
|E2E latency=2.12s |Gather latency=0.00s (0.00%) |Generate time=1.59s (75.13%)
"""
NEW = """\
Epoch: 0 | Step: {step} | PPO Epoch: 1 | Actor Loss: {actor} | Critic Loss: 0.25 | Unsupervised Loss: 0.0
Average reward score: {reward}
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (OLD, ("act_loss", "cri_loss", "unsuper_loss", "average reward score")),
        (NEW, ("Actor Loss", "Critic Loss", "Unsupervised Loss", "Average reward score")),
    ],
)
def test_a_row_has_the_losses_and_the_reward_below_them(tmp_path: Path, text: str, names: tuple[str, ...]) -> None:
    told = text.format(step=0, actor=-0.5, reward=2.5) + text.format(step=1, actor="0.125", reward="-1.5")
    rows, _ = one(tmp_path, told)
    assert rows == [
        (0, {"epoch": 0.0, **dict(zip(names, (-0.5, 0.25, 0.0, 2.5), strict=True))}),
        (1, {"epoch": 0.0, **dict(zip(names, (0.125, 0.25, 0.0, -1.5), strict=True))}),
    ]


def test_an_infinite_loss_is_a_point(tmp_path: Path) -> None:
    rows, _ = one(tmp_path, OLD.format(step=7, actor="inf", reward=-6.25))
    assert [values["act_loss"] for _, values in rows] == [math.inf]  # type: ignore[index]


def test_steps_go_on_through_the_epochs(tmp_path: Path) -> None:
    first = "".join(OLD.format(step=step, actor=0.5, reward=1.0) for step in (1, 2, 3))
    rows, notes = one(tmp_path, first + first.replace("epoch: 0", "epoch: 1"))
    assert [step for step, _ in rows] == [1, 2, 3, 4, 5, 6]
    assert "`step` begins anew with each `epoch`: it is counted on" in notes
