"""Hugging Face `trainer_state.json`: what the Trainer logged, in the `log_history` of each checkpoint."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from vitalsdsl.ground.errors import SourceError
from vitalsdsl.ground.points import Rewind, Row, number
from vitalsdsl_files.format import Format, Reading
from vitalsdsl_files.json_text import parse
from vitalsdsl_files.patterns import pattern
from vitalsdsl_files.rows import flat, stepped, whole

_HISTORY = pattern(r'["“”]log_history["“”]\s*:\s*\[')


class TrainerState(Format):
    """The rows of `log_history`. `max_steps` is the run's length.

    A row with `train_runtime` holds means over the whole run, so it is left out. A row without a step is read at the
    step before it. The Trainer logs a loss of NaN as 0.0 unless told otherwise: where the gradient norm of the same
    step is NaN, a loss of exactly 0.0 is read as NaN.
    """

    name = "trainer_state.json"
    priority = 10

    def recognises(self, head: str) -> bool:
        return head.lstrip("\ufeff \t\r\n").startswith("{") and _HISTORY.search(head) is not None

    def read(self, stream: TextIO, reading: Reading) -> Iterator[Row | Rewind]:
        state = _state(stream.read(), reading)
        length = number(state.get("max_steps"))
        reading.total_steps = length if length is not None and length > 0 else math.nan
        history = [flat(row) for row in state["log_history"] if isinstance(row, dict)]
        rows = _with_steps(_without_means(history, reading), reading)
        _unfilter(rows, reading)
        if not rows:
            raise SourceError(
                f"`{reading.name}` has no rows in its `log_history`: nothing was logged before it was saved"
            )
        return stepped(rows, reading)


def _state(text: str, reading: Reading) -> dict[str, Any]:
    try:
        state = parse(text.strip("\ufeff\0 \t\r\n"))
    except ValueError as problem:
        raise SourceError(f"`{reading.name}` is cut off or damaged: it is not whole JSON") from problem
    if not isinstance(state, dict) or not isinstance(state.get("log_history"), list):
        raise SourceError(f"`{reading.name}` has no list `log_history`")
    return state


def _without_means(history: Sequence[dict[str, object]], reading: Reading) -> list[dict[str, object]]:
    kept = [row for row in history if "train_runtime" not in row]
    if len(kept) < len(history):
        reading.notes.append("the row with `train_runtime` is left out: its `train_loss` is a mean over the whole run")
    return kept


def _with_steps(history: Sequence[dict[str, object]], reading: Reading) -> list[dict[str, object]]:
    key = reading.step_key or "step"
    rows: list[dict[str, object]] = []
    latest: int | None = None
    carried = 0
    for row in history:
        step = whole(row.get(key))
        if step is None and latest is not None:
            row = {**row, key: latest}
            carried += 1
        latest = latest if step is None else step
        rows.append(row)
    if carried:
        them, are = ("1 row has", "is") if carried == 1 else (f"{carried} rows have", "are")
        reading.notes.append(f"{them} no `{key}` and {are} read at the step of the row before")
    return rows


def _unfilter(rows: Sequence[dict[str, object]], reading: Reading) -> None:
    key = reading.step_key or "step"
    broken = {whole(row.get(key)) for row in rows if math.isnan(_number(row.get("grad_norm")))} - {None}
    found = [row for row in rows if _number(row.get("loss"), absent=1.0) == 0.0 and whole(row.get(key)) in broken]
    for row in found:
        row["loss"] = math.nan
    if found:
        where = f"at step {found[0].get(key)}" + (f" and {len(found) - 1} more" if len(found) > 1 else "")
        reading.notes.append(
            f"a `loss` of 0.0 {where}, where `grad_norm` is NaN, is read as NaN: the Trainer's logging_nan_inf_filter "
            "writes it so"
        )


def _number(value: object, absent: float = 0.0) -> float:
    found = number(value)
    return absent if found is None else found


FORMAT = TrainerState()
