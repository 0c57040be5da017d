"""The work that all contenders do: five rules for each metric, over windows of a short and a long length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vitalsdsl.points import Row
from vitalsdsl.verdict import Transition

Array = Any
Change = tuple[int, int, bool]
"""A rule by its number, a step, and whether it went off there or came back."""

_RULES = (
    ("{m} > mean({m}, {s} steps) + 6 * std({m}, {s} steps)", 1),
    ("{m} < mean({m}, {l} steps) - 6 * std({m}, {l} steps)", 1),
    ("max({m}, {s} steps) > 4 * mean({m}, {l} steps)", 20),
    ("mean({m}, {s} steps) > 1.2 * mean({m}, {l} steps)", 20),
    ("std({m}, {s} steps) > 2 * std({m}, {l} steps)", 20),
)
"""What must be so, and for how many steps."""

SPANS = tuple(span for _, span in _RULES)


@dataclass(frozen=True)
class Work:
    """Columns by metric, one point a step, and the two lengths."""

    columns: Mapping[str, Array]
    short: int
    long: int

    @classmethod
    def made(cls, steps: int, metrics: int = 10, short: int = 500, long: int = 5000, seed: int = 0) -> Work:
        """Noise about 1, with a spike and a stretch of a higher level in every third metric."""
        chance = np.random.default_rng(seed)
        columns = {f"m{i}": np.exp(0.1 * chance.standard_normal(steps)) for i in range(metrics)}
        for i, column in enumerate(columns.values()):
            if i % 3 == 0:
                column[steps * 8 // 10] *= 5
                column[steps * 9 // 10 : steps * 9 // 10 + short] *= 1.5
        return cls(columns, short, long)

    @property
    def steps(self) -> int:
        return len(next(iter(self.columns.values())))

    def policy(self) -> str:
        lines = ["nonfinite off"]
        for m in self.columns:
            for n, (condition, span) in enumerate(_RULES):
                held = f" for {span} steps" if span > 1 else ""
                said = condition.format(m=m, s=self.short, l=self.long)
                lines.append(f"rule {m}_{n} {{ when {said}{held} -> yellow }}")
        return "\n".join(lines)

    def rows(self) -> list[Row]:
        names = list(self.columns)
        table = np.column_stack(list(self.columns.values())).tolist()
        return [Row(step, dict(zip(names, values))) for step, values in enumerate(table)]

    def changes(self, transitions: list[Transition]) -> list[Change]:
        """Those of transitions, in order of rule and step."""
        place = {name: i for i, name in enumerate(self.columns)}
        found = []
        for one in transitions:
            metric, _, n = one.rule.rpartition("_")
            found.append((place[metric] * len(_RULES) + int(n), one.step, bool(one.to)))
        return sorted(found)


def conditions(x: Array, short: Mapping[str, Array], long: Mapping[str, Array]) -> list[Array]:
    """What the five rules of a metric find, from the statistics of its two windows: columns or numbers."""
    return [
        x > short["mean"] + 6 * short["std"],
        x < long["mean"] - 6 * long["std"],
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

    def __init__(self, metrics: int) -> None:
        self.changes: list[Change] = []
        self._off = [False] * (metrics * len(SPANS))
        self._count = [0] * len(self._off)

    def see(self, metric: int, step: int, true: list[bool]) -> None:
        for n, (value, span) in enumerate(zip(true, SPANS)):
            rule = metric * len(SPANS) + n
            if value == self._off[rule]:
                self._count[rule] = 0
                continue
            self._count[rule] += 1
            if self._count[rule] >= span:
                self._off[rule] = not self._off[rule]
                self._count[rule] = 0
                self.changes.append((rule, step, self._off[rule]))
