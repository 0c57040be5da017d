"""Random policies whose conditions turn often, over random runs: what generated code decides beside what the graph does."""

from __future__ import annotations

import json
import math
import random

from vitalsdsl.ground.errors import PolicyError
from vitalsdsl.ground.points import Row
from vitalsdsl.policies.policy import LoadedPolicy, load
from vitalsdsl.streaming.stream import Stream

LENGTHS = ("5 steps", "20 steps", "60 steps", "300 steps", "12 samples", "40 samples", "100 samples", "5 min")
SPANS = ("", "", " for 3 steps", " for 10 steps", " for 4 samples", " for 3 of 8 samples",
         " for 25 steps and 5 samples", " for 3 min")  # fmt: skip
LADDERS = ("yellow", "orange", "yellow -> orange after 10 steps",
           "yellow -> orange after 5 samples -> red after 40 steps")  # fmt: skip
NASTY = (0.0, -0.0, 1.0, 1e308, -1e308, 1e-320, math.inf, -math.inf, math.nan, 2.0, 3.0)


class _Author:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def one_of(self, *words: object) -> str:
        return str(self._chance.choice(words))

    def number(self, depth: int = 0) -> str:
        x, y, length = self.one_of("x", "x", "y", "z"), self.one_of("x", "y", "z"), self.one_of(*LENGTHS)
        kinds = [
            x,
            *[f"{self.one_of('mean', 'std', 'max', 'min', 'var')}({x}, {length})"] * 3,
            f"{self.one_of('median', 'mad', 'zscore')}({x}, {length})",
            f"quantile({x}, {self.one_of(10, 50, 90)}%, {length})",
            f"ema({x}, {self.one_of('5 steps', '30 steps')})",
            f"slope({x}, {self.one_of('120 steps', '150 samples', '30 steps')})",
            f"mean({x} {self.one_of(*'+-*/')} {y}, {length})",
            f"{self.one_of('std', 'max', 'median')}(abs({x} - {y}), {length})",
            f"usual({x}, {self.one_of('20 steps', '60 steps', '30 samples')})",
            f"noise({x}, {self.one_of('20 steps', '60 steps')})",
            f"baseline({x}, 30 samples)",
            self.one_of("first", "second"),
        ]
        if depth < 2:
            kinds.append(f"({self.number(depth + 1)} {self.one_of(*'+-*/')} {self.number(depth + 1)})")
        return self.one_of(*kinds)

    def condition(self, depth: int = 0) -> str:
        kind = self._chance.randrange(12)
        if kind > 7 and depth < 2:
            inner = self.condition(depth + 1)
            joined = f"({inner} {self.one_of('and', 'or')} {self.condition(depth + 1)})"
            return [joined, joined, f"not ({inner})", "turned"][kind - 8]
        right = self.number() if self._chance.random() < 0.6 else self.one_of(0, 1, -1, 2, 1e308, 0.5)
        factor = f"{self.one_of(0.5, 0.9, 1, 1.1, 2)} * " if self._chance.random() < 0.5 else ""
        return f"{self.number()} {self.one_of('>', '<', '>=', '<=')} {factor}{right}"

    def rule(self, n: int) -> str:
        body = [
            f"when {self.condition()}{self.one_of(*SPANS)} -> {self.one_of(*LADDERS)}"
            for _ in range(self._chance.choice([1, 1, 2]))
        ]
        if self._chance.random() < 0.3:
            body.append(self.one_of("clear for 6 steps", "clear for 3 samples", f"clear when {self.condition()}"))
        if self._chance.random() < 0.2:
            body.append("cooldown 15 steps")
        if self._chance.random() < 0.3:
            body.append('because "x {x:.3g} first {first:.3g} mean {mean(x, 20 steps):.3g}"')
        return f"rule r{n}{self.one_of('', '', '', ' in phase early')} {{ " + "\n  ".join(body) + " }"

    def policy(self) -> str:
        lines = [
            f"let first = {self.one_of('x - y', 'x / y', 'mean(x, 20 steps)', 'abs(x)')}",
            f"let second = {self.one_of('std(first, 30 steps)', 'first * 2', 'ema(x, 10 steps)')}",
            f"event turned = {self.one_of('x > mean(x, 20 steps)', 'x > 1 for 3 steps', 'y < min(y, 12 samples) + 0.1')}",
            "phase early = step < 400",
        ]
        return "\n".join([*lines, *(self.rule(n) for n in range(self._chance.randint(2, 6)))])


def policy(chance: random.Random) -> LoadedPolicy:
    """One that can be loaded: not all that is written makes sense."""
    while True:
        try:
            return load("close", text=_Author(chance).policy())
        except PolicyError:
            continue


def rows(chance: random.Random, count: int) -> list[Row]:
    """`x` at each step, `y` at nearly each, `z` at each seventh; some steps come at other distances."""
    kind = chance.choice(["noise", "noise", "walk", "ties", "nasty", "turns", "falls"])
    stride, uneven = chance.choice([1, 1, 1, 10, 3]), chance.choice([0.0, 0.0, 0.02, 0.3])
    step, walked, made = chance.choice([0, 5]), 0.0, list[Row]()

    def value(n: int) -> float:
        nonlocal walked
        shock = chance.gauss(0, 1)
        walked += 0.05 * shock
        plain = {
            "noise": 1 + 0.1 * shock, "walk": 1 + walked, "ties": round(1 + shock) / 2,
            "turns": 1 + 0.3 * (-1) ** n + 0.01 * shock, "falls": 1 + 5 * math.exp(-n / 100) + 0.02 * shock,
        }  # fmt: skip
        if kind == "nasty":
            return chance.choice([*NASTY, shock])
        return chance.choice([math.nan, math.inf, 1e20, -5.0]) if chance.random() < 0.01 else plain[kind]

    for n in range(count):
        step += chance.randint(1, 3 * stride) if chance.random() < uneven else stride
        values = {"x": value(n)}
        if chance.random() < 0.995:
            values["y"] = value(n)
        if n % 7 == 0:
            values["z"] = value(n)
        made.append(Row(step, values, 60.0 * step))
    return made


def told(loaded: LoadedPolicy, made: list[Row], quick: bool, saved_at: int = -1) -> list[str]:
    """The transitions of a run; the stream is saved after so many rows, and another goes on."""
    stream = Stream(loaded.policy, "run", loaded.digest, keep_all=True, quick=quick)
    found = []
    for n, row in enumerate(made):
        found += stream.push_row(row)
        if n == saved_at:
            state = json.loads(json.dumps(stream.save()))
            stream = Stream(loaded.policy, "run", loaded.digest, keep_all=True, quick=quick)
            stream.load(state)
    return [json.dumps(each.as_dict()) for each in found + stream.finish()]


def differs(seed: int, count: int) -> str:
    """What of a case differs, in words; nothing where it does not."""
    chance = random.Random(f"close calls {seed}")
    loaded, made = policy(chance), rows(chance, count)
    right = told(loaded, made, quick=False)
    for name, found in (
        ("generated code", told(loaded, made, quick=True)),
        ("generated code, saved", told(loaded, made, quick=True, saved_at=chance.randrange(count))),
    ):
        for one, other in zip([*found, "nothing"], [*right, "nothing"]):
            if one != other:
                return f"{name}: {one[:300]}, not {other[:300]}"
    return ""
