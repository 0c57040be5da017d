"""Work that all contenders do: rules for each metric, over windows of a short and a long length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vitalsdsl.ground.points import Row
from vitalsdsl.policies.policy import LoadedPolicy, load
from vitalsdsl.verdicts.verdict import Transition

Array = Any
Change = tuple[int, int, bool]
"""A rule by its number, a step, and whether it went off there or came back."""

Rule = tuple[str, int]
"""What must be so, and for how many steps. `{m}` is a metric, `{s}` and `{l}` are the two lengths."""

FIVE: tuple[Rule, ...] = (
    ("{m} > mean({m}, {s} steps) + 6 * std({m}, {s} steps)", 1),
    ("min({m}, {l} steps) < 0.3 * mean({m}, {s} steps)", 1),
    ("max({m}, {s} steps) > 4 * mean({m}, {l} steps)", 20),
    ("mean({m}, {s} steps) > 1.2 * mean({m}, {l} steps)", 20),
    ("std({m}, {s} steps) > 2 * std({m}, {l} steps)", 20),
)
"""Six windows a metric: mean, std and max over the short length, mean, std and min over the long one."""


@dataclass(frozen=True)
class Work:
    """Columns by metric, one point a step; the two lengths; the rules that each metric has."""

    columns: Mapping[str, Array]
    short: int
    long: int
    rules: tuple[Rule, ...] = FIVE

    @classmethod
    def made(
        cls,
        steps: int,
        metrics: int = 10,
        short: int = 500,
        long: int = 5000,
        rules: tuple[Rule, ...] = FIVE,
        spike: int | None = None,
        healthy: bool = False,
        seed: int = 0,
    ) -> Work:
        """Noise about 1. In a run that is not healthy every third metric has a spike, by default at 8 tenths of the run, at 9 tenths a stretch of a
        higher level, and near the end a point that is far too low."""
        chance = np.random.default_rng(seed)
        columns = {f"m{i}": np.exp(0.1 * chance.standard_normal(steps)) for i in range(metrics)}
        for column in [] if healthy else list(columns.values())[::3]:
            column[steps * 8 // 10 if spike is None else spike] *= 5
            column[steps * 9 // 10 : steps * 9 // 10 + short] *= 1.5
            column[steps * 98 // 100] *= 0.1
        return cls(columns, short, long, rules)

    @property
    def steps(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def spans(self) -> tuple[int, ...]:
        return tuple(span for _, span in self.rules)

    def first(self, steps: int) -> Work:
        return replace(self, columns={name: column[:steps] for name, column in self.columns.items()})

    def policy(self) -> LoadedPolicy:
        lines = ["nonfinite off"]
        for m in self.columns:
            for n, (condition, span) in enumerate(self.rules):
                held = f" for {span} steps" if span > 1 else ""
                said = condition.format(m=m, s=self.short, l=self.long)
                lines.append(f"rule {m}_{n} {{ when {said}{held} -> yellow }}")
        return load("work", text="\n".join(lines))

    def values(self) -> list[dict[str, float]]:
        """What a training loop would log, step by step."""
        names = list(self.columns)
        return [dict(zip(names, values)) for values in np.column_stack(list(self.columns.values())).tolist()]

    def rows(self) -> list[Row]:
        return [Row(step, values) for step, values in enumerate(self.values())]

    def changes(self, transitions: list[Transition]) -> list[Change]:
        """Those of transitions, in order of rule and step."""
        place = {name: i for i, name in enumerate(self.columns)}
        found = []
        for one in transitions:
            metric, _, n = one.rule.rpartition("_")
            found.append((place[metric] * len(self.rules) + int(n), one.step, bool(one.to)))
        return sorted(found)


def conditions(x: Array, short: Mapping[str, Array], long: Mapping[str, Array]) -> list[Array]:
    """What the five rules of a metric find, from the statistics of its two windows: columns or numbers."""
    return [
        x > short["mean"] + 6 * short["std"],
        long["min"] < 0.3 * short["mean"],
        short["max"] > 4 * long["mean"],
        short["mean"] > 1.2 * long["mean"],
        short["std"] > 2 * long["std"],
    ]


def changes_of(rule: int, true: Array, span: int) -> list[Change]:
    """Where a rule goes off, its condition having been true for a span, and comes back, it having been false for one."""
    edges = np.nonzero(np.diff(true))[0] + 1
    begins, ends = np.concatenate([[0], edges]), np.concatenate([edges, [len(true)]])
    found, is_off = [], False
    for begin in begins[ends - begins >= span].tolist():
        if bool(true[begin]) != is_off:
            is_off = not is_off
            found.append((rule, begin + span - 1, is_off))
    return found


class Watched:
    """The same for one who sees a step at a time."""

    def __init__(self, metrics: int, spans: tuple[int, ...]) -> None:
        self._spans = spans
        self._changes: list[Change] = []
        self._off = [False] * (metrics * len(spans))
        self._count = [0] * len(self._off)

    def see(self, metric: int, step: int, true: list[bool]) -> None:
        rule = metric * len(self._spans)
        for value, span in zip(true, self._spans):
            if value == self._off[rule]:
                self._count[rule] = 0
            else:
                self._count[rule] += 1
                if self._count[rule] >= span:
                    self._off[rule] = not self._off[rule]
                    self._count[rule] = 0
                    self._changes.append((rule, step, self._off[rule]))
            rule += 1

    def taken(self) -> list[Change]:
        """What has been found since the last time."""
        found, self._changes = self._changes, []
        return found
