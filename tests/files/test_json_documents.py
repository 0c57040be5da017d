"""JSON in other shapes than one flat object a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_json_lines import one, runs

from vitalsdsl.ground.errors import SourceError


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_list_of_rows_is_read(tmp_path: Path, indent: int | None, wrapped: bool) -> None:
    listed = [{"step": 10, "loss": 2.5, "opt": {"lr": 0.5}}, {"step": 20, "loss": "NaN"}, {"step": 20, "eval_loss": 2}]
    text = json.dumps({"model": "m", "history": listed} if wrapped else listed, indent=indent)
    read_rows, notes = one(tmp_path, text)
    assert [(row[0], *row[1]) for row in read_rows] == [  # type: ignore[misc]
        (10, "loss", "opt.lr"),
        (20, "loss"),
        (20, "eval_loss"),
    ]
    assert notes == (("the rows are those of `history`",) if wrapped else ())


@pytest.mark.parametrize("indent", [None, 2])
def test_the_history_of_keras_is_counted(tmp_path: Path, indent: int | None) -> None:
    text = json.dumps({"loss": [2.5, 2.25, 2.0], "val_loss": [2.75, None, 2.5]}, indent=indent)
    read_rows, notes = one(tmp_path, text)
    assert read_rows == [(1, {"loss": 2.5, "val_loss": 2.75}), (2, {"loss": 2.25}), (3, {"loss": 2.0, "val_loss": 2.5})]
    assert notes == ("the columns have no step: their rows are counted, and the first is step 1",)


def test_columns_with_a_step_are_read_at_it(tmp_path: Path) -> None:
    text = json.dumps({"step": [0, 10], "loss": [2.5, 2.0], "lr": [0.5]})
    assert one(tmp_path, text) == (
        [(0, {"loss": 2.5, "lr": 0.5}), (10, {"loss": 2.0})],
        ("the columns differ in length: each is read from the first row on",),
    )


@pytest.mark.parametrize("indent", [None, 2])
def test_a_summary_of_wandb_is_one_row(tmp_path: Path, indent: int | None) -> None:
    text = json.dumps({"_step": 40, "loss": float("nan"), "_wandb": {"runtime": 9}, "a": {"b": 0.5}}, indent=indent)
    [(step, values)], _ = one(tmp_path, text)
    assert step == 40
    assert isinstance(values, dict)
    assert list(values) == ["loss", "a.b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"step": 1, "loss": 2.5}, {"step": 2, "lo', "`log` is cut off or damaged: it is not whole JSON"),
        ('[\n {"text": "a"},\n {"text": "b"}\n]', "`log` has no step, and no key .* its keys are `text`"),
        ('{"a": [{"step": 1}],\n "b": [{"step": 1}]}', "`log` has several lists of rows \\(`a`, `b`\\)"),
        ('{"ids": [1, 2],\n "sizes": [3, 4]}', "`log` has no step"),
    ],
)
def test_what_cannot_be_rows_is_refused_in_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        runs(tmp_path, text)


def test_metrics_in_a_list_of_objects_are_called_as_each_is(tmp_path: Path) -> None:
    text = (
        "\ufeff\n"
        '{"step": 1, "metrics": [{"name": "loss", "value": 2.5}, {"name": "acc", "value": "0.5"}]}\n'
        '{"step": 2, "eval": [{"task": "code", "ppl": 8.5}, {"task": "math", "ppl": 9.5}], "ids": [1, 2]}\n'
        '{"step": 3, "note": "saved"}\n'
    )
    assert one(tmp_path, text)[0] == [
        (1, {"loss": 2.5, "acc": 0.5}),
        (2, {"eval.code.ppl": 8.5, "eval.math.ppl": 9.5}),
        (3, {}),
    ]


@pytest.mark.parametrize("key", ["type", "split", "phase", "mode"])
def test_an_evaluations_metrics_are_not_taken_for_the_trainings(tmp_path: Path, key: str) -> None:
    text = (
        f'{{"step": 1, "{key}": "train", "loss": 2.5}}\n'
        f'{{"step": 1, "{key}": "eval", "loss": 2.75, "eval_acc": 0.5, "epoch": 1}}\n'
    )
    assert one(tmp_path, text) == (
        [(1, {"loss": 2.5}), (1, {"eval/loss": 2.75, "eval_acc": 0.5, "epoch": 1.0})],
        ("metrics of rows that say they are of `eval` are called `eval/…`",),
    )
    table = f"step,{key},loss\n1,train,2.5\n1,valid,2.75\n"
    assert one(tmp_path, table)[0] == [(1, {"loss": 2.5}), (1, {"valid/loss": 2.75})]
