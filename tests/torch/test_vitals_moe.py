"""The spread of words over experts, against plain counting in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from tests.torch.nets import WIDTH, Mixture, loss_of, net, same_bits, words

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop  # noqa: E402
from vitalsdsl_torch.vitals import Vitals  # noqa: E402


def of_counts(counts: Sequence[float]) -> dict[str, float]:
    """MaxVio, dead experts and the entropy of the load, as their definitions have them."""
    mean = sum(counts) / len(counts)
    shares = [one / sum(counts) for one in counts]
    return {
        "maxvio": max(counts) / mean - 1,
        "dead": sum(one < 0.1 * mean for one in counts) / len(counts),
        "entropy": sum(-one * math.log(one) for one in shares if one) / math.log(len(counts)),
    }


def of_logits(rows: list[list[float]], choices: int) -> tuple[list[int], float, float]:
    """How often each expert is chosen, the z-loss and the load-balancing loss."""
    counts = [0] * len(rows[0])
    likely = [0.0] * len(rows[0])
    squares = 0.0
    for row in rows:
        for chosen in sorted(range(len(row)), key=row.__getitem__)[-choices:]:
            counts[chosen] += 1
        total = sum(map(math.exp, row))
        squares += math.log(total) ** 2
        likely = [one + math.exp(logit) / total / len(rows) for one, logit in zip(likely, row)]
    shares = [one / sum(counts) for one in counts]
    return counts, squares / len(rows), len(counts) * sum(one * other for one, other in zip(shares, likely))


def metrics(model: Any, *batches: Any, loss: Any = loss_of, **options: Any) -> dict[str, float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    vitals = Vitals(model, optimizer, **{"every": {"moe": 1}, **options})
    for batch in batches:
        loss(model, batch).backward()
    optimizer.step()
    found = vitals.step()
    assert "collector/failed" not in found
    return {name.removeprefix("moe/"): one for name, one in found.items() if name.startswith("moe/")}


def mixture(seed: int = 0, bias: float = 0.0) -> Mixture:
    torch.manual_seed(seed)
    model = Mixture()
    with torch.no_grad():
        model.layers[0].gate.bias[1] += bias
    return model


def logits_of(model: Mixture, *batches: Any) -> list[list[list[float]]]:
    """The logits of each layer's router for all words of these batches."""
    found: list[list[list[float]]] = [[], []]
    hooks = [
        layer.gate.register_forward_hook(
            lambda module, args, output, at=at: found[at].extend(output.double().reshape(-1, 4).tolist())
        )
        for at, layer in enumerate(model.layers)
    ]
    with torch.no_grad():
        for batch in batches:
            model(batch[:, :-1])
    for hook in hooks:
        hook.remove()
    return found


