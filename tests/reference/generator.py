"""Random policies over random rows, deterministic by seed: input for differential tests."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from .series import Shape, random_rows, random_shape

LEVELS = ("yellow", "orange", "red")


class _Writer:
    """Writes the text of one policy that fits a shape."""

    def __init__(self, rng: random.Random, shape: Shape) -> None:
        self.rng, self.shape = rng, shape
        self.lines: list[str] = []
        self.events: list[str] = []
        self.phases: list[str] = []
        self.lets: dict[str, str] = {}  # name -> the metric that paces it
        self.numbers: list[str] = []  # number params
        self.lengths: list[str] = []  # params in steps
        self.variable: str | None = None
        self.usual_allowed = True  # not in lets and phases without `unless`
        self.family_let = False

    # ------------------------------------------------------------ small things

    def pick(self, *options: Any) -> Any:
        return self.rng.choice(options)

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    @property
    def stride(self) -> float:
        return self.shape.stride or 4

    def metric(self) -> str:
        if self.variable and self.chance(0.7):
            return self.variable
        names = ["loss", "grad_norm", "val_loss", "loss_scale"]
        return self.rng.choices(names, [4, 4, 2, 2])[0]

    def subject(self) -> str:
        """A metric or a let."""
        return self.pick(*self.lets) if self.lets and self.chance(0.25) else self.metric()

    def gap(self, name: str) -> float:
        """Rows between two points of it."""
        if name == self.variable:
            return 1.0
        return self.shape.cadence.get(self.lets.get(name, name), 1.0)

    def level(self, name: str) -> float:
        return 2.0 if name == self.variable else self.shape.level.get(name, 1.0)

    def steps(self, rows: float) -> str:
        n = max(1, round(rows * self.stride))
        return f"{n} step" if n == 1 else f"{n} steps"

    def window(self, name: str, low: int = 2, high: int = 14, samples: bool = True) -> str:
        """A window of some points of that stream."""
        points = self.rng.randint(low, high)
        kind = self.rng.random()
        if samples and kind < 0.25:
            return f"{points} samples"
        if self.shape.timed and samples and kind < 0.45:
            return f"{max(1, round(points * self.gap(name)))} min"
        if self.lengths and kind < 0.5:
            return str(self.pick(*self.lengths))
        return self.steps(points * self.gap(name))

    def span(self) -> str:
        kind = self.rng.random()
        if kind < 0.3:
            return f"{self.rng.randint(1, 8)} samples"
        if kind < 0.45:
            n = self.rng.randint(2, 9)
            return f"{self.rng.randint(1, n)} of {n} samples"
        if kind < 0.55:
            return f"{self.rng.randint(1, 6)} samples and {self.steps(self.rng.randint(1, 12))}"
        if kind < 0.65 and self.shape.timed:
            return f"{self.rng.randint(1, 10)} min"
        if kind < 0.7 and self.lengths:
            return self.pick(*self.lengths)  # type: ignore[no-any-return]
        return self.steps(self.rng.randint(1, 12))

    def threshold(self, name: str) -> str:
        value = self.level(name) * self.pick(0.5, 0.75, 1.0, 1.0, 1.25, 1.5, 2.0, 3.0)
        if name in self.lets:
            value = self.pick(0.0, 0.25, 0.5, 1.0, 2.0)
        return f"{value:g}"

    def comparison(self) -> str:
        return self.rng.choices([">", ">=", "<", "<=", "==", "!="], [8, 5, 6, 4, 1, 0.3])[0]

    # ------------------------------------------------------------ numbers

    def usual(self, name: str, function: str = "usual") -> str:
        unless = ""
        if self.events and (not self.usual_allowed or self.chance(0.2)):
            unless = f", unless: {self.pick(*self.events)}"
        elif not self.usual_allowed or self.chance(0.08):
            unless = f", unless: {self.metric()} > {self.threshold('loss')}"
        return f"{function}({name}, {self.window(name, 5, 14)}{unless})"

    def baseline(self, name: str, bare: bool = False) -> str:
        origin = ""
        kind = self.rng.random()
        if self.events and kind < 0.12:
            origin = f", from: {self.pick(*self.events)}"
        window = self.window(name, 2, 16)
        if kind > 0.9:
            unit = "steps" if "step" in window else "samples" if "samples" in window else ""
            if unit:
                origin = f", from: {self.rng.randint(1, 10) * (self.shape.stride or 1)} {unit}"
        by = ", by: median" if self.chance(0.15) else ""
        head = "" if bare else f"{name}, "
        if bare and not origin and not by and self.chance(0.2):
            return f"baseline({max(1, round(5 * self.stride))})"
        return f"baseline({head}{window}{origin}{by})"

    def statistic(self, name: str) -> str:
        """A function of one stream on the stream's own scale."""
        w = self.window
        options = [
            lambda: f"{self.pick('mean', 'median', 'min', 'max')}({name}, {w(name)})",
            lambda: f"ema({name}, {w(name, samples=False)})",
            lambda: f"quantile({name}, {self.pick('0.1', '0.25', '0.5', '90%')}, {w(name, 3)})",
            lambda: f"{self.pick('lowest', 'highest')}({name})",
            lambda: self.baseline(name),
            lambda: self.usual(name),
            lambda: f"({name} before {self.pick(self.steps(self.rng.randint(1, 12)), '2 samples', '4 samples')})",
            lambda: f"(mean({name}, {w(name)}) before {self.steps(self.rng.randint(1, 12))})",
        ]
        if self.events:
            event = self.pick(*self.events)
            options += [
                lambda: f"({name} {self.pick('before', 'at')} {event})",
                lambda: f"(mean({name}, {w(name)}) {self.pick('before', 'at')} {event})",
            ]
        if self.phases:
            options.append(lambda: f"({name} at end of {self.pick(*self.phases)})")
        return self.rng.choice(options)()

    def scatter(self, name: str) -> str:
        """A function of one stream on some other scale."""
        w = self.window
        options = [
            lambda: f"{self.pick('std', 'var', 'cv')}({name}, {w(name, 3)})",
            lambda: f"mad({name}, {w(name, 5)})",
            lambda: f"{self.pick('slope', 'resid_std')}({name}, {w(name, 3)})",
            lambda: f"delta({name})",
            lambda: f"{self.pick('delta', 'growth')}({name}, {w(name, 1, 8)})",
            lambda: f"zscore({name}, {w(name, 5)})",
            lambda: self.usual(name, "noise"),
            lambda: f"{self.pick('count', 'sum')}({name}, {w(name)})",
            lambda: f"corr({name}, {self.metric()}, {w(name, 3)})",
            lambda: f"abs({name} - {self.statistic(name)})",
            lambda: f"log({name})",
            lambda: f"sqrt({name} / {self.threshold('loss')})",
        ]
        return self.rng.choice(options)()

    def number(self, name: str) -> str:
        """Any numeric expression about that stream."""
        kind = self.rng.random()
        if kind < 0.5:
            return self.statistic(name)
        if kind < 0.7:
            return self.scatter(name)
        other = self.subject()
        if kind < 0.8:
            return f"({name} {self.pick('+', '-', '*', '/')} {self.statistic(other)})"
        if kind < 0.88:
            return f"{self.pick('greatest', 'least')}({name}, {self.statistic(name)})"
        if kind < 0.94:
            inner = f"{name} {self.pick('-', '/', '+')} {other}"
            return f"{self.pick('mean', 'max', 'median', 'std')}({inner}, {self.window(name, 3)})"
        return f"clamp({name}, 0.5, {self.threshold('loss')})"

    # ------------------------------------------------------------ conditions

    def condition(self, depth: int = 0) -> str:
        kind = self.rng.random()
        if depth < 2 and kind < 0.3:
            joint = self.pick(" and ", " and ", " or ")
            return f"({joint.join(self.condition(depth + 1) for _ in range(2))})"
        if depth < 2 and kind < 0.34:
            return f"not ({self.condition(depth + 1)})"
        if depth < 2 and kind < 0.39:
            return f"({self.condition(depth + 1)} and not surely({self.condition(2)}))"
        if depth < 2 and kind < 0.43:
            return f"2 of ({', '.join(self.condition(2) for _ in range(3))})"
        if depth < 2 and kind < 0.47:
            return f"({self.condition(2)} for {self.span()})"
        if depth < 2 and kind < 0.51:
            return f"({self.then()})"
        return self.simple()

    def then(self) -> str:
        first = self.pick(*self.events) if self.events and self.chance(0.7) else self.simple()
        no = "no " if self.chance(0.5) else ""
        second = self.pick(*self.events) if self.events and self.chance(0.2) else self.simple()
        time = f"{self.rng.randint(1, 8)} min"
        within = time if self.shape.timed and self.chance(0.2) else self.steps(self.rng.randint(1, 15))
        return f"{first} then {no}{second} within {within}"

    def scaled(self, text: str) -> str:
        factor = self.pick(*self.numbers) if self.numbers and self.chance(0.4) else None
        return f"{factor or self.pick(0.5, 0.7, 0.8, 1.0, 1.2, 1.5, 2)} * {text}"

    def simple(self) -> str:
        """One comparison or test."""
        name = self.subject()
        metric = self.metric()
        op = self.comparison()
        w = self.window
        options = [
            (4, lambda: f"{name} {op} {self.threshold(name)}"),
            (2, lambda: f"{name} {op} {self.scaled(self.baseline(name, bare=True))}"),
            (3, lambda: f"{name} {op} {self.scaled(self.statistic(name))}"),
            (2, lambda: f"{name} {op} {self.scaled(self.usual(name))}"),
            (1, lambda: f"{name} > {self.usual(name)} + {self.pick(2, 3, 6)} * {self.usual(name, 'noise')}"),
            (3, lambda: f"{self.number(name)} {op} {self.number(self.subject())}"),
            (2, lambda: f"{self.scatter(name)} {op} {self.pick('0', '0.25', '0.5', '1', '2', '10%')}"),
            (1, lambda: f"{self.pick('0', '0.5', '1')} < {name} {self.pick('<', '<=')} {self.threshold(name)}"),
            (1, lambda: f"{metric} is {self.pick('', 'not ')}{self.pick('nan', 'inf', 'finite')}"),
            (1, lambda: f"missing {metric} for {self.steps(self.rng.randint(1, 12))}"),
            (1, lambda: f"{self.pick('rising', 'falling', 'flat')}({name}, {w(name, 8, 20)})"),
            (0.5, lambda: f"flat({name}, {w(name, 8, 20)}, tol: {self.pick('5%', '20%')})"),
            (1, lambda: f"monotone_{self.pick('up', 'down')}({name}, {self.rng.randint(2, 4)} samples)"),
            (2, lambda: f"fraction({name} {op} {self.threshold(name)}, {w(name)}) > {self.pick('30%', '50%', '0.6')}"),
            (0.5, lambda: f"step {self.pick('>', '<=')} {self.some_step()}"),
            (0.5, lambda: f"count({name}) {self.pick('>', '<=')} {self.rng.randint(3, 20)}"),
            (0.5, lambda: self.at_step(name)),
        ]
        if self.shape.timed:
            options.append((0.3, lambda: f"elapsed > {self.rng.randint(5, 60)} min"))
        if self.events:
            event = self.pick(*self.events)
            n = self.rng.randint(1, 3)
            options += [
                (2, lambda: event),
                (1, lambda: f"onsets({event}, {self.steps(self.rng.randint(4, 40))}) {op} {n}"),
                (1, lambda: f"since({event}) {op} {self.steps(self.rng.randint(1, 20))}"),
                (0.5, lambda: f"interval({event}) {op} {self.steps(self.rng.randint(2, 20))}"),
                (0.3, lambda: f"mean(interval({event}), 2 samples) < {self.steps(self.rng.randint(4, 30))}"),
            ]
        if self.phases:
            options.append((0.7, lambda: self.pick(*self.phases)))
        if self.shape.members and not self.variable:
            options.append((8, self.family))
        write: Callable[[], Any] = self.rng.choices([o[1] for o in options], [o[0] for o in options])[0]
        return str(write())

    def some_step(self) -> int:
        return self.shape.start + round(self.rng.randint(1, self.shape.count) * self.stride)

    def at_step(self, name: str) -> str:
        """Compared only once the step has been reached: what it is worth before is a matter of reading."""
        step = self.some_step()
        return f"(step >= {step} and {name} {self.comparison()} {self.scaled(f'({name} at step {step})')})"

    def family(self) -> str:
        """A quantifier over act/layer_*."""
        f = "act/layer_*"
        if self.family_let and self.chance(0.3):
            f = "rel/layer_*"
        op = self.pick(">", ">=", "<")
        inner = self.pick(
            f"{f} {op} {self.pick(1.5, 2, 2.5, 3, 4)}",
            f"{f} {op} {self.pick(0.8, 1.2, 2)} * baseline({f}, {self.window('loss', 3, 10)})",
            f"{f} {op} {self.pick(0.8, 1.2, 2)} * usual({f}, {self.window('loss', 5, 10)}"
            f"{'' if self.usual_allowed else ', unless: loss > 4'})",
            f"mean({f}, {self.window('loss')}) {op} {self.pick(1.5, 2, 3)}",
        )
        span = f" for {self.span()}" if self.chance(0.3) else ""
        number = f"{self.pick('max', 'min', 'mean', 'median', 'sum')}({f})"
        return self.pick(  # type: ignore[no-any-return]
            f"{self.pick('any', 'all')}({inner}{span})",
            f"count({inner}{span}) >= {self.pick(1, 2)}",
            f"{number} {op} {self.pick(1.5, 2, 3, 6)}",
            f"mean({number}, {self.window('loss')}) {op} {self.pick(1.5, 2, 3)}",
            f"max({f} / mean({f}, {self.window('loss', 3)})) > {self.pick(1.25, 1.5, 2)}",
            f"share(act/layer_{{0..1}}, of: act/layer_*) {op} {self.pick(0.3, 0.5, 0.7)}",
        )

    # ------------------------------------------------------------ statements

    def declarations(self) -> None:
        if self.chance(0.6):
            self.lines.append(self.pick("nonfinite off", "nonfinite off", "nonfinite -> red", "nonfinite -> yellow"))
        for name, gap in self.shape.cadence.items():
            if "/" in name or not self.chance(0.15):
                continue
            logged = self.pick(name, f"train/{name}")
            self.shape.logged[name] = logged
            options = ""
            if self.chance(0.5):
                options += f" every {self.steps(gap)}"
            if self.chance(0.3):
                options += f" stale after {self.steps(gap * self.pick(1, 2, 4))}"
            if self.chance(0.2):
                options += " allow nonfinite"
            if self.chance(0.2):
                options += f" reduce {self.pick('last', 'mean', 'max', 'min')}"
            self.lines.append(f'metric {name} = "{name}", "train/{name}"{options}')
        if self.chance(0.2):
            self.lines.append("param k = 1.5 in 1.1 .. 10")
            self.numbers.append("k")
        if self.chance(0.2):
            self.lines.append(f"param w = {self.steps(self.rng.randint(5, 14))}")
            self.lengths.append("w")

    def let(self, n: int) -> None:
        self.usual_allowed = False
        name = f"let{n}"
        kind = self.rng.random()
        if kind < 0.3:
            pace = self.pick(" on val_loss", "")
            mean = f"mean(loss, {self.window('loss')})"
            self.lines.append(f"let {name} = val_loss - {self.pick('loss', mean)}{pace}")
            metric = "val_loss"
        elif kind < 0.5:
            self.lines.append(f"let {name} = loss / grad_norm{self.pick('', ' on val_loss', ' on grad_norm')}")
            metric = "val_loss" if self.lines[-1].endswith("val_loss") else "loss"
        else:
            metric = self.metric()
            text = self.number(metric)
            self.lines.append(f"let {name} = {text}")
        self.lets[name] = metric
        self.usual_allowed = True

    def event(self, n: int) -> None:
        span = f" for {self.span()}" if self.chance(0.35) else ""
        apart = f" apart {self.steps(self.rng.randint(1, 15))}" if self.chance(0.3) else ""
        self.lines.append(f"event ev{n} = {self.condition()}{span}{apart}")
        self.events.append(f"ev{n}")

    def phase(self, n: int) -> None:
        self.usual_allowed = False
        step = self.some_step()
        text = self.pick(
            f"step < {step}",
            f"step >= {step}",
            f"{step} <= step < {step + round(30 * self.stride)}",
            f"{self.metric()} {self.comparison()} {self.threshold('loss')}",
        )
        self.lines.append(f"phase ph{n} = {text}")
        self.phases.append(f"ph{n}")
        self.usual_allowed = True

    def when(self) -> str:
        kind = self.rng.random()
        condition = self.then() if kind < 0.05 else self.condition()
        text = f"when {condition}"
        if self.chance(0.6):
            text += f" for {self.span()}"
        if self.chance(0.12):
            text += f" on {self.pick('loss', 'val_loss', 'grad_norm')}"
        first = self.rng.randint(0, 2)
        text += f" -> {LEVELS[first]}"
        unit = self.pick("samples", "steps", "min") if self.shape.timed else self.pick("samples", "steps")
        after = 0
        for level in LEVELS[first + 1 :]:
            if self.chance(0.35):
                after += self.rng.randint(1, 12)
                length = self.steps(after) if unit == "steps" else f"{after} {unit}"
                text += f" -> {level} after {length}"
        return text

    def rule(self, n: int) -> None:
        if not self.shape.members and self.chance(0.12):
            self.lines.append(self.when())
            return
        head = f"rule r{n}"
        if self.phases and self.chance(0.35):
            head += f" in phase {self.pick(*self.phases)}"
        if self.shape.members and self.chance(0.45):
            head += " each m in act/layer_*"
            self.variable = "m"
        body = [self.when() for _ in range(self.pick(1, 1, 2))]
        if self.chance(0.35):
            if self.chance(0.5):
                span = f" for {self.span()}" if self.chance(0.5) else ""
                body.append(f"clear when {self.condition(1)}{span}")
            else:
                body.append(f"clear for {self.steps(self.rng.randint(1, 14))}")
        if self.chance(0.2):
            body.append("unknown reset")
        self.variable = None
        self.lines += [head + " {", *("  " + line for line in body), "}"]


def random_case(seed: int) -> dict[str, Any]:
    """`{policy, rows}` of that seed: one to three rules over a few dozen to two hundred steps."""
    rng = random.Random(f"vitals reference {seed}")
    shape = random_shape(rng)
    writer = _Writer(rng, shape)
    writer.declarations()
    if rng.random() < 0.25:
        writer.phase(0)
    for n in range(rng.choice([0, 0, 1])):
        writer.let(n)
    for n in range(rng.choice([0, 1, 1, 2])):
        writer.event(n)
    if rng.random() < 0.3:
        writer.let(1)
    if shape.members and rng.random() < 0.4:
        writer.family_let = True
        writer.lines.append(f"let rel/layer_* = act/layer_* / mean(act/layer_*, {writer.window('loss', 3)})")
    for n in range(rng.choice([1, 1, 2, 3])):
        writer.rule(n)
    if shape.timed and not shape.rewinds and rng.random() < 0.15:
        shape.stall = True
        writer.lines.append(f"rule stuck {{ when stalled for {rng.choice([5, 10, 20])} min -> orange }}")
    return {"policy": "\n".join(writer.lines) + "\n", "rows": random_rows(rng, shape)}
