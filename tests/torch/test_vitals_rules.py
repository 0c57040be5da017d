"""What is measured is what rules can speak of: a training that goes wrong inside is caught by its vitals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.torch.nets import loss_of, net, words

torch = pytest.importorskip("torch")
from vitalsdsl_torch.guard import Guard  # noqa: E402
from vitalsdsl_torch.vitals import Vitals  # noqa: E402

import vitalsdsl as vitals  # noqa: E402

POLICY = """
vitals 1

rule shallow "the first layers take over the gradient" {
  when grad_share/first4 > 1.2 * baseline(grad_share/first4, 20 steps) for 3 steps -> yellow
}
rule blown_up "a layer gives out far more than usual" each size in act/*/absmax {
  when size > 10 * baseline(size, 20 steps) -> orange
}
rule skips "steps are skipped" { when step_skipped > 0 -> yellow }
"""


def test_rules_over_vitals_catch_what_happens_inside_the_model() -> None:
    model = net(layers=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    measured = Vitals(model, optimizer, every={"grad_share": 1, "activations": 1}, log_every=1)
    monitor = vitals.watch(vitals.load("inside", text=POLICY))
    told = []
    for step in range(1, 41):
        if step == 30:
            with torch.no_grad():
                model.layers[2].mlp[2].weight *= 100
        optimizer.zero_grad()
        loss = loss_of(model, words(0))
        loss.backward()
        optimizer.step()
        told += monitor.log(measured.step(loss=loss, tokens=64), step=step)
    fired = {(one.rule, one.member): one.step for one in told if one.to.word != "green"}
    assert fired["blown_up", "act/layer2/absmax"] == 30
    assert ("blown_up", "act/layer1/absmax") not in fired  # it lies before
    assert 30 < fired["shallow", None] <= 33
    assert not any(rule == "skips" for rule, _ in fired)


CLOSER = """
vitals 1

rule jump "the loss is far above what it was" {
  when loss > 2 * baseline(loss, 20 steps) -> yellow do request("detail", steps: 40)
}
"""


def test_a_rule_that_asks_for_detail_gets_it_by_layer_for_as_many_steps(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("VITALS_HOME", str(tmp_path / "home"))
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    measured = Vitals(model, optimizer, log_every=1)
    policy = vitals.load("closer", text=CLOSER)
    guard = Guard(policy, tmp_path / "run", model=model, optimizer=optimizer, extra={"vitals": measured}, every=1000)
    measured.follow(guard)
    by_layer = []
    for step in guard.steps(120):
        optimizer.zero_grad()
        loss = loss_of(model, words(0)) * (10 if step == 30 else 1)
        loss.backward()
        optimizer.step()
        metrics = measured.step(loss=loss, tokens=64)
        by_layer += [step] * ("grad_norm/layer/2" in metrics and "grad_share/embed" in metrics)
        guard.step(metrics)
    # At the first as always, then every second of the forty after the one that tripped the rule.
    assert by_layer == [1, *range(31, 71, 2)]
