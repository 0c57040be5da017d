"""Random rules over windows, and runs in which each metric has a point at every row: on data that is hard to add up."""

from __future__ import annotations

import math
import random
from fractions import Fraction

from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl.policies.policy import LoadedPolicy, load

SHAPES = ["plain", "noise on a level", "level steps", "spikes", "gaps of NaN", "one inf", "constant", "constant pieces",
          "few values", "tiny", "huge", "about zero"]  # fmt: skip


def value(shape: str, step: int, chance: random.Random) -> float:
    noise = chance.gauss(0, 1)
    if shape == "noise on a level":
        return 1e8 + 1e-3 * noise
    if shape == "level steps":
        return (1e8 if step % 160 < 80 else 3e8) + noise
    if shape == "spikes":
        return chance.choice([1e12, -1e20]) if chance.random() < 0.01 else 1 + 0.1 * noise
    if shape == "gaps of NaN":
        return math.nan if step % 90 < 30 or chance.random() < 0.1 else noise
    if shape == "one inf":
        return math.inf if step == 200 else noise
    if shape == "constant":
        return 0.1
    if shape == "constant pieces":
        return 0.1 * (1 + step // 50)
    if shape == "few values":
        return chance.choice([0.1, 0.3, -0.1])
    if shape == "tiny":
        return 1e-300 * noise
    if shape == "huge":
        return 1e300 * noise
    if shape == "about zero":
        return chance.choice([0.0, -0.0, 0.1, -0.1])
    return 1 + 0.1 * noise


def number(chance: random.Random, metric: str) -> str:
    window = f"{chance.choice([1, 2, 3, 7, 16, 50])} {chance.choice(['steps', 'samples'])}"
    function = chance.choice(["mean", "std", "var", "sum", "min", "max"])
    once = f"{function}({metric}, {window})"
    return chance.choice(
        [once, once, metric, f"{chance.choice([0.5, 2, 1.1])} * {once}", f"{once} + 2 * std({metric}, 9 steps)",
         f"{metric} - mean({metric}, {window})", f"{metric} / mean({metric}, {window})", f"-{once}"]
    )  # fmt: skip


def tie(chance: random.Random, values: list[float]) -> tuple[str, float]:
    """A function, and a number that it comes to within a rounding at some row."""
    length, end = chance.choice([2, 3, 7, 16]), chance.randint(60, len(values))
    window = [Fraction(x) for x in values[end - length : end] if math.isfinite(x)] or [Fraction(0)]
    mean = sum(window) / len(window)
    variance = sum((x - mean) ** 2 for x in window) / max(1, len(window) - 1)
    return chance.choice(
        [(f"mean(x, {length} samples)", float(mean)), (f"sum(x, {length} samples)", float(sum(window))),
         (f"std(x, {length} samples)", math.sqrt(min(variance, Fraction(1e300)))), (f"max(x, {length} samples)", float(max(window)))]
    )  # fmt: skip


def steady_case(seed: int) -> tuple[LoadedPolicy, list[Row | Rewind]]:
    chance = random.Random(seed)
    shapes = [SHAPES[seed % len(SHAPES)], chance.choice(SHAPES)]
    stride, late = chance.choice([1, 1, 2, 5]), chance.choice([0, 0, 13])
    rows: list[Row | Rewind] = []
    for i in range(250):
        values = {"x": value(shapes[0], i, chance)}
        if i >= late:
            values["y"] = value(shapes[1], i, chance)
        rows.append(Row(3 + stride * i, values, 10.0 * i))
    x = [row.values["x"] for row in rows if isinstance(row, Row)]
    lines = ["nonfinite off"]
    for n in range(6):
        metric = chance.choice("xxy")
        left, right = number(chance, metric), number(chance, chance.choice([metric, metric, "x"]))
        if chance.random() < 0.4:
            left, at = tie(chance, x)
            right = f"{at!r}"
        span = chance.choice(["", "", " for 3 steps", " for 2 of 4 samples"])
        lines.append(
            f"rule r{n} {{ when {left} {chance.choice(['>', '<', '>=', '<=', '==', '!='])} {right}{span} -> red }}"
        )
    return load("p", text="\n".join(lines)), rows
