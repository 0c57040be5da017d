"""A policy over a run that was logged, given as rows or columns."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from vitalsdsl.attaching.session import whole_step
from vitalsdsl.columns.batch import Batch
from vitalsdsl.ground.errors import UsageError
from vitalsdsl.ground.points import Rewind, Row, number
from vitalsdsl.policies.policy import LoadedPolicy, as_policy
from vitalsdsl.verdicts.verdict import Transition


def replay(
    policy: str | os.PathLike[str] | LoadedPolicy,
    rows: Iterable[Mapping[str, Any] | Row | Rewind] | Mapping[str, Sequence[Any]],
    *,
    run: str = "run",
    nan_is_missing: bool = False,
    total_steps: float = math.nan,
) -> list[Transition]:
    """The transitions that a policy (a file, `pack:NAME`, or one that was loaded) gives on points that were logged.

    `rows` are dicts with a `step` (and `_time`, in seconds, where known), `{"rewind": k}` among them, or one mapping of
    equal-length columns. None and a masked entry are no point; NaN is one, unless `nan_is_missing`. Raises UsageError
    for a step that is no whole number.

    >>> import vitalsdsl as vitals
    >>> policy = vitals.load("spikes", text="when loss > 3 -> red")
    >>> [t.step for t in vitals.replay(policy, {"step": [1, 2, 3], "loss": [1.0, 5.0, None]})]
    [2]
    """
    loaded = as_policy(policy)
    return Batch(loaded.policy, loaded.digest).transitions(list(events(rows, nan_is_missing)), run, total_steps)


def events(
    rows: Iterable[Mapping[str, Any] | Row | Rewind] | Mapping[str, Sequence[Any]], nan_is_missing: bool = False
) -> Iterator[Row | Rewind]:
    """Rows of any of the accepted forms as rows and rewinds."""
    if isinstance(rows, Mapping):
        names = list(rows)
        if "step" not in names:
            raise UsageError("columns need one called `step`")
        if len({len(rows[name]) for name in names}) != 1:
            raise UsageError("columns must be of equal length")
        rows = (dict(zip(names, values)) for values in zip(*(_listed(rows[name]) for name in names)))
    for row in rows:
        if isinstance(row, (Row, Rewind)):
            yield row
        elif "rewind" in row:
            yield Rewind(whole_step(row["rewind"]))
        else:
            yield _row(row, nan_is_missing)


def _listed(column: Sequence[Any]) -> Sequence[Any]:
    """A column of an array's numbers as plain ones, all at once: one by one it takes five times as long."""
    kind, mask = getattr(getattr(column, "dtype", None), "kind", ""), getattr(column, "mask", None)
    if kind and kind in "fiu" and getattr(column, "ndim", 0) == 1 and (mask is None or callable(mask)):
        listed: Sequence[Any] = column.tolist()  # type: ignore[attr-defined]
        return listed
    return column


def _row(row: Mapping[str, Any], nan_is_missing: bool) -> Row:
    step = number(row.get("step"))
    if step is None or not step.is_integer():
        raise UsageError(f"a row needs a whole `step`, not {row.get('step')!r}")
    values = {}
    for name, given in row.items():
        value = number(given) if name not in ("step", "_time") else None
        if value is not None and not (nan_is_missing and value != value):
            values[name] = value
    time = number(row.get("_time"))
    return Row(int(step), values, math.nan if time is None else time)
