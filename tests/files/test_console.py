"""The rows that a Hugging Face Trainer prints are read, whatever they are glued to."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from test_json_lines import one, rows, runs

COUNTED = "the rows have no step: they are counted, and the first is step 1"
BARS = "the rows have no step: it is read from the progress bar after each of them"


@pytest.mark.parametrize(
    "text",
    [
        "{'loss': 2.5, 'grad_norm': 1.5, 'learning_rate': 1e-05, 'epoch': 0.5}\n",
        "{'loss': '2.5', 'grad_norm': '1.5', 'learning_rate': '1e-05', 'epoch': '0.5'}\n",
        "{‘loss’: 2.5, ‘grad_norm’: 1.5, ‘learning_rate’: 1e-05, ‘epoch’: 0.5}\n",
        "12:00:01 INFO trainer {'loss': 2.5, 'grad_norm': 1.5, 'learning_rate': 1e-05, 'epoch': 0.5} done\n",
        "{'loss': 2.5, 'grad_norm': tensor(1.5, device='cuda:0'), 'learning_rate': np.float64(1e-05), 'epoch': 0.5}\n",
        "{'loss': 2.5, 'grad_norm': 1.5,\n 'learning_rate': 1e-05,\n 'epoch': 0.5}\n",
        "  5%|▌         | 1/20 [00:01<00:19]" + " " * 200 + "{'loss': 2.5, 'grad_norm': 1.5, 'learning_rate': 1e-05, "
        "'epoch': 0.5}\n",
    ],
)
def test_a_dict_is_a_row_however_it_is_written(tmp_path: Path, text: str) -> None:
    assert one(tmp_path, text) == (
        [(1, {"loss": 2.5, "grad_norm": 1.5, "learning_rate": 1e-5, "epoch": 0.5})],
        (COUNTED,),
    )


def test_an_evaluation_shares_the_number_of_its_training_row(tmp_path: Path) -> None:
    text = (
        "{'loss': 2.5, 'epoch': 0.01}\n{'loss': 2.25, 'epoch': 0.01}\n{'eval_loss': 2.125, 'epoch': 0.01}\n"
        "{'loss': 2.0, 'epoch': 0.02}\n{'train_runtime': 9.5, 'train_loss': 2.2, 'epoch': 0.02}\n"
    )
    read_rows, notes = one(tmp_path, text)
    assert [(step, *values) for step, values in read_rows] == [  # type: ignore[misc]
        (1, "loss", "epoch"),
        (2, "loss", "epoch"),
        (2, "eval_loss", "epoch"),
        (3, "loss", "epoch"),
    ]
    assert set(notes) == {
        COUNTED,
        "the row with `train_runtime` is left out: its `train_loss` is a mean over the whole run",
    }


def test_nan_stays_nan_and_a_loss_that_was_filtered_is_said(tmp_path: Path) -> None:
    text = "{'loss': nan, 'epoch': 0.1}\n{'loss': 0.0, 'grad_norm': nan, 'epoch': 0.2}\n{'loss': 0.0, 'epoch': 0.3}\n"
    read_rows, notes = one(tmp_path, text)
    losses = [values["loss"] for _, values in read_rows]  # type: ignore[index]
    assert [math.isnan(loss) for loss in losses] == [True, True, False]
    assert (
        "a `loss` of 0.0 in 1 row, where `grad_norm` is NaN, is read as NaN: the Trainer's logging_nan_inf_filter writes "
        "it so"
    ) in notes


def bar(step: int, total: int) -> str:
    return f"\r {step * 100 // total:2d}%|█▌   | {step}/{total} [00:10<01:30,  9.5it/s]"


def test_progress_bars_tell_the_steps(tmp_path: Path) -> None:
    text = bar(0, 40)
    for step in range(5, 41, 5):
        text += (
            bar(step - 2, 40) + f"\r{' ' * 60}\r{{'loss': {3 - step / 40}, 'epoch': {step / 16:.2f}}}\n{bar(step, 40)}"
        )
        if step % 20 == 0:
            text += f"\r  0%|   | 0/7 [00:00<?]{bar(7, 7)}"
            text += f"\r{' ' * 60}\r{{'eval_loss': 2.5, 'epoch': {step / 16:.2f}}}\n{bar(step, 40)}"
    [run] = runs(tmp_path, text)
    assert [row[0] for row in rows(run)] == [5, 10, 15, 20, 20, 25, 30, 35, 40, 40]
    assert run.info.total_steps == 40
    assert run.info.notes == (BARS,)


def test_bars_glued_to_one_another_tell_the_steps_too(tmp_path: Path) -> None:
    text = "Loading shards:   0%|   | 0/3 [00:00<?, ?it/s]Loading shards: 100%|███| 3/3 [00:02<00:00,  1.07it/s]\n"
    for step in range(1, 41):
        text += bar(step, 40).replace("\r", " ")
        if step % 10 == 0:
            text += f"{' ' * 80}{{'loss': 2.5, 'epoch': {step / 16:.2f}}}\n" + bar(step, 40).replace("\r", " ")
    [run] = runs(tmp_path, text)
    assert [row[0] for row in rows(run)] == [10, 20, 30, 40]


def test_bars_that_do_not_follow_the_rows_tell_nothing(tmp_path: Path) -> None:
    text = "".join(bar(s, 40) for s in range(40)) + "".join(f"\n{{'loss': 2.5, 'epoch': {s / 16}}}" for s in range(9))
    read_rows, notes = one(tmp_path, text + "\n")
    assert [row[0] for row in read_rows] == [*range(1, 10)]
    assert notes == (COUNTED,)


def test_bars_copied_from_a_terminal_tell_nothing(tmp_path: Path) -> None:
    text = "".join(
        f"{{'loss': 2.5, 'epoch': {at / 100}}}\n{bar(step, 900)}" for at, step in enumerate([13, 27, 31, 48])
    )
    assert [row[0] for row in one(tmp_path, text)[0]] == [1, 2, 3, 4]


def test_a_key_that_holds_the_step_is_the_step(tmp_path: Path) -> None:
    text = "{'loss': '2.5', 'epoch': '0.1', 'global_step/max_steps': '10/1000', 'percentage': '1.00%'}\n"
    [run] = runs(tmp_path, text)
    assert rows(run) == [(10, {"loss": 2.5, "epoch": 0.1, "percentage": 1.0})]
    assert run.info.total_steps == 1000


def test_whole_epochs_that_differ_are_the_step(tmp_path: Path) -> None:
    text = "{'loss': 2.5, 'epoch': 1.0}\n{'eval_loss': 2.75, 'epoch': 1.0}\n{'loss': 2.25, 'epoch': 2.0}\n"
    read_rows, notes = one(tmp_path, text)
    assert [row[0] for row in read_rows] == [1, 1, 2]
    assert notes == ("the step is read from `epoch`",)


def test_an_epoch_that_falls_is_a_resume_or_a_new_run(tmp_path: Path) -> None:
    def text(epochs: list[int]) -> str:
        return "".join(f"{{'loss': 2.5, 'epoch': {e / 100}}}\n" for e in epochs)

    [resumed] = runs(tmp_path, text([*range(1, 100), *range(97, 120)]))
    assert [row for row in rows(resumed) if row[0] == "rewind"] == [("rewind", 96)]
    assert rows(resumed)[-1][0] == 119
    anew = runs(tmp_path, text([*range(1, 100), *range(1, 30)]))
    assert [len(rows(run)) for run in anew] == [99, 29]
