"""Metrics are read out of what frameworks print for people: Megatron, nanoGPT, llm.c."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import vitalsdsl_files
from test_json_lines import one, rows, runs

from vitalsdsl.ground.errors import SourceError

MEGATRON = (
    "using world size: 8, data-parallel-size: 2\n"
    "[default7]: iteration       10/     400 | consumed samples:         2560 | elapsed time per iteration (ms): 812.4 | "
    "learning rate: 1.500E-06 | global batch size:   256 | lm loss: 1.067E+01 | loss scale: 65536.0 | "
    "grad norm: 12.5 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    "[default7]:time (ms) | forward-compute: 10.5 | optimizer: 3.25\n"
    "[default7]: iteration       20/     400 | consumed samples:         5120 | elapsed time per iteration (ms): 812.4 | "
    "learning rate: 1.500E-06 | global batch size:   256 | loss scale: 32768.0 | "
    "grad norm: nan | number of skipped iterations:   10 | number of nan iterations:   1 |\n"
    "-----------------------------------------\n"
    " validation loss at iteration 20 | lm loss value: 9.5E+00 | lm loss PPL: 1.3E+04 | \n"
    "-----------------------------------------\n"
    " test loss at the end of training for test data | lm loss value: 9.25E+00 | lm loss PPL: 1.0E+04 | \n"
)


def test_megatron_rows_have_the_names_that_are_printed(tmp_path: Path) -> None:
    [run] = runs(tmp_path, MEGATRON)
    first, second, evaluation, test = rows(run)
    assert first == (
        10,
        {
            "consumed samples": 2560.0,
            "elapsed time per iteration (ms)": 812.4,
            "learning rate": 1.5e-6,
            "global batch size": 256.0,
            "lm loss": 10.67,
            "loss scale": 65536.0,
            "grad norm": 12.5,
            "number of skipped iterations": 0.0,
            "number of nan iterations": 0.0,
        },
    )
    assert second[0] == 20
    assert isinstance(second[1], dict)
    assert "lm loss" not in second[1]
    assert math.isnan(second[1]["grad norm"])
    assert evaluation == (20, {"lm loss validation": 9.5, "lm loss validation ppl": 13000.0})
    assert test == (20, {"lm loss test": 9.25, "lm loss test ppl": 10000.0})
    assert run.info.total_steps == 400
    assert run.info.notes == ("the step is read from `iteration`",)


@pytest.mark.parametrize(
    "line",
    [
        " iteration 5/ 9 | lm loss: 2.5E+00 | grad norm: 1.0 |\n",
        " [2025-03-01 10:00:00.123] iteration        5/       9 | lm loss: 2.5E+00 | grad norm: 1.0 |\n",
        "3:  iteration 5/9 | lm loss: 2.5 | grad norm: 1.0 | time (ms)\n",
        "\x1b[32m0: iteration 5/ 9 | lm loss: 2.5E+00 | grad norm: 1.0 |\x1b[0m\n",
        "\ufeffiteration 5/ 9 | lm loss: 2.5E+00 | grad norm: 1.0\n",
    ],
)
def test_what_stands_before_and_after_a_megatron_row_does_not_matter(tmp_path: Path, line: str) -> None:
    assert one(tmp_path, line)[0] == [(5, {"lm loss": 2.5, "grad norm": 1.0})]


def test_two_megatron_rows_on_one_line_are_two_rows(tmp_path: Path) -> None:
    text = "iteration 1/ 9 | lm loss: 2.5 | grad norm: 1.0 | iteration 2/ 9 | lm loss: 2.25 | grad norm: 1.5 |\n"
    assert one(tmp_path, text)[0] == [
        (1, {"lm loss": 2.5, "grad norm": 1.0}),
        (2, {"lm loss": 2.25, "grad norm": 1.5}),
    ]


def test_gpt_neox_rows_and_evaluations_are_read(tmp_path: Path) -> None:
    text = (
        " samples/sec: 12.5 | iteration       10/     100 | elapsed time per iteration (ms): 900.0 | "
        "learning rate: 1.0E-05 | approx flops per GPU: 41.5TFLOPS | lm_loss: 9.5E+00 | loss scale: 4096.0 |\n"
        " validation results at iteration 10 | lm_loss value: 9.25E+00 | lm_loss_ppl value: 1.04E+04 | \n"
    )
    assert one(tmp_path, text)[0] == [
        (
            10,
            {
                "samples/sec": 12.5,
                "elapsed time per iteration (ms)": 900.0,
                "learning rate": 1e-5,
                "approx flops per GPU": 41.5,
                "lm_loss": 9.5,
                "loss scale": 4096.0,
            },
        ),
        (10, {"lm_loss validation": 9.25, "lm_loss validation ppl": 10400.0}),
    ]


def test_a_last_line_that_breaks_off_is_read_as_far_as_it_is_whole(tmp_path: Path) -> None:
    text = "iter 0: loss 4.5, time 80.5ms, mfu 1.5%\niter 1: loss 4.25, time 80.0ms, mfu 1.5%\niter 2: loss 4.1, ti"
    assert one(tmp_path, text) == (
        [
            (0, {"loss": 4.5, "time": 80.5, "mfu": 1.5}),
            (1, {"loss": 4.25, "time": 80.0, "mfu": 1.5}),
            (2, {"loss": 4.1}),
        ],
        ("the last line, 3, has no line end: what may be cut off in it is not read",),
    )


def test_nanogpt_lines_are_rows(tmp_path: Path) -> None:
    text = (
        "number of parameters: 10.65M\n"
        "step 0: train loss 4.25, val loss 4.5\n"
        "iter 0: loss 4.75, time 2500.5ms, mfu -100.00%\n"
        "saving checkpoint to out\n"
        "iter 10: loss nan, time 20.5ms, mfu 12.5%\n"
    )
    first, second, third = one(tmp_path, text)[0]
    assert first == (0, {"train loss": 4.25, "val loss": 4.5})
    assert second == (0, {"loss": 4.75, "time": 2500.5, "mfu": -100.0})
    assert third[0] == 10
    assert isinstance(third[1], dict)
    assert math.isnan(third[1]["loss"])


def test_a_sweep_in_one_text_is_taken_apart(tmp_path: Path) -> None:
    text = "".join(f"iter {s}: loss {4 - s / 50}, time 20.00ms\n" for s in [*range(0, 100, 10), *range(0, 60, 10)])
    found = runs(tmp_path, text)
    assert [[row[0] for row in rows(run)] for run in found] == [[*range(0, 100, 10)], [*range(0, 60, 10)]]


def test_modded_nanogpt_lines_are_rows(tmp_path: Path) -> None:
    text = (
        "import os\nimport sys\nnvidia-smi | head\n"
        "step:0/1390 val_loss:10.75 train_time:0ms step_avg:nanms\n"
        "step:1/1390 train_loss:10.5 train_time:125ms step_avg:nanms\n"
        "step:11/1390 train_loss:9.5 train_time:1250ms step_avg:125.5ms\n"
    )
    [run] = runs(tmp_path, text)
    assert [row[0] for row in rows(run)] == [0, 1, 11]
    assert rows(run)[2] == (11, {"train_loss": 9.5, "train_time": 1250.0, "step_avg": 125.5})
    assert run.info.total_steps == 1390


def test_the_main_log_of_llm_c_is_read(tmp_path: Path) -> None:
    text = "s:0 tel:10.9375\ns:0 trl:10.9500 lr:0.000120 norm:15.50\ns:1 trl:10.5 lr:0.00024 norm:-nan\ns:1 eval:0.25\n"
    read_rows, notes = one(tmp_path, text)
    assert read_rows[:2] == [(0, {"tel": 10.9375}), (0, {"trl": 10.95, "lr": 0.00012, "norm": 15.5})]
    assert read_rows[3] == (1, {"eval": 0.25})
    assert notes == ()


def test_the_console_of_llm_c_is_read(tmp_path: Path) -> None:
    text = (
        "| max_sequence_length T | 1024 |\n"
        "val loss 11.0\n"
        "step    1/18865 | loss 11.25 (+nanz)| norm 15.5 (+nanz)| lr 8.5e-07 | 3056.5 ms | 40.5% bf16 MFU | 171000 tok/s\n"
        "val loss 10.5\n"
    )
    [run] = runs(tmp_path, text)
    assert rows(run) == [
        (0, {"val loss": 11.0}),
        (1, {"loss": 11.25, "norm": 15.5, "lr": 8.5e-7, "ms": 3056.5, "MFU": 40.5, "tok/s": 171000.0}),
        (1, {"val loss": 10.5}),
    ]
    assert run.info.total_steps == 18865


def test_rows_may_begin_far_into_a_log(tmp_path: Path) -> None:
    preamble = "loading shard (a long line of words that mean nothing to anybody)\n" * 60_000
    assert one(tmp_path, preamble + MEGATRON)[0][0][0] == 10


def test_a_text_without_metrics_is_in_no_known_format(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="`log` is in no known log format"):
        runs(tmp_path, "starting up\nall is well\n" * 50)


def test_a_big_text_read_again_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = [rows(run) for run in runs(tmp_path, MEGATRON.replace("nan |", "1.5 |"))]
    monkeypatch.setattr(vitalsdsl_files.reader, "HELD", 3)
    assert [rows(run) for run in runs(tmp_path, MEGATRON.replace("nan |", "1.5 |"))] == held
