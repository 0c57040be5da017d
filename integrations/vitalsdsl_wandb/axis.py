"""Which logged key is the training step of a run, W&B's own step counting only calls of `run.log`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

OWN_STEP = "_step"
"""W&B's name for its own step; as an axis it says that this is the training step."""

TRAINER_STEPS = ("train/global_step", "trainer/global_step")
"""Keys under which trainers log their own step."""

Says = Callable[[str, str], None]
"""Where a remark goes: a word that is the same for all of its kind, and the remark."""


class Axis:
    """The step at which each row of one run counts, row by row in the order in which W&B keeps them.

    It is the value of the key that the policy names (`_step`: W&B's own); else of the step metric that the run itself
    defines for `*`, or for every metric that it has logged; else of a trainer's own step; else W&B's step. What the
    policy does not name is taken from the first row that has it, and said. A row without the key belongs to its newest
    value; a value that is not finite leaves the step where it was.
    """

    def __init__(self, key: str | None, say: Says, on_return: str = "") -> None:
        self.key = None if key == OWN_STEP else key
        self._is_settled = key is not None
        self._say = say
        self._on_return = on_return
        self._newest: int | None = None
        self._star: str | None = None
        self._defined: dict[str, str] = {}
        self._all_covered = True

    @property
    def newest(self) -> int | None:
        """The step of the newest row; None before the first one."""
        return self._newest

    def define(self, pattern: str, step_metric: str) -> None:
        """The run says on which step metric a metric, or all whose names begin so (`val/*`), are to be drawn."""
        if not step_metric or step_metric.startswith("_"):
            return
        if pattern == "*":
            self._star = step_metric
        else:
            self._defined[pattern] = step_metric

    def step(self, values: Mapping[str, float], own: int) -> int:
        """Where a row counts; `own` is W&B's step."""
        if not self._is_settled:
            self._find(values)
        if self.key is None:
            self._newest = own
            return own
        at = self.value(values)
        if at is not None:
            if self._newest is not None and at < self._newest:
                self._say(
                    "return",
                    f"`{self.key}` went back (from {self._newest} to {at}): what is logged below a metric's newest "
                    f"step counts for no rule{self._on_return}",
                )
            self._newest = at
        elif self._newest is None:
            self._say("before", f"rows before the first `{self.key}` count at step 0")
        return self._newest or 0

    def value(self, values: Mapping[str, float]) -> int | None:
        """The step that a row itself names under the key; None where it names none."""
        x = values.get(self.key) if self.key is not None else None
        return int(x) if x is not None and math.isfinite(x) else None

    def rewind(self, step: int) -> None:
        """The run went back: the newest step is this one."""
        if self._newest is not None:
            self._newest = min(self._newest, step)

    def _find(self, values: Mapping[str, float]) -> None:
        """A key that begins at or below W&B's steps that have counted already would make its rows late: not taken."""
        for key in (self._step_metric(values), *TRAINER_STEPS):
            x = values.get(key) if key is not None else None
            if x is not None and math.isfinite(x) and (self._newest is None or int(x) > self._newest):
                self.key = key
                self._is_settled = True
                self._say("axis", f"the step is taken from `{key}`")
                return

    def _step_metric(self, values: Mapping[str, float]) -> str | None:
        """The one step metric that the run defines for all of its metrics."""
        if self._star is not None:
            return self._star
        if not self._defined:
            return None
        named = sorted(set(self._defined.values()))
        if len(named) > 1:
            self._say(
                "several",
                f"its metrics have several step metrics ({', '.join(f'`{key}`' for key in named)}): the step is W&B's "
                'own unless the policy names one with `axis "KEY"`',
            )
            return None
        self._all_covered = self._all_covered and all(
            name == named[0] or covering(self._defined, name) is not None for name in values
        )
        return named[0] if self._all_covered else None

    def save(self) -> dict[str, Any]:
        """What going on needs, as plain data."""
        state: dict[str, Any] = {"key": self.key, "newest": self._newest}
        if not self._is_settled:
            state |= {"star": self._star, "defined": dict(self._defined), "covered": self._all_covered}
        return state

    def load(self, state: Mapping[str, Any]) -> None:
        """Take up what was saved. A key that was found then is kept; one that is named now outranks it."""
        self._newest = state["newest"]
        if not self._is_settled:
            self.key = state["key"]
            self._is_settled = self.key is not None
        if not self._is_settled:
            self._star = state.get("star")
            self._defined = dict(state.get("defined", {}))
            self._all_covered = bool(state.get("covered", True))


def covering(defined: Mapping[str, str], name: str) -> str | None:
    """The step metric that the definitions give a metric: by its own name, else by the longest beginning.

    >>> covering({"val/*": "epoch", "loss": "step"}, "val/acc"), covering({"val/*": "epoch"}, "loss")
    ('epoch', None)
    """
    if name in defined:
        return defined[name]
    found = [pattern for pattern in defined if pattern.endswith("*") and name.startswith(pattern[:-1])]
    return defined[max(found, key=len)] if found else None
