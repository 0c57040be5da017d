"""What is looked at in the forward pass: layers, dead units, logits; under compilation and checkpointing."""

from __future__ import annotations

import copy
import logging
import math
import pickle
from typing import Any

import pytest

from tests.torch.nets import WORDS, loss_of, net, words

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop  # noqa: E402
from vitalsdsl_torch.vitals import Vitals  # noqa: E402

EACH = {"activations": 1, "dead_units": 1, "logits": 1}


def stepped(model: Any, vitals: Vitals, optimizer: Any, batch: Any) -> dict[str, float]:
    optimizer.zero_grad()
    loss_of(model, batch).backward()
    optimizer.step()
    return vitals.step()


def sgd(model: Any) -> Any:
    return torch.optim.SGD(model.parameters(), lr=0.01)


def outputs(model: Any, batch: Any) -> list[Any]:
    """The first layer's input and each layer's output, in float64."""
    apart = copy.deepcopy(model)  # the model itself would be looked at already here
    with torch.no_grad():
        hidden = apart.embed(batch[:, :-1])
        found = [hidden]
        for layer in apart.layers:
            found.append(hidden := layer(hidden))
    return [one.double() for one in found]


@pytest.mark.parametrize("seed", range(3))
def test_activations_are_those_of_the_outputs(seed: int) -> None:
    model = net(seed)
    optimizer = sgd(model)
    vitals = Vitals(model, optimizer, every=EACH)
    expected = outputs(model, words(seed))
    found = stepped(model, vitals, optimizer, words(seed))
    for place, saved in zip(["input", "layer0", "layer1", "layer2"], expected):
        assert found[f"act/{place}/mean"] == pytest.approx(saved.mean().item(), rel=1e-4, abs=1e-7)
        assert found[f"act/{place}/std"] == pytest.approx(saved.std(correction=0).item(), rel=1e-5)
        assert found[f"act/{place}/absmax"] == pytest.approx(saved.abs().max().item(), rel=1e-6)
        assert found[f"act/{place}/zero_frac"] == 0 and found[f"act/{place}/nonfinite"] == 0
    assert found["collector/hook_dead"] == 0


def test_logits_are_those_of_the_head() -> None:
    model = net()
    optimizer = sgd(model)
    vitals = Vitals(model, optimizer, every=EACH)
    with torch.no_grad():
        logits = model(words(1)[:, :-1]).double().reshape(-1, WORDS)
    found = stepped(model, vitals, optimizer, words(1))
    sums = logits.exp().sum(-1).log()
    assert found["logits/absmax"] == pytest.approx(logits.abs().max().item(), rel=1e-6)
    assert found["logits/lse_mean"] == pytest.approx(sums.mean().item(), rel=1e-6)
    assert found["logits/lse_sq"] == pytest.approx((sums**2).mean().item(), rel=1e-6)


def test_values_that_are_not_finite_are_counted() -> None:
    model = nn.ModuleDict({"layers": nn.ModuleList([nn.Linear(3, 3)])})
    optimizer = sgd(model)
    vitals = Vitals(model, optimizer, every=EACH)
    nn.init.eye_(model["layers"][0].weight)
    nn.init.zeros_(model["layers"][0].bias)
    model["layers"][0](torch.tensor([[1.0, 0.0, math.nan], [0.0, 0.0, 0.0]])).sum().backward()
    optimizer.step()
    found = vitals.step()
    assert found["act/input/nonfinite"] == 1 and found["act/layer0/nonfinite"] == 3  # 0 × NaN in the first row
    assert found["act/input/zero_frac"] == pytest.approx(4 / 6) and found["act/layer0/zero_frac"] == 0.5
    assert math.isnan(found["act/layer0/absmax"])


@pytest.mark.parametrize("is_reentrant", [False, True])
def test_a_checkpointed_layer_is_counted_once(is_reentrant: bool) -> None:
    model = net()
    optimizer = sgd(model)
    vitals = Vitals(model, optimizer, every=EACH)
    expected = [one.std(correction=0).item() for one in outputs(model, words(2))]
    calls, looks = [], []
    tap = next(iter(model.layers[1]._forward_hooks.values()))
    look = tap.look
    tap.look = lambda args, output: looks.append(look(args, output))
    model.layers[1].register_forward_hook(lambda *_: calls.append(1))
    with set_checkpoint_early_stop(False):  # else the second run may end just before the hooks
        hidden = model.embed(words(2)[:, :-1])
        for layer in model.layers:
            hidden = checkpoint(layer, hidden, use_reentrant=is_reentrant)
        model.lm_head(hidden).sum().backward()
    optimizer.step()
    found = vitals.step()
    assert len(calls) == 2 and len(looks) == 1
    assert found["act/layer1/std"] == pytest.approx(expected[2], rel=1e-5)


def test_only_the_first_micro_batch_and_no_validation_is_looked_at() -> None:
    model = net()
    optimizer = sgd(model)
    vitals = Vitals(model, optimizer, every=EACH)
    expected = outputs(model, words(4))[3].std(correction=0).item()
    model.eval()
    with torch.no_grad():
        model(words(9))
    model.train()
    for seed in (4, 5, 6):
        loss_of(model, words(seed)).backward()
    optimizer.step()
    assert vitals.step()["act/layer2/std"] == pytest.approx(expected, rel=1e-5)


