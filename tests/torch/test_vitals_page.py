"""The reference page is current, and says of each metric that is logged what it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.torch.nets import Mixture, loss_of, net, words

torch = pytest.importorskip("torch")

from vitalsdsl_torch.collectors.base import Collector, collectors  # noqa: E402
from vitalsdsl_torch.collectors.page import page  # noqa: E402
from vitalsdsl_torch.vitals import Vitals  # noqa: E402

BETWEEN_RANKS = ("rank/", "loss_max")
"""What a training of one process does not have: test_vitals_ranks looks for it."""

PAGE = Path(__file__).parents[2] / "docs" / "vitals.md"


def test_the_page_is_made_from_the_collectors(update: bool) -> None:
    if update:
        PAGE.write_text(page(), "utf-8")
    assert PAGE.read_text("utf-8") == page()


def test_the_loop_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = (re.findall(rf"```{kind}\n(.*?)```", page(), re.DOTALL)[0] for kind in ("python", "text"))
    exec(compile(code, "vitals.md", "exec"), {})
    assert capsys.readouterr().out == said


@pytest.mark.parametrize("name", collectors())
def test_every_collector_says_what_it_is(name: str) -> None:
    found = collectors()[name]
    assert found.cost and found.every and found.metrics
    assert (found.__doc__ or "").split("\n\n")[0].endswith(".")
    assert found.report is not Collector.report
    assert found.__module__ == f"vitalsdsl_torch.collectors.{name}"


def test_every_metric_that_is_logged_is_on_the_page() -> None:
    model = net(odd=True)
    optimizer = torch.optim.AdamW([{"params": [one]} for one in model.parameters()], lr=1e-3)
    scaler = torch.amp.GradScaler("cpu")
    vitals = Vitals(model, optimizer, scaler=scaler, every=dict.fromkeys(collectors(), 1))
    logged: set[str] = set()
    for step in range(3):
        optimizer.zero_grad()
        for part in vitals.loader(words(step, rows=300).chunk(2)):
            loss = loss_of(model, part)
            scaler.scale(loss / 2).backward()
            vitals.micro_batch(loss=loss, tokens=part.numel(), samples=len(part))
            vitals.batch(part, labels=part, pad_id=0)
        vitals.clip_grad_norm_(1.0)
        scaler.step(optimizer)
        scaler.update()
        logged |= set(vitals.step(epoch=0.1, data_pos=step))
    logged |= of_attention_and_experts()
    patterns = {}
    for found in collectors().values():
        for metric in found.metrics:
            said = re.escape(metric).replace("layer<i>", r"(layer\d+|input)").replace("<i>", r"\d+")
            patterns[metric] = re.compile(re.sub(r"<\w+>", r"\\w+", said))
    assert [one for one in sorted(logged) if not any(pattern.fullmatch(one) for pattern in patterns.values())] == []
    unseen = [metric for metric, pattern in patterns.items() if not any(map(pattern.fullmatch, logged))]
    elsewhere = ("gpu/", "mem/", *BETWEEN_RANKS)  # of other machines
    assert [metric for metric in unseen if not metric.startswith(elsewhere)] == []


class ByHand(torch.nn.Module):
    """Attention that no library does, beside one that a library does."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.head_dim, self.scaling = 2, 0.5

    def forward(self, hidden: Any) -> Any:
        return self.query(hidden) * self.key(hidden)


def of_attention_and_experts() -> set[str]:
    layer = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    attends = torch.nn.ModuleDict({"layers": torch.nn.ModuleList([layer, ByHand()])})
    mixture = Mixture()
    logged: set[str] = set()
    for model in (attends, mixture):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        vitals = Vitals(model, optimizer, every={"attention": 1, "moe": 1})
        if model is mixture:
            vitals.routing([3, 1], layer=7, dropped=1)
            loss_of(model, words(0)).backward()
        else:
            model["layers"][1](model["layers"][0](torch.randn(2, 3, 4))).sum().backward()
        optimizer.step()
        logged |= set(vitals.step())
    return logged
