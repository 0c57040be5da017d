"""What the default collectors cost a small model: the same steps with and without them, by turns, in one process.

`python -m tests.trials.vitals_cost [--steps 1000] [--log-every 50]` prints the share of a step and its spread, by the time
of this thread on the processor, so that other work on the machine does not count. Then, by formula, the share of a model
of 7 billion parameters. One core, some minutes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from vitalsdsl_torch.vitals import Vitals

WIDTH, HEADS, LAYERS, WORDS, BATCH, LENGTH = 192, 6, 4, 2000, 8, 128


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.attn_out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, hidden: Any) -> Any:
        rows, length, width = hidden.shape
        parts = self.qkv(self.norm1(hidden)).view(rows, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*parts, is_causal=True)
        hidden = hidden + self.attn_out(mixed.transpose(1, 2).reshape(rows, length, width))
        return hidden + self.mlp(self.norm2(hidden))


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.lm_head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, words: Any) -> Any:
        hidden = self.embed(words)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.lm_head(self.norm(hidden))


class Training:
    def __init__(self, log_every: int | None) -> None:
        torch.manual_seed(0)
        self.model = Small()
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.vitals = Vitals(self.model, self.optimizer, log_every=log_every) if log_every else None

    def step(self, words: Any) -> float:
        """Processor seconds of one step."""
        started = time.thread_time()
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self.model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
        loss.backward()
        if self.vitals:
            self.vitals.clip_grad_norm_(1.0)
        else:
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        if self.vitals:
            self.vitals.step(loss=loss, tokens=words[:, 1:].numel())
        return time.thread_time() - started


def measured(steps: int, log_every: int) -> None:
    bare, watched = Training(None), Training(log_every)
    generator = torch.Generator().manual_seed(0)
    shares = []
    sums = [0.0, 0.0]
    for step in range(steps):
        words = torch.randint(WORDS, (BATCH, LENGTH + 1), generator=generator)
        first, second = (bare, watched) if step % 2 else (watched, bare)
        times = {first: first.step(words), second: second.step(words)}
        sums = [sums[0] + times[bare], sums[1] + times[watched]]
        if step % 50 == 49:  # a whole turn of what is due at each fiftieth
            shares.append(sums[1] / sums[0] - 1)
            sums = [0.0, 0.0]
    size = sum(one.numel() for one in bare.model.parameters()) / 1e6
    quarters = statistics.quantiles(shares, n=4)
    print(
        f"{size:.1f} M parameters, {steps} steps, log_every={log_every}: {statistics.mean(shares):+.2%} of a step on average"
    )
    print(f"over stretches of 50 steps: quartiles {quarters[0]:+.2%} {quarters[1]:+.2%} {quarters[2]:+.2%}")


def by_formula(parameters: float = 7e9, tokens: float = 4e6, layers: int = 32, width: int = 4096) -> None:
    """Floating-point operations, added and multiplied: 6 a parameter and token for the step, those of collectors each time."""
    a_step = 6 * parameters * tokens
    tensors = 9 * layers + 3
    sampled = min(parameters, tensors * 2**20)
    passes = {
        "gradient norm (each 50; torch's clipping takes it anyway)": 2 * parameters / 50,
        "parameter norms (each 50)": 2 * parameters / 50,
        "gradient over Adam's expectation (each 50)": 8 * sampled / 50,
        "zeros (each 500)": parameters / 500,
        "updates (each 500)": 6 * sampled / 500,
        "activations (each 1000), first micro-batch of 8192 tokens": 8 * layers * 8192 * width / 1000,
    }
    for name, operations in passes.items():
        print(f"{operations / a_step:.1e} of a step: {name}")
    print(
        f"{sum(passes.values()) / a_step:.1e} of a step together, at {parameters:.0e} parameters and {tokens:.0e} tokens a step"
    )


if __name__ == "__main__":
    said = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    said.add_argument("--steps", type=int, default=1000)
    said.add_argument("--log-every", type=int, default=50)
    options = said.parse_args()
    torch.set_num_threads(1)
    by_formula()
    measured(options.steps, options.log_every)
