"""The curves by name: each found by being in the folder `families`."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

from vitalsdsl.generate.draft import Draft
from vitalsdsl.generate.run import HEALTHY, Run, Truth
from vitalsdsl.ground.errors import UsageError
from vitalsdsl.language.rules import Level

Span = tuple[int, int] | None
"""The first and last step of an incident."""


@dataclass(frozen=True)
class Curve:
    """A curve that can be made: a function that does something to a healthy draft and says from when to when.

    `kind` is the incident in words, "healthy" for none; `level` is what a good policy should reach, `most` what is not
    too severe; `shows` are the metrics in which it can be seen; `length` is its length in steps where none is asked for.
    """

    name: str
    draw: Callable[..., Span]
    kind: str
    level: Level
    most: Level
    shows: tuple[str, ...]
    length: int

    @property
    def text(self) -> str:
        """Its formula and source."""
        return inspect.getdoc(self.draw) or ""

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters that it takes beside seed, length, stride and noise, with the values taken where none is given."""
        found = list(inspect.signature(self.draw).parameters.values())[1:]
        return {parameter.name: parameter.default for parameter in found}


_curves: dict[str, Curve] = {}


def curve(
    kind: str = HEALTHY,
    level: Level = Level.GREEN,
    *,
    most: Level | None = None,
    shows: tuple[str, ...] = (),
    length: int = 6000,
) -> Callable[[Callable[..., Span]], Callable[..., Span]]:
    """Make a function a curve under its own name. A new curve is a function in a file of `families`, and nothing else.

    `most` is `level` where it is not said, and red for an orange incident: whoever rolls back a run that is lost does
    no harm.
    """
    if most is None:
        most = Level.RED if level is Level.ORANGE else level

    def named(draw: Callable[..., Span]) -> Callable[..., Span]:
        _curves[draw.__name__] = Curve(draw.__name__, draw, kind, level, most, shows, length)
        return draw

    return named


def curves() -> dict[str, Curve]:
    """All curves by name.

    >>> curves()["nan_at"].level.word
    'orange'
    >>> curves()["spike_benign"].parameters
    {'height': 2.0, 'recovery': 50.0, 'onset': None}
    """
    package = importlib.import_module("vitalsdsl.generate.families")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(_curves.items()))


def make(
    name: str,
    *,
    seed: int = 0,
    length: int | None = None,
    stride: int = 1,
    noise: float | None = None,
    **parameters: Any,
) -> Run:
    """A run of a curve: the same for the same arguments, on every machine of one numpy release.

    `length` is in steps. Of them those are logged that `stride` divides. `noise` is the standard deviation of the
    loss, in nats (of curves that scatter in proportion, a share); where it is not given, the seed draws it. `parameters`
    are the curve's own. Raises UsageError for a curve or parameter that there is not, and a run too short for its incident.

    >>> run = make("nan_at", seed=3, length=2000, stride=50, onset=1000)
    >>> run.truth.onset, run.truth.end, len(run.steps)
    (1000, 1999, 40)
    >>> make("nan_att")
    Traceback (most recent call last):
    vitalsdsl.ground.errors.UsageError: there is no curve `nan_att`: did you mean `nan_at`?
    """
    known = curves()
    if name not in known:
        near = get_close_matches(name, known, 1)
        raise UsageError(f"there is no curve `{name}`" + (f": did you mean `{near[0]}`?" if near else ""))
    made = known[name]
    unknown = sorted(parameters.keys() - made.parameters.keys())
    if unknown:
        takes = ", ".join(made.parameters) or "no parameters of its own"
        raise UsageError(f"the curve `{name}` has no parameter `{unknown[0]}`: it takes {takes}")
    steps = made.length if length is None else length
    if steps < 1 or stride < 1:
        raise UsageError("`length` and `stride` are 1 or more steps")
    draft = Draft(seed, steps, noise)
    span = made.draw(draft, **parameters)
    onset, end = span if span is not None else (None, None)
    truth = Truth(made.kind, made.level, made.most, made.shows, onset, end)
    series = {metric: np.ma.array(column, dtype=np.float64) for metric, column in draft.series.items()}
    run = Run(name, seed, 1, draft.steps, draft.times(), series, truth, draft.rewinds)
    return run.thinned(stride)
