"""A training script as anybody writes it: a small language model in torch, logged to MLflow, with a guard round its loop.

Some of its batches may be poisoned: noise where language should be.
"""

from __future__ import annotations

import argparse

import mlflow
import torch
from torch import nn
from torch.nn import functional
from vitalsdsl_mlflow.port import MlflowPort
from vitalsdsl_torch import Guard

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


class Sentences:
    """Batches of the made-up language, in which each word mostly decides the next. Each is known by its number, so that
    going to any place is free; those in `poisoned` are words drawn blindly."""

    def __init__(self, seed: int, poisoned: range = range(0)) -> None:
        self.position = 0
        self._seed, self._poisoned = seed, poisoned

    def skip_to(self, position: int) -> None:
        self.position = position

    def __next__(self) -> torch.Tensor:
        self.position += 1
        return self.batch(self.position - 1)

    def batch(self, number: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(self._seed * 1_000_000 + number)
        if number in self._poisoned:
            return torch.randint(VOCABULARY, (BATCH, CONTEXT + 1), generator=generator)
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


def train(policy: str, folder: str, steps: int, poisoned: range, seed: int) -> None:
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    warm_up = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 40))
    data = Sentences(seed, poisoned)
    held_out = torch.cat([Sentences(seed + 1).batch(number) for number in range(16)])
    with mlflow.start_run() as run:
        guard = Guard(
            policy, folder, run=run.info.run_id, model=model, optimizer=optimizer, scheduler=warm_up, data=data,
            allow=("pause", "rollback"), every=50, probation=30, margin=20, skip=30, total_steps=steps,
            ports=[MlflowPort(mlflow.MlflowClient(), run.info.run_id)],
        )  # fmt: skip
        for step in guard.steps(steps):
            loss = loss_of(model, next(data))
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            rate = optimizer.param_groups[0]["lr"]
            optimizer.step()
            warm_up.step()
            optimizer.zero_grad()
            metrics = {"train/loss": loss.item(), "train/grad_norm": norm.item(), "train/learning_rate": rate}
            if step % 25 == 0:
                with torch.no_grad():
                    metrics["eval/loss"] = loss_of(model, held_out).item()
            mlflow.log_metrics(
                {**metrics, **guard.metrics, "data/batch": data.position - 1}, step=step, synchronous=False
            )
            guard.step(metrics)
            if step % 10 == 0:
                print(f"step {step}  loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("policy")
    options.add_argument("folder", help="where checkpoints lie; started again, it goes on from there")
    options.add_argument("--steps", type=int, default=340)
    options.add_argument("--poisoned", type=int, nargs=2, default=(0, 0), metavar=("FIRST", "END"))
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    train(chosen.policy, chosen.folder, chosen.steps, range(*chosen.poisoned), chosen.seed)
