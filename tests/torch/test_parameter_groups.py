"""Every trained parameter is in one group, with the rate and the decay that its place in the model asks for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.torch.nets import loss_of, net, words

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from vitalsdsl_torch.groups import parameter_groups  # noqa: E402
from vitalsdsl_torch.vitals import Vitals  # noqa: E402

from vitalsdsl.ground.errors import UsageError  # noqa: E402

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "parameter_groups.md").read_text("utf-8")
RATE, DECAY, BY_LAYER, EMBED, HEAD = 0.01, 0.3, 0.8, 0.5, 2.0
SMALL = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "num_hidden_layers": 3}


def transformer() -> Any:
    return nn.Transformer(16, 2, 2, 2, 32, batch_first=True)


def encoder() -> Any:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 4, nn.LayerNorm(16))


def from_transformers(model: str, config: str, **options: Any) -> Callable[[], Any]:
    def made() -> Any:
        library = pytest.importorskip("transformers")
        return getattr(library, model)(getattr(library, config)(**options))

    return made


# Of each model: the layers in the order of the data's way, then names of embeddings and of the head.
MODELS: dict[str, tuple[Callable[[], Any], list[str], str, str]] = {
    "small": (net, [f"layers.{i}." for i in range(3)], "embed.", "lm_head."),
    "tied": (lambda: net(tied=True), [f"layers.{i}." for i in range(3)], "embed.", "nothing"),
    "nn.TransformerEncoder": (encoder, [f"layers.{i}." for i in range(4)], "nothing", "nothing"),
    "nn.Transformer": (
        transformer,
        [*(f"encoder.layers.{i}." for i in range(2)), *(f"decoder.layers.{i}." for i in range(2))],
        "nothing",
        "nothing",
    ),
    "GPT-2": (
        from_transformers(
            "GPT2LMHeadModel", "GPT2Config", n_layer=3, n_embd=16, n_head=2, vocab_size=50, n_positions=16,
            bos_token_id=0, eos_token_id=0,
        ),
        [f"transformer.h.{i}." for i in range(3)], r"transformer\.w[tp]e", "nothing",
    ),
    "Llama": (
        from_transformers("LlamaForCausalLM", "LlamaConfig", vocab_size=50, num_key_value_heads=1, **SMALL),
        [f"model.layers.{i}." for i in range(3)], r"model\.embed_tokens", "lm_head",
    ),
    "BERT": (
        from_transformers("BertForSequenceClassification", "BertConfig", vocab_size=50, **SMALL),
        [f"bert.encoder.layer.{i}." for i in range(3)], r"bert\.embeddings", "classifier",
    ),
    "T5": (
        from_transformers(
            "T5ForConditionalGeneration", "T5Config", d_model=16, d_kv=8, num_heads=2, d_ff=32, vocab_size=50,
            num_layers=2, num_decoder_layers=2,
        ),
        [*(f"encoder.block.{i}." for i in range(2)), *(f"decoder.block.{i}." for i in range(2))], "shared", "nothing",
    ),
    "ViT": (
        from_transformers("ViTForImageClassification", "ViTConfig", image_size=8, patch_size=4, **SMALL),
        [f"vit.{{}}.{i}." for i in range(3)], r"vit\.embeddings", "classifier",
    ),
}  # fmt: skip


def is_norm(model: Any, name: str) -> bool:
    return type(model.get_submodule(name.rpartition(".")[0])).__name__.endswith("Norm")


@pytest.mark.parametrize("case", MODELS)
def test_each_parameter_has_the_rate_and_the_decay_of_its_place(case: str) -> None:
    made, places, embed, head = MODELS[case]
    model = made()
    stem = "layers" if hasattr(getattr(model, "vit", None), "layers") else "encoder.layer"
    places = [place.format(stem) for place in places]
    groups = parameter_groups(model, RATE, DECAY, layer_decay=BY_LAYER, embed_scale=EMBED, head_scale=HEAD)
    optimizer = torch.optim.AdamW(groups)
    held = [(id(one), group) for group in optimizer.param_groups for one in group["params"]]
    assert len(held) == len(dict(held)) == len(list(model.parameters()))
    seen = set()
    for name, one in model.named_parameters():
        group = dict(held)[id(one)]
        (depth,) = [at for at, place in enumerate(places) if name.startswith(place)] or [None]
        if depth is not None:
            expected, home = RATE * BY_LAYER ** (len(places) - 1 - depth), f"layer{depth}"
        elif re.match(embed, name):
            expected, home = RATE * EMBED, "embed"
        elif re.match(head, name):
            expected, home = RATE * HEAD, "head"
        else:
            expected, home = RATE, "trunk"
        is_decayed = len(one.shape) > 1 and not is_norm(model, name)
        assert group["lr"] == pytest.approx(expected, rel=1e-12), name
        assert group["weight_decay"] == (DECAY if is_decayed else 0), name
        assert group["name"] == home + ("" if is_decayed else "_no_decay"), name
        seen.add(home)
    assert {f"layer{depth}" for depth in range(len(places))} <= seen
    assert optimizer.param_groups[0]["lr"] == RATE


def test_thirty_two_layers_at_0_9_leave_the_first_0_038_of_the_rate() -> None:
    model = nn.ModuleDict({"layers": nn.ModuleList(nn.Linear(2, 2) for _ in range(32))})
    rates = {one["name"]: one["lr"] for one in parameter_groups(model, 1.0, layer_decay=0.9)}
    assert rates["layer0"] == pytest.approx(0.0382, abs=5e-5) and rates["layer31"] == 1.0


def test_without_a_decay_by_depth_all_layers_are_one_group() -> None:
    found = [one["name"] for one in parameter_groups(net(), RATE, DECAY)]
    assert found == ["trunk", "trunk_no_decay", "embed", "head"]


def test_what_is_frozen_is_left_out() -> None:
    model = net()
    model.embed.requires_grad_(False)
    model.layers[1].requires_grad_(False)
    groups = parameter_groups(model, RATE, layer_decay=BY_LAYER)
    assert {one["name"].removesuffix("_no_decay") for one in groups} == {"layer2", "layer0", "head"}
    assert next(one["lr"] for one in groups if one["name"] == "layer0") == pytest.approx(RATE * BY_LAYER**2)
    assert all(one.requires_grad for group in groups for one in group["params"])


def test_gaps_in_the_numbers_are_no_depth() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    rates = {one["name"]: one["lr"] for one in parameter_groups(model, 1.0, layer_decay=0.5)}
    assert [rates[f"layer{place}"] for place in (4, 2, 0)] == [1.0, 0.5, 0.25]


def test_a_compiled_model_has_the_same_groups() -> None:
    model = net()
    compiled = torch.compile(model, backend="eager")
    plain = parameter_groups(model, RATE, DECAY, layer_decay=BY_LAYER)
    for one, other in zip(parameter_groups(compiled, RATE, DECAY, layer_decay=BY_LAYER), plain, strict=True):
        assert one["name"] == other["name"] and list(map(id, one["params"])) == list(map(id, other["params"]))


def test_the_vitals_show_each_group_and_lr_is_the_base() -> None:
    model = net()
    optimizer = torch.optim.AdamW(parameter_groups(model, RATE, DECAY, layer_decay=BY_LAYER, embed_scale=EMBED))
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
    vitals = Vitals(model, optimizer, log_every=1)
    for step in range(2):
        loss_of(model, words(step)).backward()
        optimizer.step()
        found = vitals.step()
        scheduler.step()
    assert found["lr"] == pytest.approx(RATE / 2)
    assert found["lr/group/layer1"] == found["lr/group/layer1_no_decay"] == pytest.approx(RATE / 2 * BY_LAYER)
    assert found["lr/group/embed"] == pytest.approx(RATE / 2 * EMBED)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"layer_decay": 0.0}, "layer_decay is 0.0"),
        ({"layer_decay": 1.1}, "layer_decay is 1.1"),
        ({"layer_decay": float("nan")}, "layer_decay is nan"),
        ({"lr": -1.0}, "lr is -1.0"),
        ({"weight_decay": -0.1}, "weight_decay is -0.1"),
        ({"embed_scale": float("nan")}, "embed_scale is nan"),
        ({"head_scale": -2}, "head_scale is -2"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parameter_groups(net(), **{"lr": RATE, **options})


def test_models_without_anything_to_train_are_refused() -> None:
    with pytest.raises(UsageError, match="no parameter"):
        parameter_groups(net().requires_grad_(False), RATE)
    with pytest.raises(UsageError, match="run one batch"):
        parameter_groups(nn.Sequential(nn.LazyLinear(3)), RATE)


def test_the_page_prints_what_it_says() -> None:
    (script,), (expected,) = (re.findall(rf"```{one}\n(.*?)```", PAGE, re.DOTALL) for one in ("python", "text"))
    path = os.pathsep.join([str(ROOT), str(ROOT / "integrations")])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.stdout == expected, done.stderr