@pytest.mark.parametrize("bias", [0.0, 6.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_router_of_logits_is_counted_over_all_micro_batches(seed: int, bias: float) -> None:
    model = mixture(seed, bias)
    batches = [words(seed), words(seed + 50, rows=3)]
    of_layers = [of_logits(rows, 2) for rows in logits_of(model, *batches)]
    found = metrics(model, *batches)
    counted = [of_counts(counts) for counts, _, _ in of_layers]
    for layer in (0, 1):
        assert found[f"layer{layer}/maxvio"] == pytest.approx(counted[layer]["maxvio"], abs=1e-12)
        assert found[f"layer{layer}/dead"] == pytest.approx(counted[layer]["dead"], abs=1e-12)
    assert found["maxvio"] == max(found["layer0/maxvio"], found["layer1/maxvio"])
    assert found["dead"] == pytest.approx((counted[0]["dead"] + counted[1]["dead"]) / 2)
    assert found["entropy"] == pytest.approx(min(one["entropy"] for one in counted))
    assert found["z"] == pytest.approx((of_layers[0][1] + of_layers[1][1]) / 2, rel=1e-5)
    assert found["aux"] == pytest.approx((of_layers[0][2] + of_layers[1][2]) / 2, rel=1e-5)
    assert "drop_frac" not in found


def test_a_collapse_shows_though_the_loss_does_not() -> None:
    # Top-2 of 4 experts: one that everybody takes has a load of twice the mean.
    found = metrics(mixture(0, bias=50.0), words(0))
    assert found["layer0/maxvio"] == pytest.approx(1.0)
    assert found["z"] > 1000


class Routed(nn.Module):
    """One layer whose router gives back what a test wants."""

    def __init__(self, router: Any, experts: int = 4, **options: Any) -> None:
        super().__init__()
        self.router, self.experts = router, nn.ModuleList(nn.Linear(3, 3) for _ in range(experts))
        for name, value in options.items():
            setattr(self, name, value)

    def forward(self, given: Any) -> Any:
        self.router(given)
        return sum(expert(given).sum() for expert in self.experts)


class Gives(nn.Module):
    def __init__(self, *outputs: Any) -> None:
        super().__init__()
        self.outputs = outputs

    def forward(self, given: Any) -> Any:
        return self.outputs if len(self.outputs) > 1 else self.outputs[0]


def given(router: Any, **options: Any) -> dict[str, float]:
    return metrics(Routed(router, **options), torch.ones(2, 3), loss=lambda model, batch: model(batch))


def test_the_experts_that_a_router_names_are_counted() -> None:
    chosen = torch.tensor([[0, 1], [0, 2], [0, 1]])
    found = given(Gives(torch.zeros(3, 2), chosen))
    assert {name: found[name] for name in ("maxvio", "dead", "entropy")} == pytest.approx(of_counts([3, 2, 1, 0]))
    assert "z" not in found and "aux" not in found


def test_numbers_that_are_no_expert_s_do_not_count() -> None:
    found = given(Gives(torch.tensor([[0, -1], [4, 2]])))
    assert found["maxvio"] == pytest.approx(of_counts([1, 0, 1, 0])["maxvio"])


def test_a_mask_of_the_chosen_tells_what_was_dropped() -> None:
    mask = torch.tensor([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]])
    found = given(Gives(mask, torch.full((5, 1), 0.5), -torch.rand(5, 4)))
    assert found["drop_frac"] == pytest.approx(2 / 5)
    assert found["maxvio"] == pytest.approx(of_counts([1, 2, 0, 0])["maxvio"])


def test_probabilities_are_not_taken_for_logits() -> None:
    found = given(Gives(torch.rand(3, 4).softmax(-1)), top_k=1)
    assert "z" not in found and "aux" not in found and "maxvio" in found


def test_logits_without_a_number_of_choices_tell_no_load() -> None:
    found = given(Gives(torch.tensor([[1.0, -2.0, 0.5, 0.0]])))
    assert list(found) == ["z"]
    assert found["z"] == pytest.approx(math.log(math.e + math.exp(-2) + math.exp(0.5) + 1) ** 2, rel=1e-6)


@pytest.mark.parametrize("router", [nn.Identity(), Gives("nothing"), Gives(None, None)])
def test_what_says_nothing_is_absent(router: Any) -> None:
    assert given(router, top_k=2) == {}


def test_a_router_that_is_not_finite_shows_it() -> None:
    found = given(Gives(torch.tensor([[math.nan, -1.0, 0.0, 0.0]])), top_k=1)
    assert math.isnan(found["z"]) and math.isnan(found["aux"])


def test_a_gate_without_experts_is_no_router() -> None:
    model = nn.ModuleDict({"gate": nn.Linear(3, 4), "up": nn.Linear(3, 4)})
    assert metrics(model, torch.ones(2, 3), loss=lambda model, batch: model["gate"](batch).sum()) == {}
    assert not model["gate"]._forward_hooks


def test_counts_that_the_user_shows_take_the_place_of_those_seen() -> None:
    model = mixture()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    vitals = Vitals(model, optimizer, every={"moe": 1})
    for _ in range(2):
        loss_of(model, words(0)).backward()
        vitals.routing([5, 3, 0, 0], layer=0, dropped=2)
        vitals.routing(torch.tensor([1.0, 1, 1, 1]), layer=5, logits=torch.tensor([[-1.0, 1.0, 0.0, 0.0]]))
    loss_of(model, words(1)).backward()
    optimizer.step()
    found = vitals.step()
    assert found["moe/layer0/maxvio"] == pytest.approx(of_counts([5, 3, 0, 0])["maxvio"])
    assert found["moe/layer5/maxvio"] == 0 and "moe/layer1/maxvio" in found
    assert found["moe/drop_frac"] == pytest.approx(4 / 20)


def test_what_a_checkpointed_layer_computes_anew_changes_no_share() -> None:
    model = mixture()
    expected = metrics(model, words(0), every={"moe": 1})

    def loss(model: Any, batch: Any) -> Any:
        hidden = model.embed(batch[:, :-1])
        with set_checkpoint_early_stop(False):
            for layer in model.layers:
                hidden = hidden + checkpoint(layer, hidden, use_reentrant=False)
            return model.lm_head(hidden).sum()

    torch.manual_seed(0)
    assert metrics(mixture(), words(0), loss=loss) == pytest.approx(expected, rel=1e-6)


def test_validation_and_steps_that_are_not_due_are_not_counted() -> None:
    model = mixture()
    expected = metrics(mixture(), words(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    vitals = Vitals(model, optimizer, every={"moe": 3})
    for step in range(1, 4):
        with torch.no_grad():
            model(words(9))
        loss_of(model, words(2 if step == 3 else step)).backward()
        optimizer.step()
        found = vitals.step()
        assert ("moe/z" in found) == (step != 2)
    assert found["moe/z"] == pytest.approx(expected["z"], rel=1e-6)


def test_a_mixture_is_trained_with_the_same_bits() -> None:
    ends = []
    for is_watched in (False, True):
        model = mixture()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        vitals = Vitals(model, optimizer, every={"moe": 1}) if is_watched else None
        for step in range(20):
            optimizer.zero_grad()
            loss_of(model, words(step)).backward()
            optimizer.step()
            if vitals:
                assert "moe/aux" in vitals.step()
        ends.append([one.detach() for one in model.parameters()])
    assert all(same_bits(one, other) for one, other in zip(*ends))


def test_a_dense_model_has_no_such_metrics() -> None:
    assert metrics(net(), words(0)) == {}


@pytest.mark.parametrize("name", ["Mixtral", "GptOss", "DeepseekV3", "SwitchTransformers"])
def test_the_routers_of_transformers_are_understood(name: str) -> None:
    library = pytest.importorskip("transformers")
    options = {
        "vocab_size": 40, "hidden_size": WIDTH, "intermediate_size": 16, "moe_intermediate_size": 16, "head_dim": 4,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "num_experts_per_tok": 2,
        "num_local_experts": 4, "num_experts": 4, "n_routed_experts": 4, "n_group": 2, "topk_group": 1,
        "first_k_dense_replace": 0, "q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4,
        "v_head_dim": 8, "d_model": WIDTH, "d_kv": 8, "d_ff": 16, "num_heads": 2, "num_layers": 2, "expert_capacity": 2,
        "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1, "pad_token_id": 0, "decoder_start_token_id": 0, "tie_word_embeddings": False,
    }  # fmt: skip
    suffix = "ForConditionalGeneration" if name == "SwitchTransformers" else "ForCausalLM"
    torch.manual_seed(0)
    model = getattr(library, name + suffix)(getattr(library, f"{name}Config")(**options))
    experts = sum(path.endswith(".experts") for path, _ in model.named_modules())
    assert experts >= 2

    def loss(model: Any, batch: Any) -> Any:
        return model(input_ids=batch, labels=batch).loss

    found = metrics(model, words(0), loss=loss)
    assert len([one for one in found if one.endswith("/maxvio")]) == experts
    assert found["maxvio"] >= 0 and found["z"] > 0 and 0 < found["entropy"] <= 1
    assert ("drop_frac" in found) == (name == "SwitchTransformers")
