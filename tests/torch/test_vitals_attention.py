"""Logits and entropy of attention, against loops in float64 and against what libraries say of their own attention."""

from __future__ import annotations

import copy
import logging
import math
import pickle
from typing import Any

import pytest

from tests.torch.nets import net, same_bits

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from vitalsdsl_torch.collectors import attention, attention_logits  # noqa: E402
from vitalsdsl_torch.vitals import Vitals  # noqa: E402

EACH = {"attention": 1}


class Attends(nn.Module):
    """A layer that gives its queries and keys to the product as a test wants it."""

    def __init__(self, width: int = 6, **options: Any) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.options = options

    def forward(self, given: Any) -> Any:
        return functional.scaled_dot_product_attention(*self.pair(given), given, **self.options)

    def pair(self, given: Any) -> Any:
        return self.query(given), self.key(given)


def layered(*layers: Any) -> Any:
    return nn.ModuleDict({"layers": nn.ModuleList(layers)})


def metrics(model: Any, forward: Any, **options: Any) -> dict[str, float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    vitals = Vitals(model, optimizer, **{"every": EACH, **options})
    forward().float().sum().backward()
    optimizer.step()
    found = vitals.step()
    vitals.detach()
    assert "collector/failed" not in found
    return {name.removeprefix("attn/"): one for name, one in found.items() if name.startswith("attn/")}


def plainly(query: Any, key: Any, scale: float, rows: list[int], allowed: Any, added: Any) -> tuple[float, float]:
    """Largest logit and mean entropy of the chosen rows, one number after the other; heads are the first dimension."""
    largest, entropies = -math.inf, []
    for head in range(len(query)):
        for row in rows:
            logits = [
                scale * sum(a * b for a, b in zip(query[head][row], key[head][column])) + added(head, row, column)
                for column in range(len(key[head]))
                if allowed(head, row, column)
            ]
            if logits:
                largest = max(largest, *logits)
                total = sum(math.exp(one - max(logits)) for one in logits)
                shares = [math.exp(one - max(logits)) / total for one in logits]
                entropies.append(-sum(one * math.log(one) for one in shares))
    return largest, sum(entropies) / len(entropies)


LENGTH = 9
HIDES = torch.rand(LENGTH, LENGTH, generator=torch.Generator().manual_seed(1)) < 0.4
HIDES[3] = True  # a query that may look at nothing
SLOPE = -0.3 * (torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)).abs().float()
LOWEST = torch.finfo(torch.float32).min
CASES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "all pairs": ({}, lambda h, r, c: True, lambda h, r, c: 0.0),
    "causal": ({"is_causal": True}, lambda h, r, c: c <= r, lambda h, r, c: 0.0),
    "a scale": ({"scale": 3.0}, lambda h, r, c: True, lambda h, r, c: 0.0),
    "a mask of bools": ({"attn_mask": ~HIDES}, lambda h, r, c: not HIDES[r, c], lambda h, r, c: 0.0),
    "a mask of infinity": (
        {"attn_mask": torch.zeros(LENGTH, LENGTH).masked_fill(HIDES, -math.inf)},
        lambda h, r, c: not HIDES[r, c],
        lambda h, r, c: 0.0,
    ),
    "a mask of the lowest number, a head and a sequence each": (
        {"attn_mask": torch.zeros(LENGTH, LENGTH).masked_fill(HIDES, LOWEST).expand(2, 3, LENGTH, LENGTH)},
        lambda h, r, c: not HIDES[r, c],
        lambda h, r, c: 0.0,
    ),
    "a slope that is added": ({"attn_mask": SLOPE}, lambda h, r, c: True, lambda h, r, c: SLOPE[r, c].item()),
    "keys that are hidden from all": (
        {"attn_mask": torch.arange(LENGTH)[None] < 5},
        lambda h, r, c: c < 5,
        lambda h, r, c: 0.0,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_the_product_is_given_is_computed_anew(case: str) -> None:
    options, allowed, added = CASES[case]
    torch.manual_seed(0)
    layer = Attends(**options)
    given = torch.randn(2, 3, LENGTH, 6)
    found = metrics(layered(layer), lambda: layer(given)[:, :, :3])
    query, key = (one.detach().double().flatten(0, 1).tolist() for one in layer.pair(given))
    scale = options.get("scale", 1 / math.sqrt(6))
    largest, entropy = plainly(query, key, scale, list(range(LENGTH)), allowed, added)
    assert found == {
        "layer0/max_logit": pytest.approx(largest, rel=1e-5),
        "layer0/entropy": pytest.approx(entropy, rel=1e-5),
    }


def test_of_long_sequences_two_are_looked_at_and_of_each_sixty_four_queries() -> None:
    torch.manual_seed(0)
    layer = Attends(is_causal=True)
    given = torch.randn(4, 1, 150, 6)
    given[2:] *= 100
    found = metrics(layered(layer), lambda: layer(given))
    query, key = (one[:2].detach().double().flatten(0, 1).tolist() for one in layer.pair(given))
    rows = list(range(149, -1, -3))  # the last, and each third before it
    largest, entropy = plainly(query, key, 1 / math.sqrt(6), rows, lambda h, r, c: c <= r, lambda *_: 0.0)
    assert found["layer0/max_logit"] == pytest.approx(largest, rel=1e-5)
    assert found["layer0/entropy"] == pytest.approx(entropy, rel=1e-5)


def test_very_long_sequences_have_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_logits, "ELEMENTS", 4 * 100)
    torch.manual_seed(0)
    layer = Attends()
    given = torch.randn(1, 1, 100, 6)
    found = metrics(layered(layer), lambda: layer(given))
    query, key = (one.detach().double()[0].tolist() for one in layer.pair(given))
    largest, _ = plainly(query, key, 1 / math.sqrt(6), [24, 49, 74, 99], lambda *_: True, lambda *_: 0.0)
    assert found["layer0/max_logit"] == pytest.approx(largest, rel=1e-5)


