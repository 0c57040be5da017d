"""What `run.log` calls come to: the rows that W&B keeps, built the way W&B builds them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from vitalsdsl.ground.points import number
from vitalsdsl_wandb.axis import Axis, covering

logger = logging.getLogger("vitalsdsl")

_DEEPEST = 200
"""Deeper than that W&B itself gives up."""

_WANDBS_OWN = frozenset(("", "_step", "_runtime", "_timestamp"))
"""Top-level keys that W&B leaves out or writes itself."""
_AFTER_ROLLBACK = "; after a rollback, call `monitor(run_id).rewind(step)`"


LEVEL = "vitals/level"
"""Our own key in W&B's rows: the level of the run. To rules it is no metric."""

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
    are evaluated is that of `axis.Axis`. As in W&B, a row that has a metric but not its step metric is given the last
    value of that, or 0 before the first.
    """

    def __init__(self, run: str, take: Takes, axis: str | None = None, first: int = 0) -> None:
        self.run = run
        self.take = take
        self.dropped = 0
        self._axis = Axis(axis, self._say, _AFTER_ROLLBACK)
        self._step = first
        self._open: dict[str, float] = {}
        self._parents: set[str] = set()
        self._is_open = False
        self._has_keys = False
        self._synced: dict[str, str] = {}
        self._last: dict[str, float] = {}
        self._said: set[str] = set()

    @property
    def axis(self) -> str | None:
        """The logged key that is the step; None while that is W&B's own."""
        return self._axis.key

    def define(self, pattern: str, step_metric: str, step_sync: bool | None = None) -> None:
        """A call of `run.define_metric` with a step metric."""
        self._axis.define(pattern, step_metric)
        if step_sync is not False:
            self._synced[pattern] = step_metric

    def log(self, data: Mapping[str, Any], step: int | None = None, commit: bool | None = None) -> None:
        """One call of `run.log`, after W&B has taken it."""
        if step is not None:
            if step < self._step:
                self.dropped += 1
                self._say(
                    "drop", f"W&B drops a row whose step ({step}) is below the current one ({self._step}), so rules do"
                )
                return
            if step > self._step:
                self._commit()
                self._step = step
        _gather(data, "", self._open, self._parents)
        self._is_open = True
        self._has_keys = self._has_keys or bool(data)
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
        has_keys, self._has_keys = self._has_keys, False
        if not was_open:
            return
        if self._synced and has_keys:
            self._sync(values)
        self.take(values, self._axis.step(values, self._step))

    def _sync(self, values: dict[str, float]) -> None:
        """Put in the step metrics of what a row holds, as W&B does before it keeps the row."""
        wanted = {self._synced["*"]} if "*" in self._synced else set()
        wanted.update(key for name in values if (key := covering(self._synced, name)) is not None)
        values.update({key: self._last.get(key, 0.0) for key in wanted if key not in values})
        self._last.update({key: values[key] for key in set(self._synced.values()) if key in values})

    def _say(self, word: str, text: str) -> None:
        if word not in self._said:
            self._said.add(word)
            logger.warning("vitals: run %s: %s", self.run, text)
