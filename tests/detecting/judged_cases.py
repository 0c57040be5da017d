"""Which runs a policy is tried on: healthy ones, benign spikes, every incident, BLOOM-176B's spike, and short logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.detecting import short_logs
from vitalsdsl import generate

STRIDES = (1, 10, 50, 500)
LENGTHS = (1, 2, 3, 5, 10, 20, 30, 50, 70, 100)
"""Steps that a benign block of high loss lasts."""
RECOVERIES = (10.0, 30.0, 50.0, 100.0)
"""Steps in which the excess of a benign spike falls to a third."""
HEIGHTS = (1.0, 4.0)
"""Nats."""


@dataclass(frozen=True)
class Case:
    """A run to be made, and the group in which it is counted."""

    suite: str
    group: str
    curve: str
    seed: int
    stride: int
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def run(self) -> generate.Run:
        if self.suite == "short":
            return short_logs.make(self.curve, self.seed)
        return generate.make(self.curve, seed=self.seed, stride=self.stride, **self.parameters)


@dataclass(frozen=True)
class Scale:
    """How much of each suite is run."""

    lm: int = 67
    sft: int = 33
    base: int = 200
    others: int = 5
    benign: int = 3
    incidents: int = 5
    bloom: int = 20
    short: int = 20
    strides: tuple[int, ...] = STRIDES

    def part(self, share: float) -> Scale:
        """A share of the runs of each suite, one at least: the first seeds."""
        counts = {name: max(1, round(share * count)) for name, count in vars(self).items() if name != "strides"}
        return replace(self, **counts)


QUICK = Scale(lm=4, sft=2, base=6, others=1, benign=1, incidents=1, bloom=3, short=2)


def healthy(scale: Scale) -> Iterator[Case]:
    """Runs in which every alarm is a false one."""
    others = [name for name, c in generate.curves().items() if c.kind == "healthy" and name not in _GROUPS]
    for stride in scale.strides:
        for group, name, seeds in (
            ("lm", "healthy_lm", scale.lm),
            ("sft", "healthy_sft", scale.sft),
            ("base", "healthy", scale.base),
            *((name, name, scale.others) for name in others),
        ):
            for seed in range(seeds):
                yield Case("healthy", group, name, seed, stride)


_GROUPS = ("healthy", "healthy_lm", "healthy_sft")


def benign(scale: Scale) -> Iterator[Case]:
    """Blocks and spikes of the loss that end by themselves: yellow at most. Each begins where its stride logs a row."""
    for stride in scale.strides:
        for seed in range(scale.benign):
            for height in HEIGHTS:
                for steps in LENGTHS:
                    yield Case(
                        "benign", f"{steps} steps", "bad_batches", seed, stride, {"steps": steps, "height": height}
                    )
                for recovery in RECOVERIES:
                    given = {"recovery": recovery, "height": height}
                    yield Case("benign", f"tau {recovery:g}", "spike_benign", seed, stride, given)


def incidents(scale: Scale) -> Iterator[Case]:
    """Every curve in which something goes wrong."""
    for name, curve in generate.curves().items():
        if curve.kind != "healthy" and curve.shows and name != "bloom_31219":
            for stride in scale.strides:
                for seed in range(scale.incidents):
                    yield Case("latency", name, name, seed, stride)


def bloom(scale: Scale) -> Iterator[Case]:
    """The published spike of BLOOM-176B under several seeds of calm noise; yellow before iteration 31219, never red."""
    for stride in (s for s in scale.strides if s <= 10):
        for seed in range(scale.bloom):
            yield Case("bloom", "bloom_31219", "bloom_31219", seed, stride)


def short(scale: Scale) -> Iterator[Case]:
    """Logs of 1 to 500 rows, each with the cadence of its own: what goes wrong in them, and healthy ones."""
    for name in short_logs.shapes():
        for seed in range(scale.short):
            yield Case("short", name, name, seed, 1)


SUITES = {"healthy": healthy, "benign": benign, "latency": incidents, "bloom": bloom, "short": short}