def test_grouped_queries_meet_the_keys_of_their_group() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(6, 6)
    query, key = torch.randn(1, 4, 5, 6), torch.randn(1, 2, 5, 6)

    class Grouped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix = layer

        def forward(self) -> Any:
            return functional.scaled_dot_product_attention(self.mix(query), key, key, enable_gqa=True)

    model = layered(Grouped())
    found = metrics(model, lambda: model["layers"][0]())
    queries = layer(query).detach().double()[0].tolist()
    keys = key.double()[0].repeat_interleave(2, 0).tolist()
    largest, entropy = plainly(queries, keys, 1 / math.sqrt(6), list(range(5)), lambda *_: True, lambda *_: 0.0)
    assert found["layer0/max_logit"] == pytest.approx(largest, rel=1e-5)
    assert found["layer0/entropy"] == pytest.approx(entropy, rel=1e-5)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("masks", ["none", "pairs", "padding", "both", "of heads"])
def test_the_entropy_of_multi_head_attention_is_that_of_its_own_weights(masks: str, is_first: bool) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(12, 3, 24, dropout=0.0, batch_first=is_first)
    pairs = torch.ones(7, 7, dtype=torch.bool).triu(1) if masks in ("pairs", "both") else None
    pairs = torch.rand(6, 7, 7) - 0.5 if masks == "of heads" else pairs
    padding = torch.zeros(2, 7, dtype=torch.bool)
    padding[1, 4:] = True
    options = {"src_mask": pairs, "src_key_padding_mask": padding if masks in ("padding", "both") else None}
    given = torch.randn((2, 7, 12) if is_first else (7, 2, 12))
    found = metrics(layered(layer), lambda: layer(given, **options))
    torch.manual_seed(0)
    other = nn.TransformerEncoderLayer(12, 3, 24, dropout=0.0, batch_first=is_first).double().self_attn
    _, weights = other(
        given.double(), given.double(), given.double(),
        attn_mask=pairs.double() if masks == "of heads" else pairs,
        key_padding_mask=options["src_key_padding_mask"], average_attn_weights=False,
    )  # fmt: skip
    assert found["layer0/entropy"] == pytest.approx(torch.special.entr(weights).sum(-1).mean().item(), rel=1e-5)
    assert found["layer0/max_logit"] > 0


