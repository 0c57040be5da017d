"""A Hugging Face trainer_state.json gives the points that the Trainer meant."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from test_json_lines import one, rows, runs

from vitalsdsl.ground.errors import SourceError


def state(history: list[Any], **more: Any) -> str:
    fields = {"best_metric": None, "global_step": 30, "is_hyper_param_search": False, "log_history": history}
    return json.dumps({**fields, **more}, indent=2)


HISTORY = [
    {"epoch": 0.5, "grad_norm": 1.5, "learning_rate": 5e-05, "loss": 2.5, "step": 10},
    {"epoch": 1.0, "grad_norm": "nan", "learning_rate": 4e-05, "loss": 2.25, "step": 20},
    {"epoch": 1.0, "eval_loss": 2.0, "eval_runtime": 3.5, "step": 20},
    {"epoch": 1.0, "step": 20, "total_flos": 1e15, "train_loss": 2.4, "train_runtime": 99.0},
]


@pytest.mark.parametrize("indent", [None, 2])
def test_train_and_eval_rows_are_read_and_run_means_are_not(tmp_path: Path, indent: int | None) -> None:
    text = json.dumps({"log_history": HISTORY, "max_steps": 3000}, indent=indent)
    [run] = runs(tmp_path, text, name="trainer_state.json")
    first, second, third = rows(run)
    assert first == (10, {"epoch": 0.5, "grad_norm": 1.5, "learning_rate": 5e-05, "loss": 2.5})
    assert isinstance(second[1], dict)
    assert math.isnan(second[1]["grad_norm"])
    assert second[1]["loss"] == 2.25
    assert third == (20, {"epoch": 1.0, "eval_loss": 2.0, "eval_runtime": 3.5})
    assert (run.info.name, run.info.total_steps) == (tmp_path.name, 3000.0)
    assert run.info.notes == (
        "the row with `train_runtime` is left out: its `train_loss` is a mean over the whole run",
    )


@pytest.mark.parametrize("length", [0, -1, None])
def test_a_length_that_is_none_is_unknown(tmp_path: Path, length: int | None) -> None:
    [run] = runs(tmp_path, state(HISTORY, max_steps=length))
    assert math.isnan(run.info.total_steps)


def test_rows_without_a_step_are_read_at_the_step_before(tmp_path: Path) -> None:
    history = [{"loss": 3.0}, {"loss": 2.0, "step": 5}, {"predict_loss": 1.0}]
    assert one(tmp_path, state(history)) == (
        [(5, {"loss": 2.0}), (5, {"predict_loss": 1.0})],
        (
            "1 row has no `step` and is read at the step of the row before",
            "1 row has no whole number under `step` and is left out",
        ),
    )


@pytest.mark.parametrize("norm", [math.nan, "nan", "NaN"])
def test_a_loss_of_zero_where_the_gradient_norm_is_nan_was_nan(tmp_path: Path, norm: Any) -> None:
    history = [
        {"loss": 2.0, "grad_norm": 1.0, "step": 1},
        {"loss": 0.0, "grad_norm": norm, "step": 2},
        {"loss": 0.0, "grad_norm": 1.0, "step": 3},
        {"loss": 1.0, "grad_norm": norm, "step": 4},
    ]
    read_rows, notes = one(tmp_path, state(history))
    losses = [values["loss"] for _, values in read_rows if isinstance(values, dict)]
    assert [repr(loss) for loss in losses] == ["2.0", "nan", "0.0", "1.0"]
    assert notes == (
        (
            "a `loss` of 0.0 at step 2, where `grad_norm` is NaN, is read as NaN: "
            "the Trainer's logging_nan_inf_filter writes it so"
        ),
    )


def test_a_small_step_back_is_a_resume(tmp_path: Path) -> None:
    steps = [*range(10, 1010, 10), *range(970, 1030, 10)]
    [run] = runs(tmp_path, state([{"loss": 1.0, "step": s} for s in steps]))
    assert [r[0] for r in rows(run)][99:102] == [1000, "rewind", 970]
    assert ("rewind", 969) in rows(run)
    assert run.info.notes == ("the step goes back from 1000 to 970: read as a resume, which replaces those steps",)


def test_a_new_run_keeps_the_length(tmp_path: Path) -> None:
    found = runs(tmp_path, state([{"loss": 1.0, "step": s} for s in [1, 2, 3, 1, 2]], max_steps=3))
    assert [(r.info.name, r.info.total_steps) for r in found] == [("log", 3.0), ("log#2", 3.0)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (state([]), "has no rows in its `log_history`"),
        (state(HISTORY)[:300], "is cut off or damaged: it is not whole JSON"),
        (state(["loss", 3]), "has no rows in its `log_history`"),
        ('{"log_history": [' + "[" * 100_000, "is cut off or damaged"),
    ],
)
def test_a_state_without_rows_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        runs(tmp_path, text)


def test_a_step_key_can_be_named(tmp_path: Path) -> None:
    history = [{"loss": 2.0, "step": 5, "tokens": 500}, {"eval_loss": 2.0, "step": 5}]
    assert one(tmp_path, state(history), step_key="tokens")[0] == [
        (500, {"loss": 2.0, "step": 5.0}),
        (500, {"eval_loss": 2.0, "step": 5.0}),
    ]
