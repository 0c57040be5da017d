"""Norms, shares and updates against a plain loop in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.torch.nets import gradients, loss_of, net, plain_norm, same_bits, sum_of_squares, words

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from vitalsdsl_torch.collectors.parameters import kind_of, layers, trained  # noqa: E402
from vitalsdsl_torch.vitals import Vitals  # noqa: E402

NETS = {
    "plain": {},
    "tied weights": {"tied": True},
    "a frozen layer, a None gradient, an empty parameter": {"odd": True},
    "a sparse embedding": {"sparse": True},
    "eight layers": {"layers": 8},
}


def measured(options: dict[str, Any], seed: int = 0) -> tuple[Any, dict[str, float]]:
    model = net(seed, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    vitals = Vitals(model, optimizer)
    loss_of(model, words(seed)).backward()
    optimizer.step()
    return model, vitals.step()


def belongs(name: str, group: str) -> bool:
    if group in ("embed", "head"):
        return name.startswith({"embed": "embed", "head": "lm_head"}[group])
    if group == "trunk":
        return not name.startswith(("embed", "lm_head"))
    return f".{group}." in name


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("case", NETS)
def test_norms_are_those_of_a_plain_loop(case: str, seed: int) -> None:
    model, found = measured(NETS[case], seed)
    grads = gradients(model)
    assert found["grad_norm"] == pytest.approx(plain_norm(grads.values()), rel=1e-6)
    assert found["grad_nonfinite"] == 0
    for group in ("embed", "head", "trunk", "mlp", "norm", "attn"):
        ours = [one for name, one in grads.items() if belongs(name, group)]
        if not ours:
            assert case == "tied weights" and group == "head" and f"grad_norm/group/{group}" not in found
            continue
        assert found[f"grad_norm/group/{group}"] == pytest.approx(plain_norm(ours), rel=1e-6)
        rms = math.sqrt(sum_of_squares(ours) / sum(one.numel() for one in ours))
        assert found[f"grad_rms/group/{group}"] == pytest.approx(rms, rel=1e-6)
    for layer in range(len(model.layers)):
        ours = [one for name, one in grads.items() if name.startswith(f"layers.{layer}.")]
        assert found[f"grad_norm/layer/{layer}"] == pytest.approx(plain_norm(ours), rel=1e-6)
    held = {name: one.detach() for name, one in model.named_parameters() if one.requires_grad}
    assert found["param_norm"] == pytest.approx(plain_norm(held.values()), rel=1e-6)
    for place, start in {
        "group/embed": "embed",
        "layer/1": "layers.1.",
        f"first{len(model.layers) // 2}": "layers.",
    }.items():
        within = len(model.layers) // 2 if place.startswith("first") else len(model.layers)
        deeper = tuple(f"layers.{layer}." for layer in range(within, len(model.layers)))
        ours = [one for name, one in held.items() if name.startswith(start) and not name.startswith(deeper)]
        assert found[f"param_norm/{place}"] == pytest.approx(plain_norm(ours), rel=1e-6)


@pytest.mark.parametrize("case", NETS)
def test_shares_add_up_to_one_and_are_those_of_the_squares(case: str) -> None:
    model, found = measured(NETS[case])
    shares = {name: value for name, value in found.items() if name.startswith("grad_share/")}
    assert sum(shares.values()) == pytest.approx(1, abs=1e-12)
    grads = gradients(model)
    size = min(4, len(model.layers) // 2)
    first = [one for name, one in grads.items() if name.startswith(tuple(f"layers.{i}." for i in range(size)))]
    expected = sum_of_squares(first) / sum_of_squares(grads.values())
    assert shares[f"grad_share/first{size}"] == pytest.approx(expected, rel=1e-6)
    assert f"grad_share/last{size}" in shares


def test_a_complex_weight_is_measured_and_clipped_as_its_two_parts() -> None:
    """Fourier layers have complex weights: everything is as if real and imaginary parts were weights of their own."""

    def trained(is_complex: bool, clipping: str) -> tuple[Any, list[dict[str, float]]]:
        start = torch.randn(6, 2, generator=torch.Generator().manual_seed(0))
        weight = nn.Parameter(torch.view_as_complex(start.clone()) if is_complex else start.clone())
        model = nn.ParameterList([weight])
        optimizer = torch.optim.Adam([weight], lr=0.01)
        each = dict.fromkeys(("updates", "grad_zeros", "grad_groups", "adam_ratio", "adam_spread", "param_norm"), 1)
        vitals = Vitals(model, optimizer, log_every=1, every=each) if clipping == "vitals" else None
        found = []
        for step in range(1, 5):
            parts = torch.view_as_real(weight) if is_complex else weight
            (parts[1:].pow(2).sum() * step).backward()
            (vitals or nn.utils).clip_grad_norm_(*([] if vitals else [[weight]]), 2.0)
            optimizer.step()
            if vitals is not None:
                found.append(vitals.step())
            optimizer.zero_grad()
        return parts.detach(), [
            {k: v for k, v in one.items() if "/overhead" not in k and "time" not in k} for one in found
        ]

    weights, found = trained(True, "vitals")
    plain, expected = trained(False, "vitals")
    assert torch.allclose(weights, plain) and torch.allclose(weights, trained(True, "torch")[0])
    for one, other in zip(found, expected):
        memory = {name for name in other if name.startswith("mem/")}
        assert {k: one[k] for k in one.keys() - memory} == pytest.approx(
            {k: other[k] for k in other.keys() - memory}, rel=1e-5
        )
    assert found[-1]["grad_zero_frac"] == pytest.approx(1 / 6) and "collector/failed" not in found[-1]
    assert {"update_ratio/other", "adam/rms_ratio/other", "grad_rms/group/other", "param_norm"} <= found[-1].keys()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_gradients_are_added_up_in_float32(dtype: Any) -> None:
    model = nn.Linear(1000, 1, bias=False).to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    vitals = Vitals(model, optimizer, log_every=1)
    model.weight.grad = torch.full((1, 1000), 300.0, dtype=dtype)
    optimizer.step()
    assert vitals.step()["grad_norm"] == pytest.approx(300 * math.sqrt(1000), rel=1e-3)  # squares overflow float16
    drawn = torch.randn(1, 1000, generator=torch.Generator().manual_seed(0)).to(dtype)
    model.weight.grad = drawn.clone()
    optimizer.step()
    assert vitals.step()["grad_norm"] == pytest.approx(plain_norm([drawn]), rel=1e-3)


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_gradients_that_are_not_finite_are_counted_and_left_as_they_are(bad: float) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    vitals = Vitals(model, optimizer)
    loss_of(model, words(0)).backward()
    model.layers[1].attn.weight.grad[2, 3] = bad
    before = {name: one.clone() for name, one in gradients(model).items()}
    vitals.clip_grad_norm_(math.inf)
    optimizer.step()
    found = vitals.step()
    assert found["grad_nonfinite"] == 1 and not math.isfinite(found["grad_norm"])
    assert math.isnan(found["grad_share/embed"]) and math.isfinite(found["grad_norm/layer/0"])
    assert all(same_bits(before[name], one) for name, one in gradients(model).items())


@pytest.mark.parametrize("factor", [1.0, 1e-3, math.inf, math.nan])
@pytest.mark.parametrize("max_norm", [0.1, 1e6])
def test_clipping_gives_the_bits_of_torch_and_measures_before_it(max_norm: float, factor: float) -> None:
    ours, theirs = net(), net()
    for model in (ours, theirs):
        loss_of(model, words(1)).backward()
        model.lm_head.weight.grad.mul_(factor)
    expected = plain_norm(gradients(ours).values())
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.0)
    vitals = Vitals(ours, optimizer)
    total = vitals.clip_grad_norm_(max_norm)
    assert same_bits(total, torch.nn.utils.clip_grad_norm_(theirs.parameters(), max_norm))
    optimizer.step()
    found = vitals.step()
    after = gradients(ours)
    assert all(same_bits(one, after[name]) for name, one in gradients(theirs).items())
    assert found["grad_norm"] == pytest.approx(expected, rel=1e-6, nan_ok=True)
    if math.isfinite(expected):
        assert found["clip_coef"] == pytest.approx(min(1.0, max_norm / (expected + 1e-6)), rel=1e-6)
        assert found["grad_norm_clipped"] == pytest.approx(plain_norm(after.values()), rel=1e-5)


def test_a_sparse_gradient_can_be_clipped() -> None:
    model = net(sparse=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    vitals = Vitals(model, optimizer)
    loss_of(model, words(1)).backward()
    vitals.clip_grad_norm_(0.5)
    assert plain_norm(gradients(model).values()) == pytest.approx(0.5, rel=1e-4)


def test_zeros_are_counted_element_by_element() -> None:
    for options in ({}, {"sparse": True}):
        model, found = measured(options)
        dense = [one.to_dense() if one.is_sparse else one for one in gradients(model).values()]
        zeros = sum((one == 0).sum().item() for one in dense) / sum(one.numel() for one in dense)
        assert found["grad_zero_frac"] == pytest.approx(zeros, abs=1e-12)


def test_the_update_by_copy_is_that_of_adamw_s_formula() -> None:
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    vitals = Vitals(model, optimizer, every={"updates": 1})
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    for step in range(1, 6):
        optimizer.zero_grad()
        loss_of(model, words(step)).backward()
        before = {name: one.detach().double().clone() for name, one in model.named_parameters()}
        moved: dict[str, Any] = {}
        for name, gradient in gradients(model).items():
            gradient = gradient.double()
            first[name] = 0.9 * first.get(name, 0) + 0.1 * gradient
            second[name] = 0.95 * second.get(name, 0) + 0.05 * gradient**2
            mean, square = first[name] / (1 - 0.9**step), second[name] / (1 - 0.95**step)
            moved[name] = 1e-2 * (mean / (square.sqrt() + 1e-8) + 0.1 * before[name])
        optimizer.step()
        found = vitals.step()
        for group in ("embed", "trunk", "mlp"):
            names = [name for name in moved if belongs(name, group)]
            expected = plain_norm(moved[name] for name in names) / plain_norm(before[name] for name in names)
            # The weights are rounded to float32, which is seen in a difference of two of them.
            assert found[f"update_ratio/{group}"] == pytest.approx(expected, rel=1e-5)


def test_weights_too_coarse_for_the_step_are_seen_to_stand_still() -> None:
    model = nn.Linear(64, 64, bias=False).to(torch.bfloat16)
    nn.init.constant_(model.weight, 1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    vitals = Vitals(model, optimizer)
    model.weight.grad = torch.full((64, 64), 1e-3, dtype=torch.bfloat16)  # below half of bfloat16's last digit at 1
    model.weight.grad[:16] = 0.5
    optimizer.step()
    assert vitals.step()["weights_changed/other"] == pytest.approx(0.25)


def test_adam_s_second_moment_is_that_before_the_step() -> None:
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-6)
    vitals = Vitals(model, optimizer, every={"adam_ratio": 1, "adam_spread": 1})
    second: dict[str, Any] = {}
    for step in range(1, 5):
        optimizer.zero_grad()
        (loss_of(model, words(step)) * (30 if step == 4 else 1)).backward()
        grads = {name: one.double() for name, one in gradients(model).items()}
        optimizer.step()
        found = vitals.step()
        if step == 1:
            assert not any(name.startswith("adam/") for name in found)
        else:
            names = [name for name in grads if belongs(name, "embed")]
            ratios = [grads[n] ** 2 / (second[n] / (1 - 0.98 ** (step - 1))).clamp(min=1e-12) for n in names]
            expected = math.sqrt(sum(one.sum().item() for one in ratios) / sum(one.numel() for one in ratios))
            assert found["adam/rms_ratio/embed"] == pytest.approx(expected, rel=1e-5)
            spread = torch.cat([second[n].flatten() for n in names])
            spread = spread[spread > 0] / (1 - 0.98 ** (step - 1))
            half, top = torch.quantile(spread, torch.tensor([0.5, 0.999], dtype=torch.float64)).tolist()
            assert found["adam/v_spread/embed"] == pytest.approx(math.log10(top / half), abs=1e-4)
        second = {name: 0.98 * second.get(name, 0) + 0.02 * one**2 for name, one in grads.items()}


NAMES = {
    "model.embed_tokens.weight": "embed",
    "transformer.wte.weight": "embed",
    "transformer.wpe.weight": "embed",
    "gpt_neox.embed_in.weight": "embed",
    "lm_head.weight": "head",
    "embed_out.weight": "head",
    "output.weight": "head",
    "model.norm.weight": "norm",
    "transformer.ln_f.bias": "norm",
    "model.layers.3.input_layernorm.weight": "norm",
    "model.layers.3.self_attn.q_norm.weight": "norm",
    "model.layers.3.self_attn.q_proj.weight": "attn",
    "transformer.h.3.attn.c_attn.weight": "attn",
    "layers.3.attention.wq.weight": "attn",
    "encoder.layer.3.attention.output.dense.weight": "attn",
    "encoder.layer.3.intermediate.dense.weight": "mlp",
    "model.layers.3.mlp.gate_proj.weight": "mlp",
    "layers.3.feed_forward.w1.weight": "mlp",
    "transformer.h.3.mlp.c_fc.weight": "mlp",
    "model.layers.3.block_sparse_moe.gate.weight": "router",
    "model.layers.3.mlp.gate.weight": "router",
    "model.layers.3.block_sparse_moe.experts.5.w1.weight": "expert",
    "model.layers.3.mlp.shared_experts.up_proj.weight": "expert",
}


@pytest.mark.parametrize("name", NAMES)
def test_names_of_known_models_fall_into_their_group(name: str) -> None:
    assert kind_of(name, None, 3 if ".3." in name else None) == NAMES[name]


def test_layers_are_found_under_wrappers_and_in_several_lists() -> None:
    nested = nn.ModuleDict({"_orig_mod": nn.ModuleDict({"module": net()})})
    assert layers(nested).of("layers.2.mlp.0.weight") == 2
    two = nn.ModuleDict({"encoder": net(layers=2), "decoder": net(layers=2)})
    assert layers(two).of("encoder.layers.1.attn.bias") == 1
    assert layers(two).of("decoder.layers.1.attn.bias") == 3
    headed = nn.ModuleDict({"layers": nn.ModuleList([nn.Linear(2, 2)]), "classifier": nn.Sequential(nn.Linear(2, 2))})
    found = {one.name: one.kind for one in trained(headed, torch.optim.SGD(headed.parameters()))}
    assert found["classifier.0.weight"] == "head" and found["layers.0.weight"] == "other"


def test_parameters_that_join_later_are_measured() -> None:
    model = net()
    model.embed.requires_grad_(False)
    optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.1)
    vitals = Vitals(model, optimizer, every={"grad_groups": 1})
    for step in range(3):
        loss_of(model, words(step)).backward()
        optimizer.step()
        assert ("grad_norm/group/embed" in vitals.step()) == (step == 2)
        optimizer.zero_grad()
        if step == 1:
            model.embed.requires_grad_(True)
            optimizer.add_param_group({"params": [model.embed.weight], "lr": 0.01})