def test_a_model_that_is_trained_in_eval_mode_is_looked_at() -> None:
    model = net().eval()
    optimizer = sgd(model)
    assert stepped(model, Vitals(model, optimizer), optimizer, words(0))["collector/hook_dead"] == 0


def test_between_steps_that_are_due_nothing_is_looked_at() -> None:
    model = net()
    optimizer = sgd(model)
    vitals = Vitals(model, optimizer, every={"activations": 3})
    found = ["act/layer0/mean" in stepped(model, vitals, optimizer, words(step)) for step in range(1, 8)]
    assert found == [True, False, True, False, False, True, False]


@pytest.mark.parametrize("bias, dead", [(-10.0, 115 / 128), (0.0, 0.0)])
def test_units_forced_off_are_dead(bias: float, dead: float) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 1))
    with torch.no_grad():
        model[0].bias[:115] = bias
        model[0].weight.clamp_(-0.3, 0.3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    vitals = Vitals(model, optimizer, every={"dead_units": 1})
    generator = torch.Generator().manual_seed(1)
    found = []
    for _ in range(3):
        model(torch.randn(600, 8, generator=generator)).sum().backward()
        optimizer.step()
        found.append(vitals.step())
    assert "dead_frac/1" not in found[0]  # 600 tokens say nothing yet
    assert found[1]["dead_frac/1"] == found[2]["dead_frac/1"] == pytest.approx(dead, abs=1e-12)


def test_channels_are_the_units_of_an_image() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 10, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(1))
    model(torch.zeros(1, 1, 8, 8))
    with torch.no_grad():
        model[0].bias[:4] = -100.0
        model[0].bias[4:] = 100.0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    vitals = Vitals(model, optimizer)
    model(torch.rand(40, 1, 8, 8)).sum().backward()
    optimizer.step()
    assert vitals.step()["dead_frac/1"] == pytest.approx(0.4)


def test_a_model_compiled_afterwards_is_still_seen() -> None:
    torch.compiler.reset()
    model = net()
    optimizer = sgd(model)
    vitals = Vitals(model, optimizer, every=EACH)
    compiled = torch.compile(model, backend="eager")
    for step in range(3):
        expected = outputs(model, words(step))[2].std(correction=0).item()
        found = stepped(compiled, vitals, optimizer, words(step))
        assert found["act/layer1/std"] == pytest.approx(expected, rel=1e-5)
        assert found["collector/hook_dead"] == 0


def test_a_model_compiled_and_run_before_reports_dead_hooks() -> None:
    torch.compiler.reset()
    model = net()
    optimizer = sgd(model)
    compiled = torch.compile(model, backend="eager")
    loss_of(compiled, words(0)).backward()
    vitals = Vitals(model, optimizer, every=EACH)
    found = stepped(compiled, vitals, optimizer, words(1))
    assert found["collector/hook_dead"] == 3 and "act/layer0/mean" not in found
    assert found["grad_norm"] > 0


def test_what_goes_wrong_in_a_hook_stays_there(caplog: pytest.LogCaptureFixture) -> None:
    class Strange(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

        def forward(self, given: Any) -> Any:
            return self.layers[1](self.layers[0](given))

    model = Strange()
    optimizer = sgd(model)
    vitals = Vitals(model, optimizer, every=EACH)
    tap = next(iter(model.layers[0]._forward_hooks.values()))

    def fails(args: Any, output: Any) -> None:
        raise ZeroDivisionError("no such luck")

    tap.look = fails
    with caplog.at_level(logging.WARNING, "vitalsdsl"):
        for _ in range(3):
            output = model(torch.ones(2, 4))
            assert isinstance(output, torch.Tensor)
            output.sum().backward()
            optimizer.step()
            found = vitals.step()
    assert "act/layer0/mean" not in found and "act/layer1/mean" in found
    assert [one.getMessage() for one in caplog.records] == ["`Linear` could not be looked at: no such luck"]


def test_a_copy_or_a_pickle_of_the_model_is_free_of_taps() -> None:
    model = net()
    optimizer = sgd(model)
    vitals = Vitals(model, optimizer, every=EACH)
    copied, pickled = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    expected = outputs(model, words(0))[1].std(correction=0).item()
    for other in (copied, pickled):
        with torch.no_grad():
            other.embed.weight.mul_(100)
        other(words(1))
    assert stepped(model, vitals, optimizer, words(0))["act/layer0/std"] == pytest.approx(expected, rel=1e-5)


def test_detached_vitals_leave_nothing_behind() -> None:
    model = net()
    optimizer = sgd(model)
    vitals = Vitals(model, optimizer)
    vitals.detach()
    assert not any(one._forward_hooks for one in model.modules())
    assert not optimizer._optimizer_step_pre_hooks and not optimizer._optimizer_step_post_hooks
