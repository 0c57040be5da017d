"""What `run.log` calls come to: the rows that W&B keeps, built the way W&B builds them."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from typing import Any

from vitalsdsl.points import number

logger = logging.getLogger("vitalsdsl")

TRAINER_STEPS = ("train/global_step", "trainer/global_step")
"""Keys under which trainers log their own step, W&B's counting only their calls."""

_DEEPEST = 200
"""Deeper than that W&B itself gives up."""

_WANDBS_OWN = frozenset(("", "_step", "_runtime"))
"""Top-level keys that W&B leaves out or writes itself."""


Takes = Callable[[dict[str, float], int], object]
"""Where a committed row goes."""


def flatten(data: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of one call under W&B's own flat names (`nest.y.z`); media, texts, booleans and lists left out.

    >>> flatten({"loss": 2.5, "nest": {"y": {"z": 1}}, "ok": True, "image": {"_type": "image-file", "size": 3}})
    {'loss': 2.5, 'nest.y.z': 1.0}
    """
    flat: dict[str, float] = {}
    _gather(data, "", flat, set())
    return flat


def _gather(data: Mapping[Any, Any], prefix: str, flat: dict[str, float], parents: set[str], depth: int = 0) -> None:
    """Put a call into an open row. As in W&B, what comes later replaces a value, a mapping or a text of its name, and
    mappings of one name grow together; `parents` are the names of mappings in the row."""
    for key, value in data.items():
        path = prefix + key if key.__class__ is str else f"{prefix}{key}"
        if value.__class__ is float and not parents and path not in _WANDBS_OWN:  # nearly always
            flat[path] = value
            continue
        x = number(value)
        if x is None and isinstance(value, Mapping) and "_type" not in value:
            if value and depth < _DEEPEST:
                flat.pop(path, None)
                parents.add(path)
                _gather(value, path + ".", flat, parents, depth + 1)
            continue
        if path in _WANDBS_OWN:
            continue
        if path in parents:
            parents.discard(path)
            for name in [name for name in flat if name.startswith(path + ".")]:
                del flat[name]
        if x is not None:
            flat[path] = x
        elif flat:
            flat.pop(path, None)


def commits(step: int | None, commit: bool | None) -> bool:
    """Whether a call of `run.log` completes its row: unless it says otherwise, one without a step does."""
    return step is None if commit is None else bool(commit)


class Rows:
    """The row that is open in one run, and the rules by which it commits. `first` is W&B's step at the beginning.

    `log(d)` commits; `commit=False` gathers; `step=n` gathers under n until a call with a later step, or one without a
    step, which joins it and commits. A step below the current one is dropped, as W&B drops it. The step on which rules
    are evaluated is that of `axis` (a logged key), else a trainer's own step key where there is one, else W&B's.
    """

    def __init__(self, run: str, take: Takes, axis: str | None = None, first: int = 0) -> None:
        self.run = run
        self.take = take
        self.axis = axis
        self.dropped = 0
        self._step = first
        self._open: dict[str, float] = {}
        self._parents: set[str] = set()
        self._is_open = False
        self._newest_axis: int | None = None
        self._said: set[str] = set()

    def log(self, data: Mapping[str, Any], step: int | None = None, commit: bool | None = None) -> None:
        """One call of `run.log`, after W&B has taken it."""
        if step is not None:
            if step < self._step:
                self.dropped += 1
                self._say(f"W&B drops a row whose step ({step}) is below the current one ({self._step}), so rules do")
                return
            if step > self._step:
                self._commit()
                self._step = step
        _gather(data, "", self._open, self._parents)
        self._is_open = True
        if commits(step, commit):
            self._commit()
            self._step += 1

    def finish(self) -> None:
        """The run ends: what is open is committed."""
        self._commit()

    def _commit(self) -> None:
        values, self._open = self._open, {}
        self._parents.clear()
        was_open, self._is_open = self._is_open, False
        if was_open:
            self.take(values, self._axis_step(values))

    def _axis_step(self, values: dict[str, float]) -> int:
        if self.axis is None:
            self._find_axis(values)
        if self.axis is None:
            self._newest_axis = self._step
            return self._step
        x = values.get(self.axis)
        if x is not None and math.isfinite(x):
            at = int(x)
            if self._newest_axis is not None and at < self._newest_axis:
                self._say(
                    f"`{self.axis}` went back (from {self._newest_axis} to {at}): what is logged below a metric's "
                    "newest step counts for no rule; after a rollback, call `monitor(run_id).rewind(step)`"
                )
            self._newest_axis = at
        elif self._newest_axis is None:
            self._say(f"rows before the first `{self.axis}` count at step 0")
        return self._newest_axis or 0

    def _find_axis(self, values: dict[str, float]) -> None:
        """A trainer's step that begins below W&B's steps that have counted already would make all its rows late."""
        for key in TRAINER_STEPS:
            x = values.get(key)
            if x is not None and math.isfinite(x) and x >= (self._newest_axis or 0):
                self.axis = key
                self._say(f"the step is taken from `{key}`")
                return

    def _say(self, text: str) -> None:
        if text.split("(")[0] not in self._said:
            self._said.add(text.split("(")[0])
            logger.warning("vitals: run %s: %s", self.run, text)
