"""A plain training script: a small language model in torch that logs to MLflow. It knows nothing of vitals.

The learning rate goes on rising after warm-up, far beyond what the model can take.
"""

from __future__ import annotations

import argparse
import math

import mlflow
import torch
from torch import nn
from torch.nn import functional

VOCABULARY, CONTEXT, WIDTH, BATCH = 48, 24, 64, 16


class Model(nn.Module):
    """Two transformer layers over a made-up language."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.place = nn.Embedding(CONTEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embed(tokens) + self.place.weight
        return self.head(self.layers(hidden, mask=self.mask, is_causal=True))


def sentences(generator: torch.Generator) -> torch.Tensor:
    """A batch of the made-up language: each word mostly decides the next."""
    words = torch.randint(VOCABULARY, (BATCH, 1), generator=generator)
    rows = [words]
    for _ in range(CONTEXT):
        jump = torch.randint(3, (BATCH, 1), generator=generator)
        words = (words * 5 + 7 + jump) % VOCABULARY
        rows.append(words)
    return torch.cat(rows, dim=1)


def loss_of(model: Model, batch: torch.Tensor) -> torch.Tensor:
    logits = model(batch[:, :-1])
    return functional.cross_entropy(logits.reshape(-1, VOCABULARY), batch[:, 1:].reshape(-1))


def rate_at(step: int, steps: int, top_rate: float) -> float:
    """Warm-up to 0.001 over 40 steps; from step 160 on the mistake: it rises to `top_rate`."""
    rising = max(0.0, (step - 160) / max(1, steps - 160))
    return 1e-3 * min(1.0, (step + 1) / 40) * math.pow(top_rate / 1e-3, rising)


def train(steps: int, top_rate: float, seed: int) -> None:
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    data, held_out = torch.Generator().manual_seed(seed + 1), torch.Generator().manual_seed(seed + 2)
    validation = sentences(held_out)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with mlflow.start_run(run_name="small-lm"):
        mlflow.log_params({"max_steps": steps, "top_rate": top_rate, "seed": seed})
        for step in range(steps):
            rate = rate_at(step, steps, top_rate)
            for group in optimizer.param_groups:
                group["lr"] = rate
            loss = loss_of(model, sentences(data))
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), math.inf)
            optimizer.step()
            metrics = {"train/loss": loss.item(), "train/grad_norm": norm.item(), "train/learning_rate": rate}
            if step % 25 == 0:
                with torch.no_grad():
                    metrics["eval/loss"] = loss_of(model, validation).item()
            mlflow.log_metrics(metrics, step=step, synchronous=False)


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--steps", type=int, default=400)
    options.add_argument("--top-rate", type=float, default=1.0)
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    train(chosen.steps, chosen.top_rate, chosen.seed)
