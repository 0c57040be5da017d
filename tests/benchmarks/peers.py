"""Who has rules of its own: rtamt and expr-tracker, each on rules that both they and we can say."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from tests.benchmarks.contest import Contender
from tests.benchmarks.steps import Ours
from tests.benchmarks.work import Change, Rule, Work

# -------------------------------------------------------------------- rtamt, signal temporal logic

TEMPORAL: tuple[Rule, ...] = (
    ("{m} > 1.3", 20),
    ("max({m}, {s} steps) > 3", 1),
    ("min({m}, {s} steps) < 0.3", 1),
    ("max({m}, {l} steps) > 4", 1),
    ("min({m}, {l} steps) < 0.2", 1),
)
"""rtamt has no mean or deviation over a window: what it can say is that something held throughout, or came once."""


class _Rtamt:
    """One monitor a rule, in discrete time, online; its answer is a margin, and the rule holds where that is above 0."""

    def __init__(self, work: Work) -> None:
        import rtamt

        self._values = work.values()
        self._monitors: list[tuple[str, Any]] = []
        self._was: dict[int, bool] = {}
        short, long = work.short - 1, work.long - 1
        for m in work.columns:
            for said in (
                "historically[0:19](x - 1.3 > 0)",
                f"once[0:{short}](x - 3 > 0)",
                f"once[0:{short}](0.3 - x > 0)",
                f"once[0:{long}](x - 4 > 0)",
                f"once[0:{long}](0.2 - x > 0)",
            ):
                monitor = rtamt.StlDiscreteTimeSpecification()
                monitor.declare_var("x", "float")
                monitor.declare_var("out", "float")
                monitor.spec = f"out = {said}"
                monitor.parse()
                self._monitors.append((m, monitor))

    def fill(self, until: int) -> None:
        self.walk(0, until)

    def walk(self, begin: int, end: int) -> list[Change]:
        found = []
        for step in range(begin, end):
            values = self._values[step]
            for rule, (m, monitor) in enumerate(self._monitors):
                holds = monitor.update(step, [("x", values[m])]) > 0
                if holds and not self._was.get(rule, False):
                    found.append((rule, step, True))
                self._was[rule] = holds
        return found


RTAMT = (
    Contender("vitalsdsl, a step at a time", Ours),
    Contender("rtamt, one monitor a rule", _Rtamt, "rtamt", steps=100, finds="begins"),
)


# -------------------------------------------------------------------- expr-tracker, expressions over logged metrics


class _ExprTracker:
    """Its engine as a run has it, with all five rules a metric. Its deviation is that of the whole population, so the
    rules are given ours. It keeps no record on disk here, and tells nobody."""

    def __init__(self, work: Work) -> None:
        from expr_tracker.alerts.engine import AlertEngine
        from expr_tracker.alerts.expr import EvalContext
        from expr_tracker.history.series import MetricSeries
        from loguru import logger

        logger.remove()
        self._values = work.values()
        self._found: list[Change] = []
        self._step = 0
        self._series = MetricSeries()
        sample = {n: math.sqrt(n / (n - 1)) for n in (work.short, work.long)}
        short, long = f"[{work.short}]", f"[{work.long}]"
        texts = []
        for m in work.columns:
            s, b = f"{m}{short}", f"{m}{long}"
            texts += [
                f"{m} > mean({s}) + {6 * sample[work.short]!r} * std({s})",
                f"min({b}) < 0.3 * mean({s})",
                f"max({s}) > 4 * mean({b})",
                f"mean({s}) > 1.2 * mean({b})",
                f"{sample[work.short]!r} * std({s}) > {2 * sample[work.long]!r} * std({b})",
            ]
        series = self._series

        def told(message: Any, channels: Any = None) -> None:
            self._found.append((int(message.source.removeprefix("rule:")), self._step, True))

        def context(record: dict[str, float] | None) -> Any:
            return EvalContext(series, step=self._step, record=record)

        self._engine: Any = AlertEngine(
            SimpleNamespace(send=told),
            context,
            rules=[
                {"name": str(i), "condition": text, "for_steps": work.spans[i % len(work.rules)], "cooldown": None}
                for i, text in enumerate(texts)
            ],
        )

    def fill(self, until: int) -> None:
        for step, values in enumerate(self._values[:until]):
            self._series.add(step, float(step), values)

    def walk(self, begin: int, end: int) -> list[Change]:
        for self._step in range(begin, end):
            self._series.add(self._step, float(self._step), self._values[self._step])
            self._engine.on_step(self._values[self._step])
        found, self._found = self._found, []
        return found


EXPR_TRACKER = (
    Contender("vitalsdsl, a step at a time", Ours),
    Contender("expr-tracker", _ExprTracker, "expr_tracker", steps=25, finds="begins"),
)
