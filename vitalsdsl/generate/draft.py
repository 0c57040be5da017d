"""What a curve draws on: a healthy run of the seed, to which its incident is then done."""

from __future__ import annotations

import math
import zlib

import numpy as np
import numpy.typing as npt

from vitalsdsl.generate.run import Column, Numbers
from vitalsdsl.ground.errors import UsageError

EVALUATIONS = 500
"""Steps between evaluations: whatever the stride of the other metrics, they are logged with them."""
SECONDS = 0.5
"""That a step takes."""
START = 1_700_000_000.0
"""Wall time of step 0."""
UNIGRAM = math.log(50257)
"""Nats: the loss of a model that knows nothing, over a vocabulary of the size of GPT-2's."""
GROWTH_INTERVAL = 2000
"""Clean steps after which a loss scale doubles, as in torch's GradScaler."""


class Draft:
    """A healthy run, step by step, open to change.

    With t the step and ε noise, all numbers drawn by the seed in the ranges given:

    - `loss` = a + b (t + t0)^(-c) + σ ε, a 1.6..2.2, b 6..12, c 0.25..0.5, σ 0.01..0.05 nats (or `noise`), in half of the
      seeds AR(1) with ρ = 0.3; t0 such that it starts at the log of the vocabulary;
    - `val_loss` each 500 steps: the same curve, 0.02..0.1 nats above, a third of the noise;
    - `lr`: linear warm-up, then cosine down to a tenth of its peak;
    - `grad_norm` = g0 (1 + 2 e^(-t / w)) lognormal(0.1), g0 0.2..2, w 100..500 steps;
    - `param_norm` = p0 + k sqrt(t), p0 25..250, k = p0 / 1000;
    - `loss_scale`: 2^16, doubling each 2000 steps;
    - `tokens`: 2^19 a step.

    A run of the same seed has the same noise under each incident: each metric draws from a generator of its own.
    """

    def __init__(self, seed: int, length: int, noise: float | None) -> None:
        self.seed = seed
        self.length = length
        self.t: Numbers = np.arange(length, dtype=np.float64)
        self.steps = np.arange(length, dtype=np.int64)
        self.seconds: Numbers = np.full(length, SECONDS)
        self.jumps: Numbers = np.zeros(length)
        self.rewinds: dict[int, int] = {}
        self._times: Numbers | None = None
        draw = self.random("run")
        a, b, c = draw.uniform(1.6, 2.2), draw.uniform(6, 12), draw.uniform(0.25, 0.5)
        usual, is_correlated = draw.uniform(0.01, 0.05), draw.random() < 0.5
        g0, w = math.exp(draw.uniform(math.log(0.2), math.log(2))), draw.uniform(100, 500)
        p0, gap = math.exp(draw.uniform(math.log(25), math.log(250))), draw.uniform(0.02, 0.1)
        self.given = noise
        self.noise = self.noise_or(usual)
        start = (b / (UNIGRAM - a)) ** (1 / c)
        self.trend: Numbers = a + b * (self.t + start) ** -c
        """The loss without its noise."""
        warm_up = min(500.0, length / 10)
        cosine = 0.55 + 0.45 * np.cos(np.pi * np.clip((self.t - warm_up) / max(1.0, length - warm_up), 0, 1))
        ripple = self.correlated("loss", 0.3) if is_correlated else self.gauss("loss")
        self.series: dict[str, Numbers | Column] = {
            "loss": self.trend + self.noise * ripple,
            "val_loss": self.every(EVALUATIONS, self.trend + gap + self.noise / 3 * self.gauss("val_loss")),
            "lr": 3e-4 * np.where(self.t < warm_up, (self.t + 1) / warm_up, cosine),
            "grad_norm": g0 * (1 + 2 * np.exp(-self.t / w)) * np.exp(0.1 * self.gauss("grad_norm")),
            "param_norm": p0 + p0 / 1000 * np.sqrt(self.t),
            "loss_scale": 2.0 ** (16 + self.t // GROWTH_INTERVAL),
            "tokens": 2.0**19 * (self.t + 1),
        }

    def noise_or(self, usual: float) -> float:
        """The noise that was asked for, else this."""
        return usual if self.given is None else self.given

    def random(self, what: str) -> np.random.Generator:
        """The seed's own generator for something: what else is drawn changes nothing in it."""
        return np.random.default_rng([self.seed, zlib.crc32(what.encode())])

    def gauss(self, what: str) -> Numbers:
        """White noise of mean 0 and variance 1, a value a step."""
        return self.random(what).standard_normal(self.length)

    def correlated(self, what: str, rho: float) -> Numbers:
        """AR(1) noise of mean 0 and variance 1: x(t) = rho x(t-1) + sqrt(1 - rho²) ε."""
        ripple = self.gauss(what).tolist()
        scale, before = math.sqrt(1 - rho * rho), ripple[0]
        for at in range(1, self.length):
            before = ripple[at] = rho * before + scale * ripple[at]
        return np.array(ripple)

    def every(self, cadence: int, values: Numbers) -> Column:
        """A metric that is logged at multiples of some number of steps only."""
        return np.ma.array(values, mask=self.steps % cadence != 0)

    def middle(self) -> int:
        """A step half way, on a multiple of 500 where the run is long enough: there every stride logs a row."""
        half = self.length // 2
        return half - half % 500 if half >= 500 else half

    def onset(self, asked: int | None, room: int = 1) -> int:
        """The step at which an incident begins: the one asked for, else half way. Raises UsageError where the run is too
        short for it with `room` steps after."""
        at = self.middle() if asked is None else asked
        if not 0 <= at <= self.length - room:
            raise UsageError(f"a run of {self.length} steps has no {room} steps from step {at} on: make it longer")
        return at

    def since(self, step: float) -> Numbers:
        """How many steps ago a step was; 0 before it."""
        return np.maximum(self.t - step, 0.0)

    def from_(self, step: float) -> Numbers:
        """1 from a step on, 0 before."""
        return (self.t >= step).astype(np.float64)

    def ramp(self, start: float, over: float) -> Numbers:
        """0 before `start`, then linear up to 1 within `over` steps, and 1 from then on."""
        return np.clip((self.t - start) / over, 0.0, 1.0)

    def level(self, step: int) -> float:
        """The loss without its noise at a step, in nats."""
        return float(self.trend[step])

    def set_from(self, step: float, name: str, value: float) -> None:
        """Give a metric one value from a step on, at the points that it has."""
        column = self.series[name]
        data = np.where(self.t >= step, value, np.ma.getdata(column))
        self.series[name] = np.ma.array(data, mask=np.ma.getmaskarray(column))

    def only(self, *names: str) -> None:
        """Drop the other metrics: for runs that are no language modelling."""
        self.series = {name: self.series[name] for name in names}

    def reordered(self, rows: npt.NDArray[np.int64]) -> None:
        """Log these rows, in this order: a row may come twice, or after a later one."""
        times = self.times()
        self.steps = self.steps[rows]
        self.series = {name: column[rows] for name, column in self.series.items()}
        self._times = np.maximum.accumulate(times[rows])

    def times(self) -> Numbers:
        """Wall time of each row."""
        if self._times is not None:
            return self._times
        times: Numbers = START + np.cumsum(self.seconds) - self.seconds[0] + np.cumsum(self.jumps)
        return times
