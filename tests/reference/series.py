"""Random rows: metrics of different cadences with jumps, drifts, ties, gaps, NaN and ±inf, rewinds and wall times."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
ODD = ("NaN", "Infinity", "-Infinity", None)


@dataclass
class Shape:
    """What the rows of one case look like; the policy's windows are chosen to fit."""

    stride: int
    count: int
    start: int
    grid: bool
    timed: bool
    cadence: dict[str, float]  # metric -> rows between its points, on average
    level: dict[str, float]  # metric -> where it starts
    logged: dict[str, str] = field(default_factory=dict)  # metric -> the name in the rows, where it has aliases
    members: list[str] = field(default_factory=list)  # of the family act/layer_*
    odd: float = 0.0
    rewinds: int = 0
    split: float = 0.0
    stall: bool = False


def random_shape(rng: random.Random) -> Shape:
    """Half of the cases on a coarse grid, so that ties and exact thresholds occur."""
    cadence = {"loss": 1.0, "grad_norm": rng.choice([1.0, 1.0, 1.3, 2.0])}
    cadence |= {"val_loss": float(rng.choice([3, 4, 5, 8, 10])), "loss_scale": rng.choice([1.0, 2.0, 3.0])}
    level = {"loss": 3.0, "grad_norm": rng.choice([1.0, 4.0]), "val_loss": 3.25}
    level["loss_scale"] = rng.choice([65536.0, 8.0])
    shape = Shape(
        stride=rng.choice([1, 1, 1, 2, 5, 10, 0]),
        count=rng.randint(50, 190),
        start=rng.choice([0, 0, 0, 1, 7, 1000]),
        grid=rng.random() < 0.5,
        timed=rng.random() < 0.35,
        cadence=cadence,
        level=level,
        odd=rng.choice([0.0, 0.0, 0.01, 0.05]),
        rewinds=rng.choice([1, 1, 2]) if rng.random() < 0.15 else 0,
        split=rng.choice([0.0, 0.0, 0.0, 0.2]),
    )
    if rng.random() < 0.15:
        shape.members = [f"act/layer_{n}" for n in range(rng.randint(2, 4))]
        for member in shape.members:
            shape.cadence[member], shape.level[member] = 1.0, 2.0
    return shape


class _Series:
    """One metric: a level that drifts, jumps and comes back, with noise round it."""

    def __init__(self, rng: random.Random, shape: Shape, name: str) -> None:
        self.rng, self.shape = rng, shape
        self.unit = shape.level[name] / 12 if shape.level[name] > 100 else 0.25
        self.base = self.level = shape.level[name]
        self.noise = rng.choice([0.0, 0.02, 0.1, 0.3]) * self.base
        self.trend = rng.choice([0.0, 0.0, -0.004, 0.01]) * self.base
        self.jumps = rng.choice([0.0, 0.02, 0.05, 0.1])
        self.whole = name in shape.members  # each row has every member of a family
        self.left = 0  # points until an excursion ends

    def next(self) -> Any:
        rng = self.rng
        if self.left:
            self.left -= 1
            if not self.left:
                self.level = self.base
        elif rng.random() < self.jumps:
            self.level = self.base * rng.choice([0.25, 0.5, 1.5, 2.0, 3.0, 5.0])
            self.left = rng.choice([1, 2, 5, 12, 30, 1000])
            if self.left == 1000:
                self.base, self.left = self.level, 0
        self.base += self.trend
        self.level += self.trend
        if rng.random() < self.shape.odd:
            return rng.choice(ODD[:3] if self.whole else ODD)
        value = self.level + rng.gauss(0, self.noise)
        return round(value / self.unit) * self.unit if self.shape.grid else value


def random_rows(rng: random.Random, shape: Shape) -> list[Row]:
    """Rows of one run, its rewinds included."""
    series = {name: _Series(rng, shape, name) for name in shape.level}
    rows: list[Row] = []
    step, time = shape.start, 0.0
    cuts = sorted(rng.sample(range(shape.count // 3, shape.count), shape.rewinds))
    for n in range(shape.count):
        if n in cuts:
            step = _rewind(rng, rows, step, shape)
        row: Row = {"step": step}
        if shape.timed:
            time += rng.choice([30.0, 60.0, 60.0, 90.0])
            if rng.random() < 0.03 and shape.stall:
                time += rng.choice([600.0, 1200.0, 1800.0])
            row["_time"] = time
        for name, one in series.items():
            every = shape.cadence[name]
            due = n % int(every) == 0 if every >= 3 else rng.random() < 1 / every
            if due:
                row[shape.logged.get(name, name)] = one.next()
        if rng.random() >= 0.97 and len(row) > 2:  # a gap
            row = {k: v for k, v in row.items() if k in ("step", "_time")}
        rows += _split(rng, row, shape)
        step += shape.stride or rng.choice([1, 1, 2, 3, 7, 20])
    return rows


def _split(rng: random.Random, row: Row, shape: Shape) -> list[Row]:
    """Two consecutive rows of one step."""
    if rng.random() >= shape.split:
        return [row]
    head = {k: v for k, v in row.items() if k in ("step", "_time")}
    names = [k for k in row if k not in head]
    cut = rng.randint(0, len(names))
    first, second = head | {k: row[k] for k in names[:cut]}, head | {k: row[k] for k in names[cut:]}
    for name in names[:cut]:
        if isinstance(row[name], float) and rng.random() < 0.3:  # two points of one metric at one step
            second[name] = row[name] * rng.choice([0.5, 1.0, 2.0])
    return [first, second]


def _rewind(rng: random.Random, rows: list[Row], step: int, shape: Shape) -> int:
    """A rewind to some step, seen or not, or (rarely) to before the first; the next step after it."""
    back = rng.choice([0, 1, 2, 5, 10, 20, 40]) * max(shape.stride, 1)
    k = max(step - back - 1, shape.start - 1)
    rows.append({"rewind": k})
    seen = max((r["step"] for r in rows if "step" in r), default=shape.start)
    return max(min(k, seen) + 1, shape.start) if k < seen else step
