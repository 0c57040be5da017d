"""Loss scaling, accumulation and closures: what is measured is the gradient of the whole step, whatever the scale."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.torch.nets import gradients, loss_of, net, plain_norm, words

torch = pytest.importorskip("torch")

from vitalsdsl_torch.collectors.loss_scale import LossScale  # noqa: E402
from vitalsdsl_torch.collectors.noise_scale import estimate  # noqa: E402
from vitalsdsl_torch.collectors.watched import Watched  # noqa: E402
from vitalsdsl_torch.vitals import Vitals  # noqa: E402

OPTIMIZERS = {
    "unscaled by the scaler": lambda parameters: torch.optim.SGD(parameters, lr=0.0),
    "unscaled in the fused step": lambda parameters: torch.optim.AdamW(parameters, lr=0.0, fused=True),
}


@pytest.mark.parametrize("clips", [False, True])
@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("power", [0, 4, 8, 12, 16])
def test_the_norm_does_not_depend_on_the_loss_scale(power: int, kind: str, clips: bool) -> None:
    model, bare = net(), net()
    loss_of(bare, words(3)).backward()
    optimizer = OPTIMIZERS[kind](model.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**power)
    vitals = Vitals(model, optimizer, scaler=scaler)
    with torch.autocast("cpu", torch.float16):
        loss = loss_of(model, words(3))
    scaler.scale(loss).backward()
    if clips:
        vitals.clip_grad_norm_(1e-3)
    scaler.step(optimizer)
    scaler.update()
    found = vitals.step(loss=loss)
    assert found["grad_norm"] == pytest.approx(plain_norm(gradients(bare).values()), rel=2e-3)
    assert found["loss_scale"] == 2.0**power and found["step_skipped"] == 0


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_an_overflow_marks_the_step_and_gives_no_norm_of_it(kind: str) -> None:
    model = net()
    optimizer = OPTIMIZERS[kind](model.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    vitals = Vitals(model, optimizer, scaler=scaler, every={"grad_groups": 3, "param_norm": 3}, log_every=1)
    found = []
    for step in range(1, 6):
        optimizer.zero_grad()
        loss = loss_of(model, words(step)) * (1e36 if step in (1, 3) else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        found.append(vitals.step(loss=loss))
    assert [one["step_skipped"] for one in found] == [1, 0, 1, 0, 0]
    assert [one["loss_scale"] for one in found] == [2.0**9, 2.0**9, 2.0**8, 2.0**8, 2.0**8]
    assert ["grad_norm" in one for one in found] == [False, True, False, True, True]
    assert all("loss" in one and one["lr"] == 0.0 for one in found)
    # Due at 1 and at 3, both skipped: measured at the next.
    for metric in ("grad_norm/group/embed", "param_norm"):
        assert [metric in one for one in found] == [False, True, False, True, False]


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_skips_between_two_reports_are_counted(kind: str) -> None:
    model = net()
    optimizer = OPTIMIZERS[kind](model.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    vitals = Vitals(model, optimizer, scaler=scaler, log_every=4)
    found = []
    for step in range(1, 9):
        optimizer.zero_grad()
        scaler.scale(loss_of(model, words(step)) * (1e37 if step in (2, 3, 6) else 1.0)).backward()
        scaler.step(optimizer)
        scaler.update()
        found.append(vitals.step().get("step_skipped"))
    assert found == [0, None, None, 2, None, None, None, 1]


def ragged(batches: int) -> list[Any]:
    return [words(seed, rows=2 + 3 * seed) for seed in range(batches)]


@pytest.mark.parametrize("is_on_device", [False, True])
@pytest.mark.parametrize("batches", [1, 2, 4, 8])
def test_accumulated_micro_batches_are_one_batch(batches: int, is_on_device: bool) -> None:
    model, whole = net(), net()
    parts = ragged(batches)
    loss_of(whole, torch.cat(parts)).backward()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    vitals = Vitals(model, optimizer)
    tokens = [one[:, 1:].numel() for one in parts]
    means = []
    for part, count in zip(parts, tokens):
        loss = loss_of(model, part)
        (loss * count / sum(tokens)).backward()
        means.append(loss.item())
        vitals.micro_batch(loss=loss, tokens=torch.tensor(count) if is_on_device else count, samples=len(part))
    optimizer.step()
    found = vitals.step()
    assert found["loss"] == pytest.approx(loss_of(net(), torch.cat(parts)).item(), rel=1e-6)
    assert found["grad_norm"] == pytest.approx(plain_norm(gradients(whole).values()), rel=1e-5)
    assert (found["tokens"], found["samples"]) == (sum(tokens), sum(map(len, parts)))
    if batches > 1:
        assert abs(sum(means) / batches - found["loss"]) > 1e-4  # the mean of means is another number


def test_tokens_without_a_loss_count_and_a_step_without_a_token_has_no_loss() -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    vitals = Vitals(model, optimizer, log_every=1)
    loss_of(model, words(0)).backward()
    optimizer.step()
    vitals.micro_batch(tokens=7)
    vitals.micro_batch(loss=2.0, tokens=1)
    found = vitals.step(loss=4.0, tokens=3)
    assert (found["loss"], found["tokens"]) == (3.5, 11)
    optimizer.step()
    assert math.isnan(vitals.step(loss=1.0, tokens=0)["loss"])


def test_a_gradient_that_was_not_divided_is_seen_as_large_as_it_is() -> None:
    parts = [words(seed) for seed in range(4)]
    norms = []
    for divisor in (4, 1):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        vitals = Vitals(model, optimizer)
        for part in parts:
            (loss_of(model, part) / divisor).backward()
        optimizer.step()
        norms.append(vitals.step()["grad_norm"])
    assert norms[1] == pytest.approx(4 * norms[0], rel=1e-5)


@pytest.mark.parametrize("as_keyword", [False, True])
def test_a_closure_is_waited_for(as_keyword: bool) -> None:
    model, bare = net(), net()
    loss_of(bare, words(5)).backward()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    vitals = Vitals(model, optimizer)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = loss_of(model, words(5))
        loss.backward()
        return loss

    loss = optimizer.step(closure=closure) if as_keyword else optimizer.step(closure)
    assert loss.item() == pytest.approx(loss_of(bare, words(5)).item())
    assert vitals.step()["grad_norm"] == pytest.approx(plain_norm(gradients(bare).values()), rel=1e-6)


def test_the_learning_rate_is_that_of_the_step_just_done() -> None:
    model = net()
    groups = [
        {"params": list(model.embed.parameters()), "lr": 0.5, "name": "embed"},
        {"params": model.layers.parameters()},
    ]
    optimizer = torch.optim.SGD(groups, lr=1.0)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    vitals = Vitals(model, optimizer, log_every=1)
    found = []
    for step in range(3):
        loss_of(model, words(step)).backward()
        optimizer.step()
        scheduler.step()
        found.append(vitals.step())
    assert [one["lr"] for one in found] == [0.5, 0.25, 0.125]
    assert [one["lr/group/1"] for one in found] == [1.0, 0.5, 0.25]
    assert "lr/group/embed" in found[0]


def test_the_noise_scale_estimate_is_without_bias() -> None:
    generator = torch.Generator().manual_seed(0)
    signal = torch.randn(50, generator=generator, dtype=torch.float64)
    deviations = torch.rand(50, generator=generator, dtype=torch.float64) + 0.5
    noise_sum = signal_sum = 0.0
    trials = 4000
    for _ in range(trials):
        drawn = signal + deviations * torch.randn(32, 50, generator=generator, dtype=torch.float64)
        small, big = drawn[:4].mean(0).square().sum().item(), drawn.mean(0).square().sum().item()
        noise, true = estimate(small, big, 4, 32)
        noise_sum, signal_sum = noise_sum + noise / trials, signal_sum + true / trials
    assert noise_sum == pytest.approx(deviations.square().sum().item(), rel=0.02)
    assert signal_sum == pytest.approx(signal.square().sum().item(), rel=0.02)


@pytest.mark.parametrize("scale", [None, 2.0**8])
def test_the_noise_scale_is_that_of_the_measured_gradients(scale: float | None) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale) if scale else None
    vitals = Vitals(model, optimizer, scaler=scaler)
    parts = ragged(3)
    tokens = [one[:, 1:].numel() for one in parts]
    for part, count in zip(parts, tokens):
        loss = loss_of(model, part)
        share = loss * count / sum(tokens)
        (scaler.scale(share) if scaler else share).backward()
        vitals.micro_batch(loss=loss, tokens=count)
    vitals.clip_grad_norm_(0.01)
    (scaler.step(optimizer) if scaler else optimizer.step())
    found = vitals.step()
    squares = []
    for batch in (parts[0], torch.cat(parts)):
        bare = net()
        loss_of(bare, batch).backward()
        squares.append(plain_norm(gradients(bare).values()) ** 2)
    noise = (squares[0] - squares[1]) / (1 / tokens[0] - 1 / sum(tokens))
    signal = (sum(tokens) * squares[1] - tokens[0] * squares[0]) / (sum(tokens) - tokens[0])
    assert found["gns"] == pytest.approx(noise / signal, rel=1e-3)
    assert math.isfinite(found["gns"])


def test_the_rate_of_clipping_is_that_of_the_last_hundred_steps() -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    vitals = Vitals(model, optimizer, log_every=1)
    coefficients: list[float] = []
    for step in range(130):
        optimizer.zero_grad()
        (loss_of(model, words(0)) * (1 if step % 3 and step < 110 else 1e-4)).backward()
        vitals.clip_grad_norm_(0.05)
        optimizer.step()
        found = vitals.step()
        coefficients.append(found["clip_coef"])
        last = coefficients[-100:]
        assert found["clip_rate"] == pytest.approx(sum(one < 1 for one in last) / len(last))
    assert 0.4 < found["clip_rate"] < 0.7


@pytest.mark.parametrize("cadence", [1, 3])
def test_the_rate_of_overflow_is_that_of_the_steps_since_the_start(cadence: int) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    vitals = Vitals(model, optimizer, scaler=scaler, log_every=cadence)
    skips = []
    for step in range(1, 13):
        optimizer.zero_grad()
        scaler.scale(loss_of(model, words(0)) * (math.inf if step % 4 == 2 else 1)).backward()
        scaler.step(optimizer)
        scaler.update()
        skips.append(step % 4 == 2)
        found = vitals.step()
        if step == 1 or step % cadence == 0:
            assert found["overflow_rate"] == pytest.approx(sum(skips) / step)


def test_the_rate_of_overflow_forgets_after_a_thousand_steps() -> None:
    model = net()
    one = LossScale(Watched(model, torch.optim.SGD(model.parameters(), lr=0.1)))
    assert one._rate(1, 1) == 1.0
    assert one._rate(501, 250) == 251 / 501
    assert one._rate(1001, 0) == 250 / 1000
    assert one._rate(1501, 0) == 0.0
