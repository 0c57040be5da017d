"""vitalsdsl for training loops in torch: what a training measures of itself, and acting on what rules ask for.

In a plain loop, with checkpoints that are known to be healthy:

    data = Batches(loader)
    guard = Guard("llm.vitals", "runs/a", model=model, optimizer=optimizer, data=data, allow=("pause", "rollback"))
    for step in guard.steps(10_000):
        ...
        guard.step({"loss": loss.item()})
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vitalsdsl_torch.data import Batches
    from vitalsdsl_torch.exits import BrokenOff, Ended, Paused, Stopped
    from vitalsdsl_torch.groups import parameter_groups
    from vitalsdsl_torch.guard import Guard
    from vitalsdsl_torch.limits import Limits
    from vitalsdsl_torch.validation import Validation
    from vitalsdsl_torch.vitals import Vitals

_HOME = {
    "Batches": "data",
    "BrokenOff": "exits",
    "Ended": "exits",
    "Guard": "guard",
    "Limits": "limits",
    "Paused": "exits",
    "Stopped": "exits",
    "Validation": "validation",
    "Vitals": "vitals",
    "parameter_groups": "groups",
}
"""Each public name and its module, loaded when first used."""

__all__ = [
    "Batches",
    "BrokenOff",
    "Ended",
    "Guard",
    "Limits",
    "Paused",
    "Stopped",
    "Validation",
    "Vitals",
    "parameter_groups",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'vitalsdsl_torch' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"vitalsdsl_torch.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