def test_several_attentions_of_a_layer_are_taken_together() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerDecoderLayer(12, 3, 24, dropout=0.0, batch_first=True)
    given, memory = torch.randn(2, 7, 12), torch.randn(2, 5, 12)
    found = metrics(layered(layer), lambda: layer(given, memory))
    torch.manual_seed(0)
    other = nn.TransformerDecoderLayer(12, 3, 24, dropout=0.0, batch_first=True).double()
    hidden = given.double()
    _, first = other.self_attn(hidden, hidden, hidden, average_attn_weights=False)
    hidden = other.norm1(hidden + other.self_attn(hidden, hidden, hidden)[0])
    _, second = other.multihead_attn(hidden, memory.double(), memory.double(), average_attn_weights=False)
    entropies = [torch.special.entr(one).sum(-1).flatten() for one in (first, second)]
    assert found["layer0/entropy"] == pytest.approx(torch.cat(entropies).mean().item(), rel=1e-5)


SMALL = {
    "vocab_size": 50, "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 32,
    "num_hidden_layers": 2, "n_layer": 2, "n_embd": 16, "n_head": 4, "n_positions": 16, "bos_token_id": 0,
    "eos_token_id": 0, "pad_token_id": 0, "decoder_start_token_id": 0, "d_model": 16, "d_kv": 4, "num_heads": 4,
    "d_ff": 32, "num_layers": 2, "num_decoder_layers": 2, "hidden_dropout_prob": 0.0, "attention_dropout": 0.0,
    "attention_probs_dropout_prob": 0.0, "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0, "dropout_rate": 0.0,
    "head_dim": 4,
}  # fmt: skip
FAMILIES = {
    "GPT2": "LMHeadModel",
    "Llama": "ForCausalLM",
    "Qwen3": "ForCausalLM",
    "Bert": "ForMaskedLM",
    "T5": "ForConditionalGeneration",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_attention_of_transformers_is_the_one_that_it_reports_itself(family: str) -> None:
    library = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = getattr(library, f"{family}Config")(
        **{name: one for name, one in SMALL.items() if family != "T5" or name[:2] != "n_"}
    )
    model = getattr(library, family + FAMILIES[family])(config)
    with torch.no_grad():
        for one in model.parameters():
            one.mul_(4)  # else all logits are about 0
    ids = torch.randint(1, 50, (2, 9), generator=torch.Generator().manual_seed(0))
    batch = {"input_ids": ids, "labels": ids, "attention_mask": (torch.arange(9) < torch.tensor([[9], [6]])).int()}

    def loss() -> Any:
        return model(**batch).loss

    model.set_attn_implementation("sdpa")
    found = metrics(model, loss)
    model.set_attn_implementation("eager")
    bounds = metrics(model, loss)
    with torch.no_grad():
        output = model(**batch, output_attentions=True)
    if family == "T5":  # the decoder's layers attend to themselves and to the encoder
        crossed = zip(output.decoder_attentions, output.cross_attentions, strict=True)
        of_layers = [*((one,) for one in output.encoder_attentions), *crossed]
    else:
        of_layers = [(one,) for one in output.attentions]
    for layer, weights in enumerate(of_layers):
        entropies = torch.cat([torch.special.entr(one.double()).sum(-1).flatten() for one in weights])
        assert found[f"layer{layer}/entropy"] == pytest.approx(entropies.mean().item(), rel=2e-4)
        assert f"layer{layer}/entropy" not in bounds
        if family == "GPT2":  # its queries and keys come from one projection
            assert bounds == {}
        elif family == "T5":  # with what is added to the product
            assert bounds[f"layer{layer}/max_logit_bound"] > 0
        else:
            largest, bound = found[f"layer{layer}/max_logit"], bounds[f"layer{layer}/max_logit_bound"]
            assert largest <= bound <= 30 * largest
    assert not any("bound" in name for name in found)


class ByHand(nn.Module):
    """Attention that nobody sees, with names and a scale that tell of it."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.q_proj, self.k_proj = nn.Linear(6, 8), nn.Linear(6, 4)
        self.head_dim, self.scaling = 2, 0.7
        for name, one in options.items():
            setattr(self, name, one)

    def forward(self, given: Any) -> Any:
        return self.q_proj(given) @ self.k_proj(given).repeat_interleave(2, -1).transpose(-1, -2)


def test_the_bound_is_the_product_of_the_longest_of_each_head() -> None:
    torch.manual_seed(0)
    layer, given = ByHand(), torch.randn(2, 5, 6)
    found = metrics(layered(layer), lambda: layer(given))
    query = layer.q_proj(given).detach().double().reshape(10, 4, 2).tolist()
    key = layer.k_proj(given).detach().double().reshape(10, 2, 2).tolist()
    longest = [[max(math.hypot(*word[head]) for word in one) for head in range(len(one[0]))] for one in (query, key)]
    expected = 0.7 * max(longest[0][head] * longest[1][head // 2] for head in range(4))
    assert found == {"layer0/max_logit_bound": pytest.approx(expected, rel=1e-5)}


@pytest.mark.parametrize(
    "options",
    [{"scaling": None}, {"head_dim": None}, {"q_ln": nn.LayerNorm(8)}, {"scaling": torch.tensor(2.0)}],
    ids=["no scale", "no width", "a norm by another name", "a scale that is learned"],
)
def test_nothing_is_guessed(options: dict[str, Any]) -> None:
    layer = ByHand(**options)
    assert metrics(layered(layer), lambda: layer(torch.randn(2, 5, 6))) == {}


class Sharded(torch.Tensor):
    """What tells a DTensor from a tensor."""

    placements = ("Shard(0)",)


def test_sharded_queries_are_left_alone() -> None:
    product, by_hand, module = Attends(), ByHand(), nn.TransformerEncoderLayer(12, 3, 24, batch_first=True)
    sharded = torch.randn(2, 3, 5, 6).as_subclass(Sharded)
    assert metrics(layered(product), lambda: product(sharded)) == {}
    assert metrics(layered(by_hand), lambda: by_hand(sharded)) == {}
    given = torch.randn(2, 5, 12).as_subclass(Sharded)
    assert metrics(layered(module), lambda: module(given)) == {}


def test_a_model_without_attention_has_none() -> None:
    model = net()
    assert metrics(model, lambda: model(torch.ones(2, 3, dtype=torch.long))) == {}


def encoder(layers: int = 2, dropout: float = 0.1) -> Any:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(12, 3, 24, dropout=dropout, batch_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


def test_a_compiled_model_stays_whole_and_has_no_such_metrics() -> None:
    torch.compiler.reset()
    model = encoder()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    off = ["activations", "dead_units", "logits"]
    assert metrics(model, lambda: compiled(torch.randn(2, 5, 12)), off=off) == {}


def test_a_compiled_function_within_a_layer_gives_what_it_gave(caplog: pytest.LogCaptureFixture) -> None:
    torch.compiler.reset()

    @torch.compile(backend="eager", fullgraph=True)
    def product(query: Any, key: Any, value: Any) -> Any:
        return functional.scaled_dot_product_attention(query, key, value)

    class Compiled(Attends):
        def forward(self, given: Any) -> Any:
            return product(*self.pair(given), given)

    torch.manual_seed(0)
    layer, given = Compiled(), torch.randn(2, 3, 5, 6)
    outputs = [layer(given)]
    metrics(layered(layer), lambda: outputs.append(layer(given)) or outputs[1])
    assert torch.equal(*outputs) and not [one for one in caplog.records if one.name == "vitalsdsl"]


@pytest.mark.parametrize("is_reentrant", [False, True])
def test_a_checkpointed_layer_is_looked_at_once(is_reentrant: bool) -> None:
    model = encoder(dropout=0.0)
    given = torch.randn(2, 5, 12, requires_grad=True)
    expected = metrics(model, lambda: model(given))

    def forward() -> Any:
        hidden = given
        for layer in model.layers:
            hidden = checkpoint(layer, hidden, use_reentrant=is_reentrant)
        return hidden

    torch.manual_seed(0)
    model = encoder(dropout=0.0)
    assert metrics(model, forward) == pytest.approx(expected, rel=1e-5)


def test_fifty_steps_of_attention_end_with_the_same_bits() -> None:
    ends = []
    for is_watched in (False, True):
        model = encoder()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        vitals = Vitals(model, optimizer, every=EACH) if is_watched else None
        batches = torch.Generator().manual_seed(3)
        for _ in range(50):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                model(torch.randn(2, 5, 12, generator=batches)).float().square().mean().backward()
            optimizer.step()
            if vitals:
                assert "attn/layer1/entropy" in vitals.step()
        ends.append(([one.detach() for one in model.parameters()], torch.get_rng_state()))
    assert all(same_bits(one, other) for one, other in zip(ends[0][0], ends[1][0]))
    assert torch.equal(ends[0][1], ends[1][1])


class Counts(TorchFunctionMode):
    """Sees the functions that are called, and is on top of any mode that was left behind."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*args, **(kwargs or {}))


def modes() -> int:
    return len(torch.overrides._get_current_function_mode_stack())


def test_a_layer_that_fails_leaves_nothing_behind() -> None:
    class Fails(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        def forward(self, given: Any) -> Any:
            assert modes() == 1
            raise ZeroDivisionError

    model = layered(Fails())
    Vitals(model, torch.optim.SGD(model.parameters(), lr=0.1), every=EACH)
    with pytest.raises(ZeroDivisionError):
        model["layers"][0](torch.ones(1))
    assert modes() == 0


def test_an_interrupt_in_a_layer_ends_what_is_seen() -> None:
    class Interrupted(Attends):
        is_stopped = True

        def forward(self, given: Any) -> Any:
            if self.is_stopped:
                raise KeyboardInterrupt
            return super().forward(given)

    layer = Interrupted()
    model, given = layered(layer), torch.randn(1, 1, 5, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    vitals = Vitals(model, optimizer, every=EACH)
    with pytest.raises(KeyboardInterrupt):
        layer(given)
    layer.is_stopped = False
    vitals.step()  # the step that was cut short
    for _ in range(2):
        functional.scaled_dot_product_attention(given * 100, given * 100, given)  # of no layer
        layer(given).sum().backward()
        optimizer.step()
        found = vitals.step()
    assert modes() == 0
    assert 0 < found["attn/layer0/max_logit"] < 100


def test_what_goes_wrong_in_looking_stays_there(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "statistics", lambda given: 1 / 0)
    model = encoder(layers=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    vitals = Vitals(model, optimizer, every=EACH)
    with caplog.at_level(logging.WARNING, "vitalsdsl"):
        for _ in range(3):
            model(torch.randn(2, 5, 12)).sum().backward()
            optimizer.step()
            assert "attn/layer0/entropy" not in vitals.step()
    assert [one.getMessage() for one in caplog.records] == [
        "the attention of layer 0 could not be looked at: division by zero"
    ]
    assert modes() == 0


def test_only_steps_that_are_due_and_no_validation_are_looked_at() -> None:
    model = encoder(layers=1, dropout=0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    vitals = Vitals(model, optimizer, every={"attention": 2})
    given = torch.randn(2, 5, 12)
    expected = metrics(encoder(layers=1, dropout=0.0), lambda: model(given))
    assert expected == {}  # another model was run
    expected = metrics(other := encoder(layers=1, dropout=0.0), lambda: other(given))
    found = []
    for _ in range(3):
        with torch.no_grad():
            model(torch.randn(2, 5, 12))
        for scale in (1.0, 50.0):  # the first micro-batch alone counts
            model(given * scale).sum().backward()
        optimizer.step()
        found.append(vitals.step())
    assert ["attn/layer0/entropy" in one for one in found] == [True, True, False]
    assert found[1]["attn/layer0/entropy"] == pytest.approx(expected["layer0/entropy"], rel=1e-5)


def test_a_copy_or_a_pickle_is_not_watched() -> None:
    model = encoder(layers=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    vitals = Vitals(model, optimizer, every=EACH)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        other(torch.randn(2, 5, 12))
    model(torch.randn(2, 5, 12)).sum().backward()
    optimizer.step()
    assert "attn/layer0/entropy" in vitals.step()


def test_other_modes_go_on_seeing_what_they_saw() -> None:
    model = encoder(layers=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    vitals = Vitals(model, optimizer, every=EACH)
    with Counts():
        model(torch.randn(2, 5, 12)).sum().backward()
        assert modes() == 1
    optimizer.step()
    assert "attn/layer0/entropy" in vitals.step()
