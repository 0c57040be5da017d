"""Ten ways to make a training go wrong, and which rule has to see each, how soon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from vitalsdsl_torch import Vitals

from tests.torch.incidents.trainings import BATCH, CONTEXT, VOCABULARY, WIDTH, Block, Net, Training, Watched, noise
from vitalsdsl.language.rules import Level


class RateTooHigh(Training):
    """A learning rate thirty times too high from the start. Clipping keeps the gradient's norm out of sight."""

    at = 0
    steps = 120

    def __init__(self, is_wrong: bool, seed: int = 0) -> None:
        super().__init__(is_wrong, seed)
        if is_wrong:
            self.optimizer.param_groups[0]["lr"] = 30 * self.rate


class RateSpike(Training):
    """The learning rate is a hundred times too high for five updates."""

    def update(self, number: int, vitals: Vitals) -> torch.Tensor:
        (group,) = self.optimizer.param_groups
        rate = group["lr"]
        if self.is_on(number, 5):
            group["lr"] = 100 * rate
        try:
            return super().update(number, vitals)
        finally:
            group["lr"] = rate


class BadBatch(Training):
    """One batch of words that are drawn blindly."""

    batches = 1

    def batch(self, number: int) -> torch.Tensor:
        return noise(self.generator(number)) if self.is_on(number, self.batches) else super().batch(number)


class BadWindow(BadBatch):
    """Forty of them in a row."""

    batches = 40


class DataSwitch(Training):
    """From one batch to the next another language: the same grammar, all words renamed."""

    def batch(self, number: int) -> torch.Tensor:
        words = super().batch(number)
        return self.renamed[words] if self.is_on(number) else words

    renamed = torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(7))

    def measured(self, number: int) -> Mapping[str, float]:
        return {"data/source": float(self.is_on(number))}


class Overflow(Training):
    """Half precision under a loss scaler; then the loss is summed over its words instead of averaged."""

    def __init__(self, is_wrong: bool, seed: int = 0) -> None:
        super().__init__(is_wrong, seed)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14, growth_interval=60)

    def update(self, number: int, vitals: Vitals) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = self.loss(self.batch(number))
        self.scaler.scale(loss * BATCH * CONTEXT if self.is_on(number) else loss).backward()
        vitals.clip_grad_norm_(1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()


class StaleMoments(Training):
    """The loader hands out one and the same sentence for a while; what goes wrong begins when it gives others again, for
    Adam's second moments have forgotten by then how large gradients are."""

    betas = (0.9, 0.95)
    held = 60

    def batch(self, number: int) -> torch.Tensor:
        words = super().batch(number)
        is_held = self.is_wrong and self.at - self.held <= number < self.at
        return super().batch(0)[:1].expand_as(words) if is_held else words


class DeadUnits(Training):
    """The biases before the ReLUs fall by ten, as after one update that is far too large: most units give nothing more."""

    def update(self, number: int, vitals: Vitals) -> torch.Tensor:
        loss = super().update(number, vitals)
        if self.is_on(number, 1):
            with torch.no_grad():
                for layer in self.model.layers:
                    layer.mlp[0].bias -= 10.0
        return loss


class Experts(nn.Module):
    """Eight experts, of which a router picks one for each word."""

    def __init__(self, count: int = 8) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, count)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 16), nn.GELU(), nn.Linear(16, WIDTH)) for _ in range(count)
        )
        self.top_k = 1
        self.balance = torch.zeros(())

    def forward(self, hidden: Any) -> Any:
        flat = hidden.reshape(-1, WIDTH)
        odds = self.router(flat).softmax(-1)
        weight, chosen = odds.max(-1)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            mine = chosen == number
            out[mine] = weight[mine, None] * expert(flat[mine])
        load = torch.bincount(chosen, minlength=len(self.experts)) / len(chosen)
        self.balance = len(self.experts) * (load * odds.mean(0)).sum()
        return hidden + out.view_as(hidden)


class RouterCollapse(Training):
    """A router that likes one expert from the start, and no loss that would balance them. The loss that is trained on
    looks as it always does."""

    at = 0
    steps = 120

    def __init__(self, is_wrong: bool, seed: int = 0) -> None:
        super().__init__(is_wrong, seed)
        if is_wrong:
            with torch.no_grad():
                self.layer.router.bias[0] += 6.0

    def made(self) -> nn.Module:
        self.layer = Experts()
        return Net(Block(), self.layer)

    def update(self, number: int, vitals: Vitals) -> torch.Tensor:
        loss = self.loss(self.batch(number))
        (loss if self.is_wrong else loss + 0.1 * self.layer.balance).backward()
        vitals.clip_grad_norm_(1.0)
        self.optimizer.step()
        return loss.detach()


class Overfit(Training):
    """Three sentences, again and again, instead of new ones."""

    at = 0
    steps = 200

    def batch(self, number: int) -> torch.Tensor:
        return super().batch(0)[torch.arange(BATCH) % 3] if self.is_wrong else super().batch(number)

    def measured(self, number: int) -> Mapping[str, float]:
        if number % 10:
            return {}
        with torch.no_grad():
            return {"val_loss": self.loss(Training.batch(self, 900_000)).item()}


@dataclass(frozen=True)
class Incident:
    """What is provoked, the rule that has to see it, at which level, within how many steps of its onset, and what the
    guard then has to do, as a pattern of `Watched.deeds`."""

    name: str
    training: type[Training]
    rule: str
    level: Level
    within: int
    answer: str = ""

    def onset(self, seen: Watched) -> int:
        """The step at which it truly begins: that of the first wrong batch; of overfitting, after the best validation."""
        if self.training is not Overfit:
            return self.training.at + 1
        validated = {step: row["val_loss"] for step, row in enumerate(seen.metrics, 1) if "val_loss" in row}
        return min(validated, key=lambda step: validated[step])


_PAUSED = r"paused after step \d+"
_BACK = r"from step \d+ back to 120, on at batch \d+"
_FURTHER = r"from step \d+ back to 80, on at batch \d+"

INCIDENTS = (
    Incident("learning rate too high, hidden by clipping", RateTooHigh, "update_too_large", Level.ORANGE, 7, _PAUSED),
    Incident("learning rate spike", RateSpike, "loss_lost", Level.RED, 10, _BACK),
    Incident("bad batch", BadBatch, "core.loss_spike", Level.YELLOW, 0),
    Incident("bad window", BadWindow, "loss_lost", Level.RED, 10, _BACK),
    Incident("fp16 overflow", Overflow, "scale_plunges", Level.ORANGE, 10, _PAUSED),
    Incident("stale Adam moments", StaleMoments, "adam_stale", Level.YELLOW, 0, f"{_BACK} {_FURTHER}"),
    Incident("dead ReLUs", DeadUnits, "dead_units", Level.YELLOW, 8, _BACK),
    Incident("MoE router collapse", RouterCollapse, "router_collapse", Level.ORANGE, 25, _PAUSED),
    Incident("overfit", Overfit, "overfit", Level.ORANGE, 60, r"stopped after step \d+"),
    Incident("data switch", DataSwitch, "data_switched", Level.ORANGE, 5, _PAUSED),
)

TWINS = (Training, Overflow, StaleMoments, RouterCollapse, Overfit)
"""Those of the incidents, once each: without what goes wrong most of them are the plain training."""
