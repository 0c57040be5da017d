"""Several processes measure what one does on the whole batch, agree on it, and never wait for each other in vain."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.torch.nets import loss_of, net, words

torch = pytest.importorskip("torch")
from vitalsdsl_torch.vitals import Vitals  # noqa: E402

from tests.torch.ranks import MODELS, model_of, train  # noqa: E402
from vitalsdsl.ground.errors import UsageError  # noqa: E402

HOME = Path(__file__).parents[2]
PATHS = os.pathsep.join([str(HOME), str(HOME / "integrations"), os.environ.get("PYTHONPATH", "")])


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the two processes found, and what they logged."""
    meeting = tmp_path_factory.mktemp("ranks") / "meeting"
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.torch.ranks", str(rank), str(meeting)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=HOME,
            env={**os.environ, "PYTHONPATH": PATHS, "OMP_NUM_THREADS": "1"},
        )
        for rank in range(2)
    ]
    ended = [one.communicate(timeout=300) for one in started]
    assert all(one.returncode == 0 for one in started), ended[0][1].decode()[-3000:]
    return [json.loads(output.splitlines()[-1]) for output, _ in ended], [said.decode() for _, said in ended]


@pytest.mark.parametrize("setting", MODELS)
def test_sharded_models_measure_what_one_process_does(setting: str, ranks: Any) -> None:
    (found, other), _ = ranks
    alone = train(model_of(setting), lambda batch: batch)
    compared = [
        name
        for name in alone
        if name.startswith(("grad_", "param_", "clip_", "update_", "weights_", "adam/rms", "total"))
    ]
    assert len(compared) > 40
    for name in compared:
        # Adam's ratio divides by second moments of almost nothing.
        accuracy = 1e-4 if name.startswith("adam") else 1e-6
        assert found[setting][name] == other[setting][name] == pytest.approx(alone[name], rel=accuracy, abs=1e-12), name
    assert found[setting]["loss"] == pytest.approx(alone["loss"], rel=1e-6)
    assert found[setting]["loss_max"] > found[setting]["loss"]
    assert (found[setting]["tokens"], found[setting]["samples"]) == (alone["tokens"], alone["samples"])
    assert found[setting]["state"] == other[setting]["state"] == alone["state"]
    assert "adam/v_spread/mlp" in found[setting] and "collector/failed" not in found[setting]


def test_clipping_sharded_gradients_and_measuring_them_leaves_the_bits_of_torch(ranks: Any) -> None:
    for found in ranks[0]:
        by_torch, by_ours = found["clipped"]
        assert by_torch == by_ours


def test_replicas_tell_each_other_their_losses_and_counts(ranks: Any) -> None:
    told = [found["replicated"] for found in ranks[0]]
    model = net(tied=True)
    losses = [loss_of(model, part).item() for half in words(1).chunk(2) for part in half.chunk(2)]
    tokens = [36 / 2, 36 / 2, 36 / 2 + 10, 36 / 2 + 10]
    first = told[0][0]
    whole = sum(loss * count for loss, count in zip(losses, tokens)) / sum(tokens)
    of_ranks = [sum(losses[:2]) / 2, sum(losses[2:]) / 2]
    assert first["loss"] == pytest.approx(whole, rel=1e-6)
    assert first["loss_max"] == first["rank/loss_max"] == pytest.approx(max(of_ranks), rel=1e-6)
    assert [one.get("tokens") for one in told[0][:4]] == [92.0, 184.0, None, 368.0]
    second = told[0][1]
    assert second["rank/slow_rank"] in (0.0, 1.0)
    assert second["rank/step_time_max"] >= second["rank/step_time_med"] > 0
    alone = []
    for half in words(1).chunk(2):
        model = net(tied=True)
        (loss_of(model, half.chunk(2)[0]) / 2).backward()
        alone.append(torch.linalg.vector_norm(torch.cat([one.grad.flatten() for one in model.parameters()])).item())
    assert first["rank/grad_local_max"] == pytest.approx(max(alone), rel=1e-5)
    same = [name for name in first if name.startswith(("loss", "tokens", "grad_", "param_", "clip_", "rank/"))]
    assert len(same) > 30
    for one, other in zip(*told):
        assert all(one.get(name) == other.get(name) for name in same)
    assert "act/layer0/mean" in first and first["collector/hook_dead"] == 0 and "gns" not in first


def test_detail_that_one_rank_asks_for_is_given_by_all(ranks: Any) -> None:
    for found in ranks[0]:
        has_layers = ["grad_norm/layer/0" in one for one in found["replicated"]]
        # Asked after step 2; told at step 3, since `param_norm` is due at each; given at the two after it.
        assert has_layers == [True, False, False, True, True, False, False, False]


def test_a_process_group_says_whose_loss_counts(ranks: Any) -> None:
    for found in ranks[0]:
        told = found["replicated, for itself"]
        assert told[0]["loss"] == told[0]["loss_max"]
        assert told[0]["tokens"] in (36.0, 56.0)
        assert told[0]["grad_norm"] == ranks[0][0]["replicated"][0]["grad_norm"]


def test_a_collector_that_fails_on_one_rank_is_off_on_all_and_none_waits(ranks: Any) -> None:
    for found in ranks[0]:
        assert found["failing"] == [
            ["param_norm", "grad_zero_frac"],
            *[["grad_zero_frac", "collector/failed"]] * 3,
        ]
    assert "the collector `param_norm` is off from step 2 on: division by zero" in ranks[1][1]
    assert "the collector `param_norm` is off: it failed on another rank, step 2" in ranks[1][0]


def test_an_overflow_on_one_rank_skips_the_step_on_all(ranks: Any) -> None:
    for found in ranks[0]:
        assert found["overflowing"] == [
            [0.0, 2.0**10, True, True],
            [1.0, 2.0**9, False, False],
            [0.0, 2.0**9, True, True],  # what was due at the step before
            [0.0, 2.0**9, True, True],
        ]


def test_ranks_that_do_not_measure_alike_stay_alone_and_say_so(ranks: Any) -> None:
    for found, said in zip(*ranks):
        assert found["alone"] == [[True, 7.0, False]] * 3
        assert "the ranks have made their `Vitals` with different collectors or cadences: what is measured" in said
    assert "not all ranks have made a `Vitals`: what is measured is that of each rank" in ranks[1][0]


def test_tensor_parallel_gradients_are_added_up_before_they_are_squared(ranks: Any) -> None:
    for found in ranks[0]:
        spread, whole = found["in parallel"]
        for name in ("grad_norm", "total", "param_norm", "grad_norm/group/norm", "grad_zero_frac"):
            assert spread[name] == pytest.approx(whole[name], rel=1e-6), name


def test_a_process_group_takes_a_process_that_is_of_one() -> None:
    model = net()
    with pytest.raises(UsageError, match="not initialised"):
        Vitals(model, torch.optim.SGD(model.parameters(), lr=0.1), process_group=object())
