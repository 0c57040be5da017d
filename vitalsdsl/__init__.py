"""Health rules for model training, as config.

>>> import vitalsdsl as vitals
>>> policy = vitals.load("grad", text="when grad_norm > 3*baseline(500) for 20 steps -> orange")
>>> rows = [{"step": s, "grad_norm": 4.0 if s >= 500 else 1.0} for s in range(530)]
>>> [(t.step, t.rule, t.to.word, t.onset) for t in vitals.replay(policy, rows)]
[(519, 'grad_norm_orange', 'orange', 500)]
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vitalsdsl.attaching.session import Monitor, watch
    from vitalsdsl.backtesting.backtest import backtest
    from vitalsdsl.ground.diagnostic import Diagnostic, Severity
    from vitalsdsl.ground.errors import MissingExtraError, PolicyError, SourceError, StateError, UsageError, VitalsError
    from vitalsdsl.ground.points import Rewind, Row, RunInfo
    from vitalsdsl.language.rules import Level
    from vitalsdsl.policies.policy import LoadedPolicy, load
    from vitalsdsl.runs.recorded import replay
    from vitalsdsl.verdicts.verdict import Transition

__version__ = "0.1.0"

_HOME = {
    "Diagnostic": "ground.diagnostic",
    "Severity": "ground.diagnostic",
    "MissingExtraError": "ground.errors",
    "PolicyError": "ground.errors",
    "SourceError": "ground.errors",
    "StateError": "ground.errors",
    "UsageError": "ground.errors",
    "VitalsError": "ground.errors",
    "Rewind": "ground.points",
    "Row": "ground.points",
    "RunInfo": "ground.points",
    "LoadedPolicy": "policies.policy",
    "backtest": "backtesting.backtest",
    "load": "policies.policy",
    "Level": "language.rules",
    "Monitor": "attaching.session",
    "replay": "runs.recorded",
    "watch": "attaching.session",
    "Transition": "verdicts.verdict",
}
"""Each public name and its module: loaded when first used, so that `vitals check` starts without the evaluator."""

__all__ = [
    "Diagnostic",
    "Level",
    "LoadedPolicy",
    "MissingExtraError",
    "Monitor",
    "PolicyError",
    "Rewind",
    "Row",
    "RunInfo",
    "Severity",
    "SourceError",
    "StateError",
    "Transition",
    "UsageError",
    "VitalsError",
    "backtest",
    "load",
    "replay",
    "watch",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'vitalsdsl' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"vitalsdsl.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*(name for name in globals() if name.startswith("__")), *__all__])
