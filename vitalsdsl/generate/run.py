"""A run that was generated, and the truth about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl.language.rules import Level
from vitalsdsl.policies.policy import LoadedPolicy
from vitalsdsl.streaming.stream import Stream
from vitalsdsl.verdicts.verdict import Transition

Numbers = npt.NDArray[np.float64]
Column = np.ma.MaskedArray[Any, np.dtype[np.float64]]
"""One value a row; masked where the row has no point of this metric. NaN is a point."""

HEALTHY = "healthy"


@dataclass(frozen=True)
class Truth:
    """What is wrong with a run, or that nothing is.

    `kind` is "healthy" or the incident in words. A policy that reads one of the metrics in `shows` should reach `level`
    at or after step `onset`; `most` is the highest level that is not too severe for it. `end` is the last step of the
    incident, which may be the last of the run. Both are None in a healthy run.
    """

    kind: str
    level: Level
    most: Level
    shows: tuple[str, ...] = ()
    onset: int | None = None
    end: int | None = None

    @property
    def is_healthy(self) -> bool:
        return self.kind == HEALTHY


@dataclass(frozen=True, eq=False)
class Run:
    """A run as it is logged: rows in the order in which they come, and the truth about it.

    `steps` are those of the rows, `times` their wall time in seconds; `series` has one column a metric, as long as
    `steps`. `rewinds` says before which row the run goes back, and after which step what was logged no longer counts.
    """

    curve: str
    seed: int
    stride: int
    steps: npt.NDArray[np.int64]
    times: Numbers
    series: Mapping[str, Column]
    truth: Truth
    rewinds: Mapping[int, int] = field(default_factory=dict)

    def rows(self) -> list[Row | Rewind]:
        """The run as events for an evaluator. A row without any point is left out, as no logger writes it."""
        kept = {name: ~np.ma.getmaskarray(column) for name, column in self.series.items()}
        lists = {name: column.data.tolist() for name, column in self.series.items()}
        events: list[Row | Rewind] = []
        for row, (step, time) in enumerate(zip(self.steps.tolist(), self.times.tolist())):
            if row in self.rewinds:
                events.append(Rewind(self.rewinds[row]))
            values = {name: lists[name][row] for name, here in kept.items() if here[row]}
            if values:
                events.append(Row(step, values, time))
        return events

    def columns(self) -> dict[str, Any]:
        """The run as columns with `step` and `_time`: what `vitalsdsl.replay` and most tables take. It has no rewinds."""
        return {"step": self.steps, "_time": self.times, **self.series}

    def replay(self, policy: LoadedPolicy) -> list[Transition]:
        """The transitions that a policy gives on this run, rewinds included."""
        stream = Stream(policy.policy, f"{self.curve}-{self.seed}", policy.digest, keep_all=bool(self.rewinds))
        transitions: list[Transition] = []
        for event in self.rows():
            transitions += stream.rewind(event.step) if isinstance(event, Rewind) else stream.push_row(event)
        return transitions + stream.finish()

    def thinned(self, stride: int) -> Run:
        """The same run where only every so-manieth step was logged: the points of the steps that `stride` divides."""
        here = np.flatnonzero(self.steps % stride == 0)
        rewinds: dict[int, int] = {}
        for row, step in self.rewinds.items():
            rewinds[int(np.searchsorted(here, row))] = step
        series = {name: column[here] for name, column in self.series.items()}
        return Run(self.curve, self.seed, stride, self.steps[here], self.times[here], series, self.truth, rewinds)
